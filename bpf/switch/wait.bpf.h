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

/*
 * How long the thread's queue was throttled, by the quota of its group or of one above, up to the
 * last end of a throttle; `going_on`: and in the one that lasts.
 */
static __always_inline __u64 throttled_time(struct cfs_rq *queue, __u64 clock, bool going_on)
{
	struct cfs_rq___pre_6_6 *older = (void *)queue;
	struct cfs_rq___pre_5_19 *oldest = (void *)queue;
	struct rq *rq;

	if (bpf_core_field_exists(queue->throttled_clock_self_time)) {
		__u64 since = going_on ? queue->throttled_clock_self : 0;

		return queue->throttled_clock_self_time + (since ? clock - since : 0);
	}
	if (bpf_core_field_exists(older->throttled_clock_pelt_time)) {
		rq = queue->rq;
		return older->throttled_clock_pelt_time +
		       (going_on && queue->throttle_count
				? rq->clock_pelt - rq->lost_idle_time - older->throttled_clock_pelt
				: 0);
	}
	if (bpf_core_field_exists(oldest->throttled_clock_task_time)) {
		rq = queue->rq;
		return oldest->throttled_clock_task_time +
		       (going_on && queue->throttle_count
				? rq->clock_task - oldest->throttled_clock_task
				: 0);
	}
	return 0;
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

/* The part of a wait in which the thread's queue was throttled. */
static __always_inline __u64 throttled_part(struct task_struct *task, struct task_account *account,
					    __u64 waited)
{
	__s64 growth;

	if (!account->enqueued || !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	/* Moved by a way that was not seen: the times of two queues have nothing to do with each
	   other. */
	if (account->queue != (__u64)task->se.cfs_rq)
		return 0;
	/* Negative: the queue was throttled when the thread came, and the thread does not wait for
	   the end of that (v6.18: until it returns to user mode). */
	growth = throttled_time(task->se.cfs_rq, 0, false) - account->throttled_at;
	if (growth <= 0)
		return 0;
	return (__u64)growth < waited ? growth : waited;
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

/*
 * The thread goes on waiting in the queue of its group on another CPU, which is throttled by
 * itself. Where the time of that cannot be told, the rest of the wait counts as not throttled.
 */
static __always_inline void change_queue(struct task_struct *task, struct task_account *account,
					 __u64 clock, __u32 cpu)
{
	struct cfs_rq **queues, *queue = NULL;
	__u64 since;

	account->queue = 0;
	if (!bpf_core_field_exists(queue->throttled_clock_self_time))
		return;
	queues = BPF_CORE_READ(task, sched_task_group, cfs_rq);
	if (bpf_probe_read_kernel(&queue, sizeof(queue), queues + cpu))
		return;
	since = BPF_CORE_READ(queue, throttled_clock_self);
	account->queue = (__u64)queue;
	account->throttled_at = BPF_CORE_READ(queue, throttled_clock_self_time) +
				(since && since < clock ? clock - since : 0);
}

/* Whether the thread was switched out because a quota ran out. */
static __always_inline bool is_throttled(struct task_struct *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	if (!bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(task->se.cfs_rq->throttle_count))
		return false;
	return task->se.cfs_rq->throttle_count > 0;
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
