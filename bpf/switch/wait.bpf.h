/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: how long threads wait for a CPU. A wait begins when a thread is queued (woken, new, or
 * switched out while it could go on) and ends when it gets a CPU.
 */
#ifndef NOCTULE_WAIT_BPF_H
#define NOCTULE_WAIT_BPF_H

#include "../include/compat.bpf.h"
#include "blame.bpf.h"
#include "slice.bpf.h"
#include "throttle.bpf.h"

const volatile bool waits_on = true;

enum {
	/* A wake-up is told of within that time. */
	NOTE_NS = 1000000,
};

/* sched_switch has the state of `prev` as its last argument: 9c2136be0878, v5.18. */
const volatile bool has_prev_state = false;

/*
 * Whether the thread that leaves its CPU could go on. `preempt` alone does not tell: it is set only
 * where the kernel itself was preempted. __state can have been changed by a waker since the
 * decision; the argument has what was decided.
 */
static __always_inline bool still_runnable(unsigned long long *ctx, bool preempt,
					   struct task_struct *prev)
{
	if (preempt)
		return true;
	/* Volatile: must not be read before the kernel is known to have it. */
	if (has_prev_state)
		return !(__u32) * (volatile unsigned long long *)&ctx[3];
	return !task_state(prev);
}

/* The thread begins to wait. */
static __always_inline void enqueue(struct task_struct *task, struct task_account *account,
				    __u64 clock)
{
	account->enqueued = clock;
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return;
	account->queue = (__u64)task->se.cfs_rq;
	account->throttled_at = throttled_time(task->se.cfs_rq, clock, true);
}

/* When the thread was queued, by the scheduler's own note; 0 when it has none. */
static __always_inline __u64 noted_enqueue(struct task_struct *task)
{
	return has_notes(task) ? task->sched_info.last_queued : 0;
}

/*
 * When a thread that is being woken was queued. The scheduler's note can be older than the wake-up:
 * one that sleeps and was not taken off its queue yet (v6.12: 152e11f6df29, "sched/fair: Implement
 * delayed dequeue") is queued anew when it is moved. A note that is much older is such a one.
 */
static __always_inline __u64 woken_at(struct task_struct *task)
{
	__u64 clock = scheduler_clock(task);
	__u64 noted = noted_enqueue(task);

	return noted && noted < clock && clock - noted < NOTE_NS ? noted : clock;
}

/*
 * Charges what the thread waited on this CPU. Throttled time is taken to lie at the beginning of
 * the wait: the quota of a group runs out while it runs.
 */
static __always_inline void charge_wait(struct task_struct *task, struct task_account *account,
					struct slices *cpu, __u32 number, __u64 from, __u64 to)
{
	__u64 throttled = throttled_part(task, account, to - from);

	account->total.v[COUNTER_WAIT_THROTTLE] += throttled;
	blame_slices(account, cpu, number, from + throttled, to);
}

/*
 * What the scheduler added to run_delay that was not charged here, and from now on is: waits of
 * which the end was not seen, because a program did not run. A thread that is seen for the first
 * time may have waited before the agent was there.
 */
static __always_inline __u64 waited_unseen(struct task_struct *task, struct task_account *account,
					   __u64 clock)
{
	__u64 noted = noted_enqueue(task);
	__u64 before = account->run_delay;
	__u64 delay;

	if (!has_notes(task))
		return 0;
	delay = task->sched_info.run_delay + 1;
	/* What it is going to add for this wait, which may have begun before the agent came. */
	account->run_delay = delay + (noted && noted < clock ? clock - noted : 0);
	return before && delay > before ? delay - before : 0;
}

/* The thread gets the CPU: its wait ends. */
static __always_inline void dequeue(struct task_struct *task, struct task_account *account,
				    struct slices *cpu, __u32 number, __u64 clock)
{
	__u64 from = account->enqueued;
	__u64 waited = account->waited;
	struct wait_row *row;
	__u64 unseen;

	/*
	 * Queued before the agent came, or by a way that has no hook; or moved: the clocks of two
	 * CPUs can differ, and the scheduler has noted the time by that of this one.
	 */
	if (!from || account->moved)
		from = noted_enqueue(task) ?: from;
	if (!from || !cpu->count || from > clock)
		from = clock;
	/* What was before the first switch of this CPU does not count. */
	else if (from < cpu->first)
		from = cpu->first;
	charge_wait(task, account, cpu, number, from, clock);
	unseen = waited_unseen(task, account, clock);
	account->total.v[COUNTER_WAIT_UNATTRIBUTED] += unseen;
	waited += clock - from;
	account->enqueued = 0;
	account->waited = 0;
	account->moved = 0;
	row = wait_row(account, victim_of(account));
	if (row)
		histogram_add(row->buckets, waited);
}

/* A thread that waits is taken to another CPU: what it waited on this one is charged. */
static __always_inline void move_wait(struct task_struct *task, struct task_account *account,
				      __u32 to)
{
	struct slices *cpu;
	__u64 clock;
	__u32 from;

	if (!account->enqueued || !bpf_core_field_exists(task->se.cfs_rq))
		return;
	clock = scheduler_clock(task);
	from = cpu_of(task->se.cfs_rq->rq);
	cpu = bpf_map_lookup_elem(&slices, &from);
	if (!cpu || clock < account->enqueued)
		return;
	charge_wait(task, account, cpu, from, account->enqueued, clock);
	account->waited += clock - account->enqueued;
	/* The scheduler has added this part already. */
	if (has_notes(task))
		account->run_delay = task->sched_info.run_delay + 1;
	account->enqueued = clock;
	account->moved = 1;
	change_queue(task, account, clock, to);
}

/*
 * The switch to `prev` was not seen: a program can be kept from running. The scheduler has noted
 * when it was, but not for the idle task.
 */
static __always_inline void note_unseen(struct slices *cpu, struct task_struct *prev, __u64 clock)
{
	struct task_account *account;
	__u64 arrival;

	if (!cpu->count || !prev->pid || !has_notes(prev))
		return;
	arrival = prev->sched_info.last_arrival;
	if (arrival > clock)
		return;
	account = account_of(prev);
	begin_slice(cpu, culprit_of(prev, account), arrival);
	if (!account)
		return;
	account->enqueued = 0;
	account->moved = 0;
	account->waited = 0;
}

static __always_inline void account_waits(struct task_struct *prev, struct task_struct *next,
					  bool runnable, __u32 cpu, __u64 clock)
{
	struct slices *own = bpf_map_lookup_elem(&slices, &cpu);
	struct task_account *account;
	__u64 group = GROUP_IDLE;

	if (!own)
		return;
	if (own->pid != (__u32)prev->pid)
		note_unseen(own, prev, clock);
	if (next->pid) {
		account = account_of(next);
		/* Else the next end of a wait charges this one too: waited_unseen. */
		if (account)
			dequeue(next, account, own, cpu, clock);
		group = culprit_of(next, account);
	}
	begin_slice(own, group, clock);
	own->pid = next->pid;

	if (!runnable || !prev->pid)
		return;
	account = account_to_charge(prev);
	if (!account)
		return;
	enqueue(prev, account, clock);
	if (is_throttled(prev))
		account->total.v[COUNTER_SWITCHES_THROTTLED]++;
	else
		count_preemption(account, group);
}

#endif
