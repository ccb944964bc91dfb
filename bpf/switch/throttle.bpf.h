/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of a wait that is due to CPU quota (CFS bandwidth control): the growth of the kernel's
 * own clock of the throttled queue between the two ends of the wait.
 */
#ifndef NOCTULE_THROTTLE_BPF_H
#define NOCTULE_THROTTLE_BPF_H

#include "../include/compat.bpf.h"
#include "../include/task.bpf.h"

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

#endif
