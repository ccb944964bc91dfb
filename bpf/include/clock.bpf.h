/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scheduler's clock on each CPU.
 */
#ifndef NOCTULE_CLOCK_BPF_H
#define NOCTULE_CLOCK_BPF_H

#include "kernel.h"
#include "read.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Returns the group's run queue that the task is in, through a read-only pointer. */
static __always_inline struct cfs_rq *queue_of(struct task_struct *task)
{
	return to_be_read(task)->se.cfs_rq;
}

/*
 * Returns the scheduler's clock on the CPU that the task is queued on or runs on. The caller must
 * hold the lock of the task's run queue. All times at a switch come from this clock. Reading this
 * clock is a memory load, whereas bpf_ktime_get_ns can cost more than the rest of the program. With
 * this clock, a wait also ends exactly when the kernel starts to charge the thread for running.
 */
static __always_inline __u64 scheduler_clock(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return bpf_ktime_get_ns();
	return queue_of(task)->rq->clock;
}

/* Whether the thread is running on a CPU. On a uniprocessor kernel, only the caller is running. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->on_cpu))
		return (__u64)task == bpf_get_current_task();
	return task->on_cpu;
}

/* Returns the CPU number of a run queue. */
static __always_inline __u32 cpu_of(struct rq *rq)
{
	return bpf_core_field_exists(rq->cpu) ? rq->cpu : 0;
}

#endif
