/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CPU time of a thread up to a given moment. This CPU time is the kernel's own sum plus, for a
 * running thread, the time since the kernel last updated that sum.
 */
#ifndef NOCTULE_CPU_TIME_BPF_H
#define NOCTULE_CPU_TIME_BPF_H

#include "task.bpf.h"

enum {
	/*
	 * Maximum age of a clock comparison. Clock drift within it is negligible: 1 s at 50 ppm is
	 * 50 us.
	 */
	CALIBRATED_NS = 1000000000,
};

/* As an `at` argument: the time of the call. */
#define NOW (~0ULL >> 1)

/*
 * Returns the slot of the CPU that the thread is running on, or NULL if it is not running. The slot
 * contains no thread before the first switch of its CPU. The slot contains another thread if no
 * program ran at the last switch. In both cases the run queue determines whether the thread is
 * running.
 */
static __always_inline struct cpu_slot *running_slot(struct task_struct *task)
{
	struct cpu_slot *slot;
	struct rq *rq;
	__u32 cpu;

	if (!bpf_core_field_exists(task->se.cfs_rq) || !is_on_cpu(task))
		return NULL;
	rq = queue_of(task)->rq;
	cpu = cpu_of(rq);
	slot = bpf_map_lookup_elem(&cpus, &cpu);
	/* The thread is leaving the CPU, but the sched_switch program has not run yet. */
	if (slot && rq->curr != task && slot->pid != (__u32)task->pid)
		return NULL;
	return slot;
}

/*
 * Returns CLOCK_MONOTONIC minus the scheduler's clock on the CPU of `slot`, or 0 if unknown. If
 * that CPU has not switched recently, its offset is outdated. The offset of the current CPU, which
 * has just switched to the reader, is then used instead.
 */
static __always_inline __u64 offset_of(struct cpu_slot *slot, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_slot *here;

	if (now - slot->calibrated < CALIBRATED_NS)
		return slot->clock_offset;
	here = bpf_map_lookup_elem(&cpus, &cpu);
	if (here && here->calibrated > slot->calibrated)
		return here->clock_offset;
	return slot->clock_offset;
}

/*
 * Returns the nanoseconds between sum_exec_runtime and `at` (CLOCK_MONOTONIC), negative if `at` is
 * earlier. The kernel updates sum_exec_runtime at each switch and at each scheduler tick: every 1
 * to 10 ms, or once a second on nohz_full CPUs. The clock rq->clock_task stands still during
 * interrupts. On kernels with CONFIG_PARAVIRT_TIME_ACCOUNTING it also stands still during steal
 * time. The offset converts CLOCK_MONOTONIC to rq->clock.
 */
static __always_inline __s64 unaccounted(struct task_struct *task, struct cpu_slot *slot, __u64 at)
{
	struct rq *rq = queue_of(task)->rq;
	__u64 since = slot->since ?: started_at;
	__u64 now = bpf_ktime_get_ns();
	__u64 offset = offset_of(slot, now);
	__s64 lag, later;

	/* No program saw the switch to this thread, but the scheduler recorded its time. */
	if (slot->since && slot->pid != (__u32)task->pid && scheduler_notes)
		since = task->sched_info.last_arrival + offset;
	/* The CPU has switched since `now`, so the kernel's sum is exact again. */
	if (since > now || !offset)
		return 0;
	lag = now - offset - (rq->clock - rq->clock_task) - task->se.exec_start;
	if (lag < 0)
		lag = 0;
	/* The thread cannot have run for longer than the time since it got the CPU. */
	if ((__u64)lag > now - since)
		lag = now - since;
	later = now - (at > since ? at : since);
	if (later > 0)
		lag -= later;
	/* The kernel's sum is complete: the thread is no longer current. */
	if (rq->curr != task && lag > 0)
		return 0;
	return lag;
}

/*
 * Returns the CPU time of the thread. If it runs in `slot`, that is the time up to `at`; otherwise
 * it is the kernel's sum.
 */
static __always_inline __u64 cpu_time(struct task_struct *task, struct cpu_slot *slot, __u64 at)
{
	__u64 accounted = task->se.sum_exec_runtime;
	__s64 lag = 0;

	if (!slot)
		return accounted;
	/*
	 * A tick between the two reads would be counted twice or not at all, so the reads are
	 * repeated.
	 */
	for (int i = 0; i < 3; i++) {
		lag = unaccounted(task, slot, at);
		if (accounted == task->se.sum_exec_runtime)
			break;
		accounted = task->se.sum_exec_runtime;
		lag = 0;
	}
	return accounted + lag;
}

#endif
