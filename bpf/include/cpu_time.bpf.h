/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CPU time of a thread up to a moment: the kernel's own sum, and for a thread that runs what it
 * has used since the kernel brought that sum up to date.
 */
#ifndef NOCTULE_CPU_TIME_BPF_H
#define NOCTULE_CPU_TIME_BPF_H

#include "task.bpf.h"

enum {
	/* Drifting for that long makes no difference: 1 s at 50 ppm are 50 us. */
	CALIBRATED_NS = 1000000000,
};

/* The moment of a call. */
#define NOW (~0ULL >> 1)

/*
 * The slot of the CPU on which the thread runs now, or NULL when it runs on none. The slot does not
 * name the thread where the CPU has not switched since the start, and names another one where no
 * program ran at its last switch: then the run queue decides.
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
	/* It leaves the CPU just now: the hook has not been run yet. */
	if (slot && rq->curr != task && slot->pid != (__u32)task->pid)
		return NULL;
	return slot;
}

/*
 * CLOCK_MONOTONIC - the scheduler's clock on the CPU. One that has not switched for long has not
 * compared them; then it is taken from this CPU, which has just switched to the reader. 0: unknown.
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
 * Nanoseconds between what the kernel has in sum_exec_runtime, which it brings up to date at each
 * scheduler tick (every 1 to 10 ms, or once a second on nohz_full CPUs) and at each switch, and
 * `at` (CLOCK_MONOTONIC); negative when that is past. rq->clock_task stands still for interrupts
 * and, where the kernel is built so, for steal; the offset turns our clock into rq->clock.
 */
static __always_inline __s64 unaccounted(struct task_struct *task, struct cpu_slot *slot, __u64 at)
{
	struct rq *rq = queue_of(task)->rq;
	__u64 since = slot->since ?: started_at;
	__u64 now = bpf_ktime_get_ns();
	__u64 offset = offset_of(slot, now);
	__s64 lag, later;

	/* The switch to the thread was not seen: the scheduler has noted when it was. */
	if (slot->since && slot->pid != (__u32)task->pid && scheduler_notes)
		since = task->sched_info.last_arrival + offset;
	/* The CPU has switched since `now`: what the kernel accounted is exact again. */
	if (since > now || !offset)
		return 0;
	lag = now - offset - (rq->clock - rq->clock_task) - task->se.exec_start;
	if (lag < 0)
		lag = 0;
	/* It cannot have run for longer than it is there. */
	if ((__u64)lag > now - since)
		lag = now - since;
	later = now - (at > since ? at : since);
	if (later > 0)
		lag -= later;
	/* What it ran is complete already. */
	if (rq->curr != task && lag > 0)
		return 0;
	return lag;
}

/* CPU time of the thread: until `at` when it runs in `slot`, else what the kernel has. */
static __always_inline __u64 cpu_time(struct task_struct *task, struct cpu_slot *slot, __u64 at)
{
	__u64 accounted = task->se.sum_exec_runtime;
	__s64 lag = 0;

	if (!slot)
		return accounted;
	/* A tick between the two reads would be counted twice or not at all: read again. */
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
