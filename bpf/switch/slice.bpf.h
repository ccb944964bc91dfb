/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: time of each CPU by our own slices. Idle is measured here (no task accounts for it), and
 * busy time is the independent check of what the kernel accounts to tasks.
 */
#ifndef NOCTULE_SLICE_BPF_H
#define NOCTULE_SLICE_BPF_H

#include "../include/cpu_time.bpf.h"

enum {
	/* The clocks of a CPU that switches are compared this often, */
	CALIBRATE_NS = 10000000,
	/* and at each of its first switches. */
	CALIBRATE_FIRST = 16,
	/* The measurement before is compared when it is no older than that. */
	CALIBRATE_FRESH_NS = 100000000,
};

/*
 * The moment (CLOCK_MONOTONIC) of the snapshot that user space takes; 0 while it takes none. To
 * read everything takes milliseconds, and more when the reader loses its CPU: whatever changes
 * meanwhile keeps what it was at the moment, so that the sums close however long it takes.
 */
__u64 sample_at;

/*
 * Compares the clocks. The scheduler's is as old as its last update, so of the last two
 * measurements the smaller one is taken: one that was late (an interrupt, a CPU that the host took
 * away) makes no difference, and a clock that NTP slews, by up to a tenth, is followed. What is
 * longer ago than that says little.
 */
static __always_inline void calibrate(struct cpu_slot *slot, __u64 clock)
{
	__u64 now;
	__s64 offset;

	if (slot->calibrations >= CALIBRATE_FIRST &&
	    clock + slot->clock_offset - slot->calibrated < CALIBRATE_NS)
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
 * The moment up to which the kernel charged `prev`, by the scheduler's clock. What is done for
 * balancing before a CPU goes idle is charged to nobody. With the kernel's own moments, busy and
 * idle time neither overlap nor leave a gap; by the tracepoint they overlapped by 6 us per wake-up
 * on a virtual machine: a task that wakes an idle CPU is charged from the wake-up on, because the
 * scheduler skips the second update of its clock (rq_clock_skip_update).
 */
static __always_inline __u64 charged_until(struct task_struct *prev, __u64 clock)
{
	struct rq *rq;
	__u64 end;

	if (!bpf_core_field_exists(prev->se.cfs_rq))
		return clock;
	rq = queue_of(prev)->rq;
	end = prev->se.exec_start + (rq->clock - rq->clock_task);
	return end < clock ? end : clock;
}

/*
 * Since when the idle task has the CPU. Where the switch to it was not seen, because it was from a
 * process that the kernel hides from programs, the scheduler of v6.12 and later has noted it (for
 * its deadline server). Before, what that process used last counts as idle too.
 */
static __always_inline __u64 idle_since(struct cpu_slot *slot, struct task_struct *idle,
					__u64 since, __u64 end)
{
	struct rq *rq;
	__u64 began;

	if (!slot->pid || !bpf_core_field_exists(idle->se.cfs_rq))
		return since;
	rq = queue_of(idle)->rq;
	began = idle->se.exec_start + (rq->clock - rq->clock_task) + slot->clock_offset;
	return began > since && began < end ? began : since;
}

/* The same while the CPU is idle, for whoever reads the slot. */
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

/* A slice ends while a snapshot is taken: keeps what was at its moment. */
static __always_inline void keep_moment(struct cpu_slot *slot, struct task_struct *prev,
					__u64 since, __u64 end, __u64 at)
{
	struct task_account *account;

	if (end <= at)
		return;
	if (slot->sampled_at != at) {
		slot->idle_then = slot->idle_ns;
		if (!prev->pid && since < at)
			slot->idle_then += at - since;
		slot->sampled_at = at;
	}
	if (!prev->pid)
		return;
	account = find_account(prev);
	if (!account)
		return;
	if (account->later_than != at) {
		account->later = 0;
		account->later_than = at;
	}
	account->later += end - (since > at ? since : at);
}

static __always_inline void account_slice(struct cpu_slot *slot, struct task_struct *prev,
					  struct task_struct *next, const struct moment *now)
{
	__u64 since = slot->since ?: started_at;
	__u64 end = now->clock;
	__u64 at = sample_at;

	calibrate(slot, now->clock);
	if (!slot->queue && bpf_core_field_exists(prev->se.cfs_rq))
		slot->queue = (__u64)queue_of(prev)->rq;
	slot->stolen = now->stolen;
	slot->interrupts = now->interrupts;
	if (next->pid == 0)
		end = charged_until(prev, now->clock);
	end += slot->clock_offset;
	if (end < since)
		end = since;
	if (prev->pid == 0) {
		__u64 began = idle_since(slot, prev, since, end);

		slot->busy_ns += began - since;
		since = began;
	}
	if (at)
		keep_moment(slot, prev, since, end, at);
	if (prev->pid == 0) {
		slot->idle_ns += end - since;
		slot->idle_switches++;
	} else {
		slot->busy_ns += end - since;
	}
	slot->since = end;
	slot->pid = next->pid;
	slot->tgid = next->tgid;
}

#endif
