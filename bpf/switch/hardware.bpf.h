/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: hardware counters. Each counter has one event per CPU, which counts everything that runs
 * on the CPU. Each switch charges the growth to the thread that leaves the CPU.
 */
#ifndef NOCTULE_HARDWARE_BPF_H
#define NOCTULE_HARDWARE_BPF_H

#include "slice.bpf.h"

enum {
	HARDWARE_COUNTERS = 4,
};

/* Bit i is set if COUNTER_CYCLES + i is open on every CPU. */
const volatile __u32 hardware_mask = 0;

/* The index is CPU x HARDWARE_COUNTERS + counter. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, __u32);
} hardware SEC(".maps");

/*
 * Scales a multiplexed counter. If there are more events than PMU counters, the kernel rotates
 * them. If a counter ran for less than its enabled time, its value is extrapolated, as in perf.
 */
static __always_inline __u64 scaled(__u64 count, __u64 enabled, __u64 running)
{
	if (running >= enabled || running == 0)
		return count;
	/* Keeps the products below 2^64. A precision of 2^22 ns is enough for a ratio. */
	while (enabled >> 22) {
		enabled >>= 1;
		running >>= 1;
	}
	if (running == 0)
		return count;
	return count / running * enabled + count % running * enabled / running;
}

/* `account` is the account of `prev`, or NULL. */
static __always_inline void account_hardware(struct cpu_slot *slot, struct task_struct *prev,
					     struct task_account *account, __u32 cpu,
					     const struct span *span)
{
	if (!hardware_mask)
		return;
	for (int i = 0; i < HARDWARE_COUNTERS; i++) {
		struct bpf_perf_event_value value, *last = &slot->last[i];
		__u64 growth;

		if (!(hardware_mask & (1 << i)))
			continue;
		if (bpf_perf_event_read_value(&hardware, cpu * HARDWARE_COUNTERS + i, &value,
					      sizeof(value))) {
			count_loss(LOSS_COUNTER_READ);
			continue;
		}
		/* If the value decreased, the event was reopened after its CPU came back online. */
		if (value.enabled < last->enabled || value.counter < last->counter) {
			*last = value;
			continue;
		}
		growth = scaled(value.counter - last->counter, value.enabled - last->enabled,
				value.running - last->running);
		if (value.running == last->running && value.enabled != last->enabled)
			count_loss(LOSS_COUNTER_READ);
		*last = value;
		if (account)
			charge_span(account, COUNTER_CYCLES + i, growth, slot, span);
		else if (!prev->pid)
			slot->idle.v[COUNTER_CYCLES + i] += growth;
	}
}

#endif
