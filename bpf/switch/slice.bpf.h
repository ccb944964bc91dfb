/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: the idle and busy time of each CPU, from slices between the runs of the program at
 * sched_switch. Idle time is measured here because the kernel accounts it to no task. Busy time is
 * an independent check of the time that the kernel charges to tasks.
 */
#ifndef NOCTULE_SLICE_BPF_H
#define NOCTULE_SLICE_BPF_H

#include "../include/cpu_time.bpf.h"
#include "../include/hist.bpf.h"
#include "moment.bpf.h"

enum {
	/* Interval at which a switching CPU compares its clocks. */
	CALIBRATE_NS = 10000000,
	/* Each CPU also compares its clocks at each of its first CALIBRATE_FIRST switches. */
	CALIBRATE_FIRST = 16,
	/* Maximum age of the previous measurement to compare with. */
	CALIBRATE_FRESH_NS = 100000000,
};

/*
 * CLOCK_MONOTONIC of the snapshot in progress; 0 if there is none. A complete reading takes
 * milliseconds, and longer if the reader is preempted. Each account that changes meanwhile keeps
 * its value at that moment, so that the sums add up.
 */
__u64 sample_at;

/*
 * Compares the clocks. The scheduler clock is as old as its last update, so the smaller of the last
 * two measurements is used. This ignores a late measurement (an interrupt, steal), and still
 * follows a clock that NTP slews by up to a tenth. An older measurement is not compared, because
 * the clocks have drifted since.
 */
static __always_inline void calibrate(struct cpu_slot *slot, __u64 clock)
{
	__u64 now;
	__s64 offset;

	if (likely(slot->calibrations >= CALIBRATE_FIRST &&
		   clock + slot->clock_offset - slot->calibrated < CALIBRATE_NS))
		return;
	now = bpf_ktime_get_ns();
	offset = now - clock;
	if (slot->calibrations && now - slot->calibrated < CALIBRATE_FRESH_NS &&
	    (__s64)slot->measured < offset)
		slot->clock_offset = slot->measured;
	else
		slot->clock_offset = offset;
	slot->measured = offset;
	slot->calibrated = now;
	slot->calibrations++;
}

/*
 * Returns the time up to which the kernel charged `prev`, by the scheduler clock. The kernel
 * charges load balancing before idle to no task. With the kernel's own times, busy and idle time
 * neither overlap nor leave a gap. With the time of the tracepoint, busy and idle time overlapped
 * by 6 us per wake-up on a virtual machine. A task that wakes an idle CPU is charged from the
 * wake-up, because the scheduler skips the second update of its clock (rq_clock_skip_update).
 */
static __always_inline __u64 charged_until(struct task_struct *prev, const struct moment *now)
{
	__u64 end;

	if (!bpf_core_field_exists(prev->se.cfs_rq))
		return now->clock;
	end = prev->se.exec_start + behind(now);
	return end < now->clock ? end : now->clock;
}

/* Whether the thread has the name of an idle injector. Not inlined, because it is rarely called. */
static __noinline bool is_named_injector(struct task_struct *task)
{
	__u64 name = 0;

	bpf_probe_read_kernel(&name, sizeof(name), task->comm);
	return name == *(const __u64 *)"idle_inj" || name == *(const __u64 *)"kidle_in";
}

/*
 * Whether the thread injects idle time for thermal control. It is recognized by its name:
 * idle_inject/N, or kidle_inj/N on older kernels. It has PF_IDLE only during the injection, and
 * otherwise runs for a few us.
 */
static __always_inline bool injects_idle(struct task_struct *task)
{
	return unlikely(task->prio < MAX_RT_PRIO) && task->flags & PF_KTHREAD &&
	       is_named_injector(task);
}

/*
 * Whether the CPU was idle: it ran its idle task, or an idle injector, for which `slot->pid` is 0.
 * The code avoids branches, because each branch doubles the states of the verifier. If a pid is 0,
 * the highest bit of pid - 1 is set.
 */
