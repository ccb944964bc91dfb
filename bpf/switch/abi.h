/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_SWITCH_ABI_H
#define NOCTULE_SWITCH_ABI_H

#include "../include/task.bpf.h"
#include "../include/hist.bpf.h"

enum sample_flag {
	/* The thread is the leader: parent, comm and cgroup are those of the process. */
	SAMPLE_LEADER = 1 << 0,
	/* A thread of the kernel. */
	SAMPLE_KERNEL = 1 << 1,
	SAMPLE_FOLLOWED = 1 << 2,
	/* Was on a CPU while it was read. */
	SAMPLE_RUNNING = 1 << 3,
	/* Carried sums: of ended threads of the process, and of its threads in earlier cgroups. */
	SAMPLE_CARRIED = 1 << 4,
	/* The process has ended, and these are its last figures. */
	SAMPLE_EXITED = 1 << 5,
	/* A thread was settled while a snapshot was taken: struct late_settle. */
	SAMPLE_LATE = 1 << 6,
	/* The CPU that it was on had switched since the moment of the snapshot. */
	SAMPLE_SWITCHED = 1 << 7,
	/* Of a process that ends: its sums on another package. The record of its end follows. */
	SAMPLE_ELSEWHERE = 1 << 8,
	/*
	 * With SAMPLE_CARRIED, set by user space: the process was reaped. The record of its end
	 * follows.
	 */
	SAMPLE_GONE = 1 << 9,
	/* The thread `pid` has gone. User space was last told that it was blocked. */
	SAMPLE_THREAD_GONE = 1 << 10,
};

/*
 * One thread, with its counters since it was last read or settled; or the carried sums of a
 * process; or a process that has ended, with its counters that were not read yet.
 */
struct task_sample {
	__u32 pid;
	__u32 tgid;
	__u64 process_start;
	__u64 cgroup;
	__u32 parent;
	__u32 flags;
	__u32 cpu;
	/*
	 * Low half of the moment of the last snapshot during which carried sums grew. Of a process
	 * that ended: of the snapshot that was being taken, else 0.
	 */
	__u32 later_than;
	/* In carried sums: the process is on the list. */
	__u32 listed;
	/* The package on which the counters grew. */
	__u32 package;
	/* Of a living thread: how long it has been runnable and has not run; 0: it does not wait.
	 */
	__u64 waiting_ns;
	/* CPU time in `counters` after that moment. */
	__u64 later_ns;
	/* Of a living thread: the block that lasts, as its account has it. */
	__u64 block;
	char comm[16];
	struct counters counters;
};

_Static_assert(sizeof(struct task_sample) == 88 + 8 * COUNTER_COUNT, "implicit padding");

/* The counters of a thread that was settled while the snapshot was taken. */
struct late_settle {
	struct task_sample sample;
	/* The moment of the snapshot. */
	__u64 at;
	/*
	 * CPU time in the row of its cgroup before it was added: a reader that found more there has
	 * it already.
	 */
	__u64 row_before;
	/* The same in the carried sums of its process. */
	__u64 process_before;
};

/* A process that is alive; or a thread, if it is blocked and user space was told so. */
struct living {
	__u32 tgid;
	__u32 pid;
	__u64 start;
};

/* Where a CPU is. */
struct cpu_place {
	__u32 package;
	/* The CPU on the same core, plus 1; 0: there is none. */
	__u32 sibling;
};

enum place_limit {
	/* CPUs of packages above it count for package 0. */
	MOST_PACKAGES = 16,
};

/* Key of the sums of threads that ended in a cgroup or left it, by package. */
struct settled_key {
	__u64 cgroup;
	__u64 package;
};

/* Those sums. */
struct settled_sums {
	struct counters counters;
	/* CPU time in `counters` after the moment of which `later_than` has the low half. */
	__u64 later_ns;
	__u32 later_than;
	__u32 reserved;
};

/* Groups that are no cgroup. The id of a cgroup is at least 1. */
enum group {
	/* The idle task. */
	GROUP_IDLE = 0,
	/* Threads of the kernel that are in no cgroup of their own. */
	GROUP_KERNEL = -1,
	/* The command that the agent follows, whichever cgroups it is in. */
	GROUP_FOLLOWED = -2,
};

/* Where a wait that has not ended is divided; one that ends is divided on its CPU. */
enum division_place {
	DIVISION_WALK,
	DIVISION_MOVE,
	DIVISIONS_ELSEWHERE,
};

/* Records that are made beside those of the CPUs. */
enum scratch {
	SCRATCH_WALK,
	SCRATCH_MOVE,
	SCRATCHES,
};

/* The group that waited, and the group that had the CPU. */
struct blame_key {
	__u64 victim;
	__u64 culprit;
};

struct blame {
	__u64 wait_ns;
	/* How often the culprit took the CPU away. */
	__u64 preemptions;
};

/* The waits of one group. */
struct wait_row {
	/* The group of the row; 0 in a free row, and in row 0. */
	__u64 group;
	/* Culprits for which `blames` had no room. */
	struct blame unnamed;
	/* 32 bits, which the reader extends: they cannot overflow between two readings. */
	__u32 buckets[HISTOGRAM_BUCKETS];
};

_Static_assert(sizeof(struct wait_row) == 24 + 4 * HISTOGRAM_BUCKETS, "implicit padding");

ABI_EXPORT(struct, task_sample);
ABI_EXPORT(struct, late_settle);
ABI_EXPORT(struct, living);
ABI_EXPORT(struct, cpu_place);
ABI_EXPORT(enum, place_limit);
ABI_EXPORT(struct, settled_key);
ABI_EXPORT(struct, settled_sums);
ABI_EXPORT(enum, counter);
ABI_EXPORT(enum, block_class);
ABI_EXPORT(enum, block_layout);
ABI_EXPORT(enum, sample_flag);
ABI_EXPORT(enum, loss);
ABI_EXPORT(enum, group);
ABI_EXPORT(enum, division_place);
ABI_EXPORT(enum, scratch);
ABI_EXPORT(enum, histogram);
ABI_EXPORT(struct, wait_row);
ABI_EXPORT(struct, blame_key);
ABI_EXPORT(struct, blame);

#endif
