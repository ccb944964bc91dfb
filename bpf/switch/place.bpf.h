/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Location of a CPU: its package (socket), and the other hardware thread of its core. Energy is
 * metered by package, and two threads on one core do not use twice the energy of one thread.
 */
#ifndef NOCTULE_PLACE_BPF_H
#define NOCTULE_PLACE_BPF_H

#include "abi.h"

/*
 * Number of packages, which are numbered from 0. If there is only one package, the verifier removes
 * every lookup.
 */
const volatile __u32 packages = 1;

/* Whether some cores have two hardware threads. */
const volatile bool has_siblings = false;

/*
 * User space writes this map before it attaches anything, and when CPUs come online or go offline.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct cpu_place);
} places SEC(".maps");

static __always_inline __u32 package_of_cpu(__u32 cpu)
{
	struct cpu_place *place;

	if (packages < 2)
		return 0;
	place = bpf_map_lookup_elem(&places, &cpu);
	return place && place->package < packages ? place->package : 0;
}

/* Returns the package of the CPU time that is not settled yet. */
static __always_inline __u32 package_of(struct task_struct *task, struct task_account *account)
{
	if (packages < 2)
		return 0;
	if (!account->package && bpf_core_field_exists(task->se.cfs_rq))
		account->package = package_of_cpu(cpu_of(queue_of(task)->rq)) + 1;
	return account->package ? account->package - 1 : 0;
}

/*
 * Returns for how long the sibling of the CPU was busy since the last call, for the slice that ends
 * at `slot->since`. The sibling may write its slot at the same time. An error in one slice is
 * corrected in the next slice, because both slices read the same running sum.
 */
static __always_inline __u64 sibling_growth(struct cpu_slot *slot, __u32 cpu)
{
	struct cpu_slot *sibling;
	struct cpu_place *place;
	__u64 busy, since;
	__s64 growth;

	if (!has_siblings)
		return 0;
	place = bpf_map_lookup_elem(&places, &cpu);
	if (!place || !place->sibling)
		return 0;
	cpu = place->sibling - 1;
	sibling = bpf_map_lookup_elem(&cpus, &cpu);
	if (!sibling)
		return 0;
	busy = sibling->busy_ns;
	since = sibling->since;
	if (sibling->pid && since && since < slot->since)
		busy += slot->since - since;
	growth = busy - slot->sibling_busy;
	if (growth <= 0)
		return 0;
	slot->sibling_busy = busy;
	return growth;
}

#endif