static __always_inline bool was_idle(const struct cpu_slot *slot, struct task_struct *prev)
{
	__u32 injects = slot->pid - 1;

	injects &= prev->prio - MAX_RT_PRIO;
	injects &= prev->flags << (31 - 21);
	return (injects | (__u32)(prev->pid - 1)) >> 31;
}

/*
 * Returns the time since which the idle task has had the CPU. No program runs at a switch from a
 * process that the kernel hides from tracing programs. In that case the scheduler of v6.12 and
 * later has recorded the time (for its deadline server). Before v6.12 the last slice of such a
 * process counts as idle.
 */
static __always_inline __u64 idle_since(struct cpu_slot *slot, struct task_struct *idle,
					const struct moment *now, __u64 since, __u64 end)
{
	__u64 began;

	if (!slot->pid || !bpf_core_field_exists(idle->se.cfs_rq))
		return since;
	began = idle->se.exec_start + behind(now) + slot->clock_offset;
	return began > since && began < end ? began : since;
}

/* Records the time of idle_since() while the CPU is idle, for the reader of the slot. */
static __always_inline void note_idle(struct cpu_slot *slot)
{
	struct rq *rq = (void *)slot->queue;
	struct task_struct *current;

	if (!rq || !slot->pid)
		return;
	current = BPF_CORE_READ(rq, curr);
	if (!BPF_CORE_READ(current, pid))
		slot->idle_began = BPF_CORE_READ(current, se.exec_start) +
				   BPF_CORE_READ(rq, clock) - BPF_CORE_READ(rq, clock_task) +
				   slot->clock_offset;
}

/* A slice of CPU time. `later` is the part after the moment of the snapshot. */
struct span {
	__u64 ns;
	__u64 later;
};

/* Clears the values after the moments of earlier snapshots. */
static __always_inline void begin_later(struct task_account *account, __u64 at)
{
	if (account->later_than == at)
		return;
	__builtin_memset(account->later, 0, sizeof(account->later));
	__builtin_memset(account->late_waits, 0, sizeof(account->late_waits));
	account->later_than = at;
}

/*
 * Records, during a snapshot, that `used` of the counter was counted after the snapshot's moment.
 */
static __always_inline void note_later(struct task_account *account, enum counter counter,
				       __u64 used, __u64 at)
{
	begin_later(account, at);
	account->later[counter] += used;
}

/*
 * Records how much of an addition to a row came after the moment of the snapshot. If several CPUs
 * are the first in a snapshot, one of them removes the value of the previous snapshot.
 */
#define note_later_in(row, ns, at)                                            \
	({                                                                    \
		__u64 stale_ = (row)->later_ns;                               \
		if (exchange(&(row)->later_than, (__u32)(at)) != (__u32)(at)) \
			__sync_fetch_and_add(&(row)->later_ns, -stale_);      \
		__sync_fetch_and_add(&(row)->later_ns, ns);                   \
	})

/* Returns `value` * `part` / `whole`, with a precision of 24 bits; at most `value`. */
static __always_inline __u64 portion_of(__u64 value, __u64 part, __u64 whole)
{
	__u32 bit = highest_bit(whole | 1);
	__u32 shift = bit > 23 ? bit - 23 : 0;

	part >>= shift;
	whole >>= shift;
	return value / whole * part + value % whole * part / whole;
}

/*
 * Charges `used` of a counter for the slice that ends. The part of the slice after the snapshot's
 * moment gets a share of `used` in proportion to its length. The exact share is unknown, because
 * only user space could have read the hardware counter at that moment.
 */
static __always_inline void charge_span(struct task_account *account, enum counter counter,
					__u64 used, const struct cpu_slot *slot,
					const struct span *span)
{
	account->total.v[counter] += used;
	if (span->later)
		note_later(account, counter, portion_of(used, span->later, span->ns),
			   slot->sampled_at);
}

