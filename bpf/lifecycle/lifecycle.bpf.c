// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The life of processes: start, exec, end, and whether the OOM killer ended them.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../include/compat.bpf.h"
#include "../include/filter.bpf.h"
#include "abi.h"
#include "exec.bpf.h"
#include "exit.bpf.h"
#include "failed.bpf.h"
#include "oom.bpf.h"
#include "peak.bpf.h"
#include "signal.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* Children of this process are followed; 0 follows none. */
__u32 follow_children_of;

/* In the context of the parent. The child does not run yet, and is in its cgroup already. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct process_start event = {};
	__u32 pid = child->tgid;
	__u64 start;

	/* Another thread of the same process. */
	if (child->pid != child->tgid)
		return 0;
	__sync_fetch_and_add(&process_row(cgroup_of(child))->starts, 1);
	if (filter_processes &&
	    (is_followed(parent) ||
	     (follow_children_of && (__u32)parent->tgid == follow_children_of))) {
		start = child->start_boottime;
		if (bpf_map_update_elem(&followed, &pid, &start, BPF_ANY))
			count_loss(LOSS_FOLLOWED);
	}
	if (!is_streamed(EVENT_PROCESS_START) || !is_wanted(child))
		return 0;
	event.head.time = bpf_ktime_get_boot_ns();
	event.head.kind = EVENT_PROCESS_START;
	describe_process(&event.head.process, child);
	/* Not the process that forked it: with CLONE_PARENT that is a sibling, as when runc starts.
	 */
	describe_parent(&event.parent, child);
	emit(&facts, &event, sizeof(event), EVENT_PROCESS_START);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	if (is_streamed(EVENT_PROCESS_EXEC) && is_wanted(task))
		report_exec(task);
	if (is_streamed(EVENT_PROCESS_EXIT) && is_wanted(task))
		note_replaced(task);
	return 0;
}

/* Only where executions that fail are asked for, as the next. */
SEC("tracepoint/syscalls/sys_exit_execve")
int execve_exit(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct pt_regs *regs = registers_of(task);

	return exec_ended(task, regs, EXEC_AT_CWD, (const void *)ARGUMENT_1(regs));
}

SEC("tracepoint/syscalls/sys_exit_execveat")
int execveat_exit(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct pt_regs *regs = registers_of(task);

	return exec_ended(task, regs, ARGUMENT_1(regs), (const void *)ARGUMENT_2(regs));
}

/*
 * Each thread comes here. The process ends with the last one, whichever that is: `group_dead`, an
 * argument of the hook from v6.16 on.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	__u32 pid = task->tgid;
	struct victim victim;
	bool is_victim;

	note_old_victim(task);
	if (!is_last_thread(ctx, task))
		return 0;
	if (is_killed(task))
		note_killed(task);
	/* One that was chosen can have ended by itself. */
	is_victim = take_victim(task, &victim) && is_killed(task);
	report_exit(task, is_victim ? &victim : NULL);
	if (filter_processes)
		bpf_map_delete_elem(&followed, &pid);
	return 0;
}

/* Only where signals are asked for. */
SEC("tp_btf/signal_generate")
int signal_generate(unsigned long long *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[2];

	/* Volatile: a read that the compiler moves is not verified. */
	if ((int)*(volatile unsigned long long *)&ctx[4] == TRACE_SIGNAL_IGNORED ||
	    !is_wanted(task))
		return 0;
	report_signal(task, *(volatile unsigned long long *)&ctx[0], (const void *)ctx[1]);
	return 0;
}

SEC("tp_btf/mark_victim")
int mark_victim(unsigned long long *ctx)
{
	struct task_struct *task;
	struct victim victim;

	/* Volatile: one read for both would be of either type. */
	if (!victim_is_task) {
		note_old_mark(*(volatile unsigned long long *)&ctx[0]);
		return 0;
	}
	task = (struct task_struct *)*(volatile unsigned long long *)&ctx[0];
	note_victim(task);
	if (was_killed(task) && take_victim(task, &victim))
		report_late_oom(task, &victim);
	return 0;
}
