/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long a wait was throttled by a CPU quota (CFS bandwidth control). This is the growth of the
 * queue's throttled clock between the start and the end of the wait.
 */
#ifndef NOCTULE_THROTTLE_BPF_H
#define NOCTULE_THROTTLE_BPF_H

#include "../include/compat.bpf.h"
#include "../include/task.bpf.h"
#include "exits.bpf.h"

/*
 * Set when the walk finds a thread in a group with a quota, and when a thread is first throttled.
 * Cleared by user space.
 */
__u32 quotas_seen;
/*
 * Whether some group is known to have a quota. While this is set, the start of each wait is
 * recorded.
 */
__u32 quotas_in_use;

enum {
	/* Maximum number of group levels that the walk checks. */
	GROUP_DEPTH = 8,
};

/*
 * v6.18: e1fad12dcb66 ("sched/fair: Switch to task based throttle model"). Since that change, a
 * thread is throttled only when it is switched out. A thread that is woken or already queued when
 * its group is throttled still gets the CPU first. Throttling thus begins at a switch and needs no
 * program at wake-ups.
 */
static __always_inline bool throttles_threads(void)
{
	struct task_struct *task = NULL;

	return bpf_core_field_exists(task->throttled);
}

/* Whether the thread's group or one of its ancestors has a quota. */
static __always_inline bool has_quota(struct task_struct *task)
{
	struct sched_entity *entity = &task->se;

	if (!bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(task->se.cfs_rq->runtime_enabled))
		return false;
	for (int i = 0; i < GROUP_DEPTH && entity; i++) {
		if (BPF_CORE_READ(entity, cfs_rq, runtime_enabled))
			return true;
		entity = BPF_CORE_READ(entity, parent);
	}
	return false;
}

/*
 * Returns how long the thread's queue was throttled, by the quota of its group or of an ancestor,
 * up to the end of the last throttling. With `going_on`, the current throttling is included.
 */
static __always_inline __u64 throttled_time(struct cfs_rq *queue, __u64 clock, bool going_on)
{
	struct cfs_rq___pre_6_6 *older = (void *)queue;
	struct cfs_rq___pre_5_19 *oldest = (void *)queue;
	struct rq *rq;

	if (bpf_core_field_exists(queue->throttled_clock_self_time)) {
		__u64 since = going_on ? queue->throttled_clock_self : 0;

		return queue->throttled_clock_self_time +
		       (since && since < clock ? clock - since : 0);
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

/* Whether the thread was switched out because a quota ran out. */
static __always_inline bool is_throttled(struct task_struct *task)
{
	if (throttles_threads())
		return task->throttled;
	if (!bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(task->se.cfs_rq->throttle_count))
		return false;
	return queue_of(task)->throttle_count > 0;
}

/*
 * Called if a queue is throttled although no quota was known, because a group got a quota since the
 * last walk. User space must attach the program at wake-ups. Not inlined, because it rarely runs.
 */
static __noinline void find_quota(void)
{
	quotas_seen = 1;
	quotas_in_use = 1;
	wake_user_space();
}

/* Records the throttled time of the queue at the start of a wait. */
static __always_inline void begin_throttle(struct task_struct *task, struct task_account *account,
					   __u64 clock)
{
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return;
	account->queue = (__u64)queue_of(task);
	account->throttled_at = throttled_time(queue_of(task), clock, true);
	account->throttle_noted = 1;
}

/*
 * Like throttled_time(), for a queue that the thread is not in: on another CPU, or of the group
 * that it left. Returns 0 if the time cannot be read (before v6.6). It is a global function, which
 * the verifier checks once.
 */
__noinline __u64 throttled_time_of_other(__u64 address, __u64 clock)
{
	struct cfs_rq *queue = (void *)address;
	__u64 since;

	if (!bpf_core_field_exists(queue->throttled_clock_self_time))
		return 0;
	since = BPF_CORE_READ(queue, throttled_clock_self);
	return BPF_CORE_READ(queue, throttled_clock_self_time) +
	       (since && since < clock ? clock - since : 0);
}

/*
 * Returns how long a wait was throttled up to now. `going_on` is set if the wait still lasts. The
 * thread may have moved to another group and may have got a CPU before the program of the move ran.
 * In that case the wait was in the recorded queue, not in the current one.
 */
static __always_inline __u64 throttled_part(struct task_struct *task, struct task_account *account,
					    __u64 clock, bool going_on)
{
	__u64 time;
	__s64 growth;

	if (!account->throttle_noted || !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	if (account->queue == (__u64)queue_of(task))
		time = throttled_time(queue_of(task), clock, going_on);
	else
		time = throttled_time_of_other(account->queue, clock);
	/*
	 * Negative if the queue was already throttled when the thread arrived. The thread does not
	 * wait for that throttling to end (v6.18: until it returns to user mode).
	 */
	growth = time - account->throttled_at;
	if (growth <= 0)
		return 0;
	/* From now on, only the remaining wait counts. */
	account->throttled_at += growth;
	return growth;
}

/*
 * The thread continues to wait on another CPU, where the queue of its group is throttled
 * separately. If its throttled time cannot be read, the rest of the wait counts as not throttled.
 */
static __always_inline void change_queue(struct task_struct *task, struct task_account *account,
					 __u64 clock, __u32 cpu)
{
	struct cfs_rq **queues, *queue = NULL;

	if (!account->throttle_noted)
		return;
	account->throttle_noted = 0;
	if (!bpf_core_field_exists(queue->throttled_clock_self_time))
		return;
	queues = BPF_CORE_READ(task, sched_task_group, cfs_rq);
	if (bpf_probe_read_kernel(&queue, sizeof(queue), queues + cpu))
		return;
	account->queue = (__u64)queue;
	account->throttled_at = throttled_time_of_other(account->queue, clock);
	account->throttle_noted = 1;
}

/*
 * The thread continues to wait in the queue of another group, which may be throttled by its own
 * quota.
 */
static __always_inline void enter_queue(struct task_struct *task, struct task_account *account)
{
	if (!account->throttle_noted)
		return;
	account->throttle_noted = 0;
	if (queued_since(task, account) && (!throttles_threads() || is_throttled(task)))
		begin_throttle(task, account, scheduler_clock(task));
}

#endif
