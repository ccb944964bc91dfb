/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Filters events by process tree or by cgroup subtree. All objects that emit events share the two
 * tables.
 */
#ifndef NOCTULE_FILTER_BPF_H
#define NOCTULE_FILTER_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "cgroup.bpf.h"

enum {
	/* Maximum depth of a group below a wanted group. */
	CGROUP_LEVELS = 32,
};

/* Report only processes in the table `followed`. */
const volatile bool filter_processes = false;
/* Report only cgroups in the table `wanted_cgroups`, and their descendants. */
const volatile bool filter_cgroups = false;

/* Followed processes: thread group id, and the start time of the leader. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, __u64);
} followed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u64);
	__type(value, __u8);
} wanted_cgroups SEC(".maps");

static __always_inline bool is_followed(struct task_struct *task)
{
	__u32 pid = task->tgid;
	__u64 *start = bpf_map_lookup_elem(&followed, &pid);

	return start && *start == task->group_leader->start_boottime;
}

static __always_inline bool is_in_wanted_cgroup(struct task_struct *task)
{
	struct cgroup_subsys_state *state;
	struct cgroup *group = cgroup_struct_of(task);
	__u64 id;

	for (int i = 0; i < CGROUP_LEVELS && group; i++) {
		id = group->kn->id;
		if (bpf_map_lookup_elem(&wanted_cgroups, &id))
			return true;
		state = group->self.parent;
		if (!state)
			return false;
		group = state->cgroup;
	}
	return false;
}

/*
 * Whether no filter is set. Only then are events reported that cannot be attributed to a process.
 */
static __always_inline bool is_everybody_wanted(void)
{
	return !filter_processes && !filter_cgroups;
}

static __always_inline bool is_wanted(struct task_struct *task)
{
	return (!filter_processes || is_followed(task)) &&
	       (!filter_cgroups || is_in_wanted_cgroup(task));
}

#endif
