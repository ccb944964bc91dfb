// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who used the CPU, and who waited for it. The scheduler itself keeps each thread's time and
 * switches: the task iterator reads them at the tick, at no cost per switch. What the scheduler
 * does not keep is added here: idle time per CPU, hardware counters, and settling the accounts of
 * threads that end or move.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../include/compat.bpf.h"
#include "abi.h"
#include "slice.bpf.h"
#include "hardware.bpf.h"
#include "wait.bpf.h"
#include "fold.bpf.h"
#include "walk.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* Children of this process are followed, with all their descendants; 0 follows none. */
__u32 follow_children_of;

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	__u32 scratch = SCRATCHES + cpu;
	struct task_account *account;
	struct task_sample *last;
	struct moment now;
	__u64 at;

	if (!slot || !started_at)
		return 0;
	read_moment(prev, &now);
	account_slice(slot, prev, next, &now);
	account_hardware(slot, prev, cpu);
	if (waits_on)
		account_waits(prev, next, still_runnable(ctx, preempt, prev), cpu, &now);

	if (!(task_state(prev) & TASK_DEAD))
		return 0;
	/* Its last switch: nothing can be added any more, not even the end of its own exit. */
	account = account_to_charge(prev);
	last = bpf_map_lookup_elem(&scratches, &scratch);
	if (!account || !last)
		return 0;
	account->dead = 1;
	at = sample_at;
	fold(prev, account, &last->counters, at);
	/* The common end, of a process with one thread, needs no row. */
	if (prev->pid == prev->tgid && !account->threads)
		report_exit(prev, account, &last->counters, at);
	else
		carry(prev, account, &last->counters);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	struct task_account *account, *other;

	account = account_of(task);
	if (!account) {
		/* Else it can be made later; here the table is full. */
		if (!has_task_storage)
			count_loss(LOSS_ACCOUNT);
		return 0;
	}
	note_queued(account, scheduler_clock(task));
	if (task->pid != task->tgid) {
		other = mark_threads(task, account);
		if (other)
			account->followed = other->followed;
		return 0;
	}
	other = find_current_account();
	account->followed = other && other->followed;
	if (follow_children_of && bpf_get_current_pid_tgid() >> 32 == follow_children_of)
		account->followed = 1;
	if (account->followed)
		__sync_fetch_and_add(&followed_started, 1);
	return 0;
}

/*
 * Attached where the scheduler keeps no notes, and, before v6.18, while a group has a quota: then a
 * queue can be throttled, or not any more, while a thread waits in it that was woken.
 */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct task_account *account;
	__u64 clock;

	/* It runs, and was only kept from going to sleep. */
	if ((__u64)task == bpf_get_current_task() || is_on_cpu(task))
		return 0;
	account = find_account(task);
	if (!account)
		return 0;
	clock = scheduler_clock(task);
	note_queued(account, clock);
	/* Else it waits already. */
	if (!account->queue && !throttles_threads())
		begin_throttle(task, account, clock);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int to)
{
	struct task_account *account;

	/* It sleeps: the CPU is chosen on which it will be woken. */
	if (!task->on_rq)
		return 0;
	account = find_account(task);
	if (account && account->ready)
		move_wait(task, account, to);
	return 0;
}

/*
 * A process of several threads is reported when its leader is freed: the leader is reaped after all
 * the others, and freed a grace period later, when each of them has left its CPU.
 */
SEC("tp_btf/sched_process_free")
int BPF_PROG(process_free, struct task_struct *task)
{
	struct task_account *account;

	if (task->pid == task->tgid) {
		account = find_account(task);
		if (account && account->ready && !account->reported)
			report_exit(task, account, &nothing, 0);
	}
	drop_account(task);
	return 0;
}

/*
 * As functions that are called one after the other, what they leave on the stack is gone when they
 * return: the verifier sees each round of the walk begin as the one before, and needs a tenth of
 * the instructions. They have atomic operations: user space can take those out for older kernels
 * from programs only.
 */
static __noinline void settle_waiting_thread(struct task_struct *thread)
{
	settle_waiting(thread);
}

static __noinline void settle_used_thread(struct task_struct *thread)
{
	settle_used(thread, SCRATCH_MOVE);
}

/* The kernel has brought sum_exec_runtime up to date when it moved the thread. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach_task, struct cgroup *to, const char *path, struct task_struct *task,
	     bool threadgroup)
{
	struct bpf_iter_task it;
	struct task_struct *thread;

	if (!threadgroup) {
		settle_waiting_thread(task);
		settle_used_thread(task);
		return 0;
	}
	bpf_iter_task_new(&it, task, TASK_ITER_PROC_THREADS);
	while ((thread = bpf_iter_task_next(&it))) {
		settle_waiting_thread(thread);
		settle_used_thread(thread);
	}
	bpf_iter_task_destroy(&it);
	return 0;
}

/* Loaded in place of that where there is no walk over threads (before v6.7). */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(attach_task_older, struct cgroup *to, const char *path, struct task_struct *task)
{
	settle_waiting(task);
	settle_used(task, SCRATCH_MOVE);
	return 0;
}

SEC("iter/task")
int sample_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		sample_thread(ctx->meta->seq, task);
	return 0;
}
