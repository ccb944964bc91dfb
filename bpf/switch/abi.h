/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_SWITCH_ABI_H
#define NOCTULE_SWITCH_ABI_H

#include "../include/task.bpf.h"

enum sample_flag {
	/* The thread is the leader: parent, comm and cgroup are those of the process. */
	SAMPLE_LEADER = 1 << 0,
	/* A thread of the kernel. */
	SAMPLE_KERNEL = 1 << 1,
	SAMPLE_FOLLOWED = 1 << 2,
	/* Was on a CPU while it was read. */
	SAMPLE_RUNNING = 1 << 3,
	/* The counters are what ended threads and earlier cgroups leave to the process. */
	SAMPLE_CARRIED = 1 << 4,
	/* The process has ended, and these are its last figures. */
	SAMPLE_EXITED = 1 << 5,
};

/* One thread at a tick, or one process that has ended. */
struct task_sample {
	__u32 pid;
	__u32 tgid;
	__u64 process_start;
	__u64 cgroup;
	__u32 parent;
	__u32 flags;
	__u32 cpu;
	__u32 reserved;
	char comm[16];
	struct counters counters;
};

_Static_assert(sizeof(struct task_sample) == 56 + 8 * COUNTER_COUNT, "implicit padding");

ABI_EXPORT(struct, task_sample);
ABI_EXPORT(enum, counter);
ABI_EXPORT(enum, sample_flag);
ABI_EXPORT(enum, loss);

#endif
