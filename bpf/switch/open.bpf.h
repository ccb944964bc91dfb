/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: waits that a snapshot or a move finds in progress, and waits whose end no program saw.
 */
#ifndef NOCTULE_OPEN_BPF_H
#define NOCTULE_OPEN_BPF_H

#include "wait.bpf.h"

enum {
	/*
	 * A snapshot charges the elapsed time of a wait in progress, if that time is at least this
	 * long. A shorter wait is not charged yet, so the sums of a thread can be too small by up
	 * to this much.
	 */
	LEAST_OPEN_NS = 100000,
};

/* A wait in progress. */
struct open {
	struct rq *rq;
	/* When the wait began in this queue, by the clock of the queue's CPU. */
	__u64 queued;
	/* How long the wait has been in this queue. */
	__u64 here;
	/* Sum of the thread's waits before it entered this queue. */
	__u64 delay;
	struct moment now;
	__u32 cpu;
};

/*
 * Whether the thread is waiting at `at` (CLOCK_MONOTONIC). If so, fills `it`. The run queue is not
 * locked.
 */
static __always_inline bool read_open(struct task_struct *task, struct task_account *account,
				      __u64 at, struct open *it)
{
	struct cpu_slot *slot;

	if (!waits_on || !bpf_core_field_exists(task->se.cfs_rq) || account->dead)
		return false;
	it->queued = queued_since(task, account);
	if (!it->queued || account->phantom || is_on_cpu(task) || is_asleep(task))
		return false;
	it->rq = queue_of(task)->rq;
	it->cpu = cpu_of(it->rq);
	slot = bpf_map_lookup_elem(&cpus, &it->cpu);
	if (!slot || !slot->calibrations)
		return false;
	moment_of(it->rq, &it->now);
	if (host_is_apart())
		add_host(slot, it->rq, &it->now);
	it->now.clock = at - offset_of(slot, at);
	it->here = it->now.clock - it->queued;
	it->delay = run_delay(task, account);
	return (__s64)it->here > 0;
}

/*
 * Returns how long the thread has been runnable without running. The wait starts when the thread
 * was queued on its CPU, even if that was before the agent started.
 */
static __always_inline __u64 length_of(const struct open *it, const struct task_account *account)
{
	/* The wait since its last end, including the time on other CPUs. */
	__s64 whole = it->delay + it->here - account->before;

	return whole > (__s64)it->here ? whole : it->here;
}

/*
 * Divides the elapsed time of a wait in progress, up to the moment of `open`, if that time is at
 * least `least`. The caller adds the shares to the sums of the group and the process. Returns NULL
 * if there is nothing to charge.
 *
 * The run queue is not locked, so the thread can get its CPU meanwhile. In that case the amount
 * that was added to `ahead` is subtracted again. If the thread gets its CPU in the few nanoseconds
 * between two instructions of the switch program, the elapsed time is charged twice. The next waits
 * of the thread are then charged less by that amount.
 */
static __always_inline struct division *divide_open(struct task_struct *task,
						    struct task_account *account, __u32 number,
						    struct open *open, __u64 least)
{
	struct division *it;
	struct wait_row *row;
	__u64 ahead;
	__s64 part;

	ahead = account->ahead;
	part = open->delay + open->here - account->charged - ahead;
	if (part < (__s64)least || (__u64)part > open->delay + open->here)
		return NULL;
	if (compare_and_swap(&account->ahead, ahead, ahead + part) != ahead)
		return NULL;
	if (queued_since(task, account) != open->queued || is_on_cpu(task) ||
	    run_delay(task, account) != open->delay) {
		__sync_fetch_and_add(&account->ahead, -part);
		return NULL;
	}
	if ((__u64)part < open->here)
		open->here = part;
	it = begin_division(task, account, number, open->cpu, open->now.clock - open->here,
			    &open->now, true);
	if (!it)
		return NULL;
	it->parts[PART_UNATTRIBUTED] += part - open->here;
	divide(number);
	if (it->unnamed) {
		row = wait_row(account, it->victim);
		if (row)
			blame_unnamed(row, it->unnamed);
	}
	return it;
}

/* Like divide_open(), for a thread that may not be waiting. */
static __always_inline struct division *open_wait(struct task_struct *task,
						  struct task_account *account, __u32 number,
						  __u64 at, __u64 least)
{
	struct open open;

	if (!read_open(task, account, at, &open))
		return NULL;
	return divide_open(task, account, number, &open, least);
}

/*
 * Returns the uncharged waits of a thread that is not waiting now, and marks them as charged. The
 * kernel skipped the program at the end of such a wait. A switch charges before the scheduler
 * updates run_delay, so this function reads in the opposite order.
 */
static __always_inline __u64 take_unseen(struct task_struct *task, struct task_account *account)
{
	__u64 total, ahead;
	__s64 part;

	if (!waits_on || !scheduler_notes || account->phantom || queued_since(task, account))
		return 0;
	total = *(volatile unsigned long long *)&task->sched_info.run_delay;
	ahead = account->ahead;
	part = total - account->charged - ahead;
	if (part <= 0 || compare_and_swap(&account->ahead, ahead, ahead + part) != ahead)
		return 0;
	return part;
}

#endif
