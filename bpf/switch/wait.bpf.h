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

/* Prepares the division of a wait that began at `from` and is charged up to `to`. */
static __always_inline struct division *begin_division(struct task_struct *task,
						       struct task_account *account, __u32 number,
						       __u32 cpu, __u64 from,
						       const struct moment *to)
{
	struct division *it = bpf_map_lookup_elem(&divisions, &number);
	__u64 throttled;

	if (!it)
		return NULL;
	it->victim = victim_of(account);
	it->cpu = cpu;
	it->to = *to;
	throttled = throttled_part(task, account, to->clock - from);
	__builtin_memset(it->parts, 0, sizeof(it->parts));
	it->unnamed = 0;
	/*
	 * Throttled time is taken to lie at the beginning of the wait: the quota of a group runs
	 * out while it runs.
	 */
	it->parts[PART_THROTTLE] = throttled;
	it->from = from + throttled;
	return it;
}

/* Charges what the thread waited on a CPU whose run queue is locked, up to now. */
static __always_inline void charge_wait(struct task_struct *task, struct task_account *account,
					struct past *past, __u32 cpu, __u64 from,
					const struct moment *now)
{
	__u32 number = bpf_get_smp_processor_id();
	struct slice *newest = &past->ring[(past->count - 1) % SLICES];
	struct division *it;

	if (from >= now->clock)
		return;
	/* The most common: one runner had the CPU all the time. */
	if (past->count && newest->began.clock <= from && newest->began.stolen == now->stolen &&
	    !throttled_part(task, account, now->clock - from)) {
		__u64 victim = victim_of(account), culprit = group_of(newest->runner);
		enum counter counter = wait_counter(victim, culprit);
		struct blame *row;

		account->total.v[counter] += now->clock - from;
		if (counter != COUNTER_WAIT_NEIGHBOUR)
			return;
		row = blame_row(victim, culprit);
		if (row)
			__sync_fetch_and_add(&row->wait_ns, now->clock - from);
		else
			blame_unnamed(account, victim, now->clock - from);
		return;
	}
	it = begin_division(task, account, number, cpu, from, now);
	if (!it)
		return;
	if (it->from < now->clock)
		divide(number);
	for (int i = 0; i < WAIT_PARTS; i++)
		account->total.v[COUNTER_WAIT_THROTTLE + i] += it->parts[i];
	if (it->unnamed)
		blame_unnamed(account, it->victim, it->unnamed);
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
				    struct past *past, __u32 cpu, const struct moment *now)
{
	__u64 clock = now->clock;
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
	if (!from || !past->count || from > clock)
		from = clock;
	/* What was before the first switch of this CPU does not count. */
	else if (from < past->first)
		from = past->first;
	charge_wait(task, account, past, cpu, from, now);
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
	struct moment now;
	struct past *past;
	struct rq *rq;
	__u32 from;

	if (!account->enqueued || !bpf_core_field_exists(task->se.cfs_rq))
		return;
	rq = task->se.cfs_rq->rq;
	moment_of(rq, &now);
	from = cpu_of(rq);
	past = bpf_map_lookup_elem(&pasts, &from);
	if (!past || now.clock < account->enqueued)
		return;
	charge_wait(task, account, past, from, account->enqueued, &now);
	account->waited += now.clock - account->enqueued;
	/* The scheduler has added this part already. */
	if (has_notes(task))
		account->run_delay = task->sched_info.run_delay + 1;
	account->enqueued = now.clock;
	account->moved = 1;
	change_queue(task, account, now.clock, to);
}

/*
 * The switch to `prev` was not seen: a program can be kept from running. The scheduler has noted
 * when it was, but not for the idle task.
 */
static __always_inline void note_unseen(struct past *past, struct task_struct *prev,
					const struct moment *now)
{
	struct task_account *account;
	struct moment then = *now;

	if (!past->count || !prev->pid || !has_notes(prev))
		return;
	then.clock = prev->sched_info.last_arrival;
	if (then.clock > now->clock)
		return;
	account = account_of(prev);
	begin_slice(past, runner_of(prev, account), &then);
	if (!account)
		return;
	account->enqueued = 0;
	account->moved = 0;
	account->waited = 0;
}

static __always_inline void account_waits(struct task_struct *prev, struct task_struct *next,
					  bool runnable, __u32 cpu, const struct moment *now)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);
	struct task_account *account;
	runner runner = make_runner(GROUP_IDLE, RANK_IDLE);

	if (!past)
		return;
	if (past->pid != (__u32)prev->pid)
		note_unseen(past, prev, now);
	if (next->pid) {
		account = account_of(next);
		/* Else the next end of a wait charges this one too: waited_unseen. */
		if (account)
			dequeue(next, account, past, cpu, now);
		runner = runner_of(next, account);
	}
	begin_slice(past, runner, now);
	past->pid = next->pid;

	if (!runnable || !prev->pid)
		return;
	account = account_to_charge(prev);
	if (!account)
		return;
	enqueue(prev, account, now->clock);
	if (is_throttled(prev))
		account->total.v[COUNTER_SWITCHES_THROTTLED]++;
	else
		count_preemption(account, group_of(runner));
}

#endif
