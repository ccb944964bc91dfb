/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_CGROUP_ABI_H
#define NOCTULE_CGROUP_ABI_H

#include "../include/kernel.h"
#include "../include/abi.bpf.h"

enum cgroup_change {
	CGROUP_MADE,
	CGROUP_RENAMED,
	CGROUP_REMOVED,
	/* Nothing refers to the group any more, so its counters cannot change. */
	CGROUP_RELEASED,
};

/*
 * Sizes of a record. Most paths are short, and the ring buffer holds four times as many short
 * records.
 */
enum cgroup_path {
	CGROUP_PATH_SHORT = 240,
	CGROUP_PATH_LONG = 1008,
};

struct cgroup_event {
	__u64 id;
	__u32 change;
	/* Length of the path including its NUL; 0 for a path that does not fit and is left out. */
	__u32 length;
	char path[];
};

_Static_assert(sizeof(struct cgroup_event) == 16, "implicit padding");

ABI_EXPORT(struct, cgroup_event);
ABI_EXPORT(enum, cgroup_change);
ABI_EXPORT(enum, cgroup_path);

#endif
