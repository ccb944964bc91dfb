// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CPU time and run-queue latency. The scheduler itself keeps each thread's time and switches.
 * Iterators read these counters at each tick, without cost per switch. The programs here add idle
 * time per CPU, hardware counters, and waits with their culprits, and they settle threads that end
 * or move.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../include/compat.bpf.h"
#include "abi.h"
#include "slice.bpf.h"
#include "hardware.bpf.h"
#include "place.bpf.h"
#include "wait.bpf.h"
#include "settle.bpf.h"
#include "walk.bpf.h"
#include "waker.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* Children of this process are followed, with all their descendants; 0 for none. */
__u32 follow_children_of;

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	struct task_account *leaves = NULL, *comes = NULL;
	runner runner = 0;
	struct moment now;
	struct span span;
	bool exits;
	__u32 state;
	__u64 shared;

	if (!slot || (unlikely(!slot->since) && !started_at))
		return 0;
	read_moment(slot, prev, &now);
	account_slice(slot, prev, next, &now, &span);
	shared = sibling_growth(slot, cpu);
	if (next->pid && (waits_on || lists_threads || packages > 1))
		comes = account_of(next);
	if (likely(comes)) {
		list_thread(next, comes);
		enter_package(next, comes, cpu);
	}
	if (waits_on)
		runner = account_next(prev, next, comes, cpu, &now, slot->clock_offset);

	state = state_at_switch(ctx, preempt, prev);
	exits = prev->exit_state;
	/* The thread goes to sleep: the scheduler itself keeps its time and its switches. */
	if (!hardware_mask && !waits_on &&
	    (!prev->pid || !(!state || exits || shared || slot->all_softirqs)))
		return 0;
	if (prev->pid)
		leaves = account_to_charge(prev);
	if (prev->pid && slot->all_softirqs)
		charge_softirqs(slot, leaves);
	account_hardware(slot, prev, leaves, cpu, &span);
	if (shared && leaves)
		charge_span(leaves, COUNTER_SIBLING_BUSY, shared, slot, &span);
	if (waits_on && leaves && !state)
		begin_wait(prev, leaves, runner, now.clock);
	else if (waits_on && leaves && !exits)
		begin_block(prev, leaves, state, slot->since);
	if (unlikely(exits) && leaves)
		settle_exiting(prev, leaves, cpu);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	struct task_account *account, *other;

	account = account_of(task);
	if (!account) {
		/*
		 * With task storage, the account can be created later. Without task storage, the
		 * table of accounts is full.
		 */
		if (!has_task_storage)
			count_loss(LOSS_THREAD_ACCOUNT);
		return 0;
	}
	list_thread(task, account);
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
 * Attached if the scheduler does not record waits. Before v6.18 it is also attached while a group
 * has a quota, because the queue of a woken thread can become throttled or unthrottled during its
 * wait.
 */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct task_account *account;
	__u64 clock;

	/* The thread is still running, and is only prevented from going to sleep. */
	if ((__u64)task == bpf_get_current_task() || is_on_cpu(task))
		return 0;
	account = find_account(task);
	if (!account)
		return 0;
	clock = scheduler_clock(task);
	note_queued(account, clock);
	/* Otherwise the thread is already waiting. */
	if (!account->throttle_noted && !throttles_threads())
		begin_throttle(task, account, clock);
	return 0;
}

/* Attached only if user space requests which processes end blocks. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct task_account *account = find_account(task);

	if (account)
		note_releaser(task, account, ctx);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int to)
{
	struct task_account *account;

	/* The thread is asleep: the scheduler selects the CPU for its wake-up. */
	if (!task->on_rq)
		return 0;
	account = find_account(task);
	if (account && account->ready)
		move_wait(task, account, to);
	return 0;
}

/*
 * Reports a multithreaded process when its leader is freed. The leader is reaped after all other
 * threads and freed a grace period later. By then each of them has left its CPU.
 */