/* Keeps the values at the snapshot's moment when a slice ends during the snapshot. */
static __always_inline void keep_moment(struct cpu_slot *slot, struct task_struct *prev, bool idle,
					__u64 since, __u64 end, __u64 at, struct span *span)
{
	struct task_account *account;

	if (end <= at)
		return;
	if (slot->sampled_at != at) {
		slot->idle_then = slot->idle_ns;
		if (idle && since < at)
			slot->idle_then += at - since;
		slot->sampled_at = at;
	}
	span->later = end - (since > at ? since : at);
	if (idle)
		return;
	account = find_account(prev);
	if (account)
		note_later(account, COUNTER_CPU_TIME, span->later, at);
}

/*
 * Reads the current moment of the CPU. The address of its run queue is cached. Reading it through
 * the task would take two more faultable loads, which the kernel guards with about ten instructions
 * each.
 */
static __always_inline void read_moment(struct cpu_slot *slot, struct task_struct *prev,
					struct moment *now)
{
	__u64 queue = slot->queue;
	struct rq *rq;

	if (!bpf_core_field_exists(prev->se.cfs_rq)) {
		now->clock = bpf_ktime_get_ns();
		now->stolen = 0;
		now->interrupts = 0;
		return;
	}
	if (unlikely(!queue)) {
		queue = (__u64)queue_of(prev)->rq;
		slot->queue = queue;
	}
	if (can_be_cast(NUMBER_RQ))
		rq = cast(queue, NUMBER_RQ);
	else
		rq = queue_of(prev)->rq;
	moment_of(rq, now);
	if (host_is_apart())
		report_steal(slot, rq, now);
}

/* `span` is how much of the ending slice belongs to `prev`. */
static __always_inline void account_slice(struct cpu_slot *slot, struct task_struct *prev,
					  struct task_struct *next, const struct moment *now,
					  struct span *span)
{
	__u64 since = slot->since;
	__u64 end = now->clock;
	__u64 at = sample_at;
	bool idle = was_idle(slot, prev);

	if (unlikely(!since))
		since = started_at;
	calibrate(slot, now->clock);
	slot->stolen = now->stolen;
	slot->interrupts = now->interrupts;
	if (next->pid == 0)
		end = charged_until(prev, now);
	end += slot->clock_offset;
	if (unlikely(end < since))
		end = since;
	if (prev->pid == 0) {
		__u64 began = idle_since(slot, prev, now, since, end);

		slot->busy_ns += began - since;
		slot->idle_switches++;
		since = began;
	}
	span->ns = end - since;
	span->later = 0;
	if (unlikely(at))
		keep_moment(slot, prev, idle, since, end, at, span);
	if (idle)
		slot->idle_ns += span->ns;
	else
		slot->busy_ns += span->ns;
	slot->since = end;
	slot->pid = injects_idle(next) ? 0 : next->pid;
}

/*
 * Charges the softirqs of the slot when the thread leaves the CPU. `account` is NULL if the thread
 * has none, which was already counted as a loss.
 */
static __always_inline void charge_softirqs(struct cpu_slot *slot, struct task_account *account)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < SOFTIRQ_VECTORS; i++) {
		if (account)
			account->total.v[COUNTER_SOFTIRQS + i] += slot->softirqs[i];
		slot->softirqs[i] = 0;
	}
	slot->all_softirqs = 0;
}

/*
 * Adds the softirqs on top of a running thread that no switch has charged yet. If the CPU switches
 * during the reads, softirqs may be missing here, or softirqs of the next thread may be included.
 * The next snapshot is correct again, because it reads the sums.
 */
static __always_inline void add_open_softirqs(const struct cpu_slot *slot, struct counters *c)
{
	if (!slot || !slot->all_softirqs)
		return;
#pragma clang loop unroll(full)
	for (int i = 0; i < SOFTIRQ_VECTORS; i++)
		c->v[COUNTER_SOFTIRQS + i] += slot->softirqs[i];
}

#endif
