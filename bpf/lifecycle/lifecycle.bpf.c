// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lifecycle of processes: start, exec and exit, and whether the OOM killer killed them.
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

/* Children of this process are followed; 0 for none. */
__u32 follow_children_of;

/* Runs in the context of the parent. The child is not running yet, but is already in its cgroup. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct process_start event = {};
	__u32 pid = child->tgid;
	__u64 start;

	/* A new thread of an existing process. */
	if (child->pid != child->tgid)
		return 0;
	__sync_fetch_and_add(&process_row(cgroup_of(child))->starts, 1);
	if (filter_processes &&
	    (is_followed(parent) ||
	     (follow_children_of && (__u32)parent->tgid == follow_children_of))) {
		start = child->start_boottime;
		if (bpf_map_update_elem(&followed, &pid, &start, BPF_ANY))
			count_loss(LOSS_FOLLOWED_PROCESS);
	}
	if (!is_streamed(EVENT_PROCESS_START) || !is_wanted(child))
		return 0;
	event.head.time = bpf_ktime_get_boot_ns();
	event.head.kind = EVENT_PROCESS_START;
	describe_process(&event.head.process, child);
	/*
	 * The parent is not always the process that forked. With CLONE_PARENT, which runc uses, the
	 * child gets the parent of the process that forked.
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

/* This program and the next are attached only if failed execs are requested. */
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
 * Runs for each thread. The process ends with its last thread. Since v6.16 the argument
 * `group_dead` marks that thread.
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
	/* A chosen victim may have exited for another reason. */
	is_victim = take_victim(task, &victim) && is_killed(task);
	report_exit(task, is_victim ? &victim : NULL);
	if (filter_processes)
		bpf_map_delete_elem(&followed, &pid);
	return 0;
}

/* Attached only if signals are requested. */
SEC("tp_btf/signal_generate")
int signal_generate(unsigned long long *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[2];

	/* Volatile, because the verifier rejects the read if the compiler moves it. */
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

	/*
	 * Volatile, because otherwise the compiler merges the two reads, and the value would have
	 * either type.
	 */
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
