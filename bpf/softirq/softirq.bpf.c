// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Softirqs by vector, charged to the thread that they interrupt. The interrupted thread loses the
 * time, even if another thread caused the softirqs. This program counts them per CPU, and the next
 * switch on the CPU charges them. A raw tracepoint is enough: its argument is a number, so loading
 * does not parse the kernel's types.
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