SEC("tp_btf/sched_process_free")
int BPF_PROG(process_free, struct task_struct *task)
{
	struct task_account *account;

	if (task->pid == task->tgid) {
		account = find_account(task);
		if (account && account->ready && !account->reported)
			report_exit(task, account, NULL, 0, sample_at);
	}
	drop_account(task);
	return 0;
}

/*
 * Separate functions leave nothing on the caller's stack. Each round of the walk then starts in an
 * identical verifier state, which needs a tenth of the instructions. The functions use atomic
 * operations, which user space must remove for older kernels. It can remove them from programs, but
 * not from functions, so the program for older kernels below does not call these two.
 */
static __noinline void divide_moved_thread(struct task_struct *thread)
{
	divide_moved(thread, DIVISION_MOVE);
}

static __noinline void settle_moved_thread(struct task_struct *thread)
{
	settle_moved(thread, SCRATCH_MOVE);
}

/* Clears the register in which the last call left a value that the verifier would compare. */
static __always_inline void forget_result(void)
{
	asm volatile("r0 = 0" ::: "r0");
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach_task, struct cgroup *to, const char *path, struct task_struct *task,
	     bool threadgroup)
{
	struct bpf_iter_task it;
	struct task_struct *thread;

	if (!threadgroup) {
		divide_moved_thread(task);
		settle_moved_thread(task);
		return 0;
	}
	bpf_iter_task_new(&it, task, TASK_ITER_PROC_THREADS);
	while ((thread = bpf_iter_task_next(&it))) {
		divide_moved_thread(thread);
		forget_result();
		settle_moved_thread(thread);
		forget_result();
	}
	bpf_iter_task_destroy(&it);
	return 0;
}

/*
 * Loaded instead of cgroup_attach_task on kernels without an iterator over threads (before v6.7).
 */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(attach_task_older, struct cgroup *to, const char *path, struct task_struct *task)
{
	divide_moved(task, DIVISION_MOVE);
	settle_moved(task, SCRATCH_MOVE);
	return 0;
}

/*
 * Visits all threads: lists the threads that a snapshot must read, and writes the records of living
 * processes.
 */
SEC("iter/task")
int walk_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_account *account = task ? visited_account(task) : NULL;

	if (account)
		look_at(ctx->meta->seq, task, account);
	return 0;
}

/*
 * Lists waiting threads; called for each CPU. Loaded with walk_tasks and sample_listed if threads
 * are listed.
 */
SEC("iter/bpf_map_elem")
int list_waiting(struct bpf_iter__bpf_map_elem *ctx)
{
	struct cpu_slot *slot = ctx->value;

	if (slot) {
		note_idle(slot);
		list_queued(slot);
	}
	return 0;
}

/*
 * Reads every thread. Loaded instead of walk_tasks, list_waiting and sample_listed if threads
 * cannot be looked up by pid (before v6.2).
 */
SEC("iter/task")
int sample_tasks_older(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_account *account = task ? visited_account(task) : NULL;

	if (account && sample_at && has_room(ctx->meta->seq))
		sample_thread(ctx->meta->seq, task, account);
	return 0;
}

/* Reads one thread of the list. The map iterator calls this program for each element of `turns`. */
SEC("iter/bpf_map_elem")
int sample_listed(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_account *account;
	struct task_struct *task;
	__u32 entry;

	if (!ctx->value || listed_next == listed_until || !has_room(seq))
		return 0;
	entry = next_listed();
	if (!entry)
		return 0;
	task = bpf_task_from_pid(entry & ~LISTED_BLOCKED);
	if (!task) {
		if (entry & LISTED_BLOCKED)
			report_gone(seq, entry & ~LISTED_BLOCKED);
		return 0;
	}
	account = visited_account(task);
	if (account)
		sample_thread(seq, task, account);
	bpf_task_release(task);
	return 0;
}
