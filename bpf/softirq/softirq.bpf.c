// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Softirqs, by vector, charged to the thread on top of which they run: it pays with its time,
 * whichever thread caused them.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../include/task.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vector)
{
	if (vector < COUNTER_COUNT - COUNTER_SOFTIRQS)
		charge_current(COUNTER_SOFTIRQS + vector, 1);
	return 0;
}
