// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Softirqs, by vector, charged to the thread on top of which they run: it pays with its time,
 * whichever thread caused them. Here they are counted for the CPU; the next switch there charges
 * them. A raw tracepoint: its argument is a number, for which nobody has to read the kernel's
 * types.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../include/slot.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

SEC("raw_tp/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vector)
{
	struct cpu_slot *slot = slot_here();

	if (!slot || vector >= SOFTIRQ_VECTORS)
		return 0;
	if ((__u32)bpf_get_current_pid_tgid()) {
		slot->softirqs[vector]++;
		slot->all_softirqs++;
	} else {
		slot->idle.v[COUNTER_SOFTIRQS + vector]++;
	}
	return 0;
}
