/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_SWITCH_ABI_H
#define NOCTULE_SWITCH_ABI_H

#include "../include/task.bpf.h"
#include "../include/hist.bpf.h"

enum sample_flag {
	/* The thread is the leader, so parent, comm and cgroup also apply to the process. */
	SAMPLE_LEADER = 1 << 0,
	/* The thread is a kernel thread. */
	SAMPLE_KERNEL = 1 << 1,
	SAMPLE_FOLLOWED = 1 << 2,
	/* The thread was on a CPU when it was read. */
	SAMPLE_RUNNING = 1 << 3,
	/*
	 * Carried sums: usage of ended threads of the process, and of its threads in earlier
	 * cgroups.
	 */
	SAMPLE_CARRIED = 1 << 4,
	/* The process has ended, and these are its last counters. */
	SAMPLE_EXITED = 1 << 5,
	/* The thread was settled while a snapshot was taken; the record is a struct late_settle. */
	SAMPLE_LATE = 1 << 6,
	/* The CPU of the running thread has switched since the moment of the snapshot. */
	SAMPLE_SWITCHED = 1 << 7,
	/*
	 * Sums of an ending process on a package other than that of its last thread. The
	 * SAMPLE_EXITED record of the process follows.
	 */
	SAMPLE_ELSEWHERE = 1 << 8,
	/*
	 * Set by user space with SAMPLE_CARRIED: the process was reaped. Its SAMPLE_EXITED record
	 * follows.
	 */
	SAMPLE_GONE = 1 << 9,
	/* The thread `pid` no longer exists. User space last saw it as blocked. */
	SAMPLE_THREAD_GONE = 1 << 10,
};

/*
 * A record of one of three kinds: a thread, with its counters since it was last read or settled;
 * the carried sums of a process; an ended process, with its unread counters.
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
	 * For carried sums: low half of the moment of the last snapshot during which they grew. For
	 * an ended process: low half of the moment of the snapshot in progress, or 0.
	 */
	__u32 later_than;
	/* For carried sums: whether the process is on the list. */
	__u32 listed;
	/* The package on which the counters grew. */
	__u32 package;
	/*
	 * For a living thread, how long it has been runnable without running; 0 if it does not
	 * wait.
	 */
	__u64 waiting_ns;
	/* CPU time in `counters` after the moment whose low half is in `later_than`. */
	__u64 later_ns;
	/* For a living thread, the block in progress, as encoded in its account. */
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
	 * CPU time in the row of its cgroup before the counters were added. If a reader finds a
	 * larger value in the row, the row already includes them.
	 */
	__u64 row_before;
	/* CPU time in the carried sums of its process before the counters were added. */
	__u64 process_before;
};

/* A living process; or a blocked thread that user space last saw as blocked. */
struct living {
	__u32 tgid;
	__u32 pid;
	__u64 start;
};

/* Location of a CPU. */
struct cpu_place {
	__u32 package;
	/* The other CPU on the same core, plus 1; 0 if there is none. */
	__u32 sibling;
};

enum place_limit {
	/* CPUs of packages beyond this number are counted with package 0. */
	MOST_PACKAGES = 16,
};

/* Key of the sums of threads that ended in a cgroup or left it, by package. */
struct settled_key {
	__u64 cgroup;
	__u64 package;
};

/* The settled sums of a cgroup on a package. */
struct settled_sums {
	struct counters counters;
	/* CPU time in `counters` after the moment whose low half is in `later_than`. */
	__u64 later_ns;
	__u32 later_than;
	__u32 reserved;
};

/* Pseudo groups. The id of a cgroup is at least 1. */
enum group {
	/* The idle task. */
	GROUP_IDLE = 0,
	/* Kernel threads in the root cgroup. */
	GROUP_KERNEL = -1,
	/* The command that the agent follows, in any cgroup. */
	GROUP_FOLLOWED = -2,
};

/*
 * Slots for the division of waits in progress. A wait that ends is divided in the slot of its CPU.
 */
enum division_place {
	DIVISION_WALK,
	DIVISION_MOVE,
	DIVISIONS_ELSEWHERE,
};

/* Slots for records, in addition to one for each CPU. */
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
	/* How often the culprit preempted the victim. */
	__u64 preemptions;
};

/* Values of `releaser` that are not the id of a group. */
enum no_releaser {
	/* No program saw the end of the block. Such blocks have no row. */
	RELEASER_UNKNOWN = 0,
	/* A timeout, a signal or another interrupt ended the block. */
	RELEASER_NONE = -3,
	/* The thread left the group while it was blocked. */
	RELEASER_LATER = -4,
};

/* The group that was blocked in a class, and the process that ended the block. */
struct release_key {
	__u64 victim;
	__u64 releaser;
	__u64 process_start;
	__u32 pid;
	__u32 class;
};

struct release {
	__u64 blocked_ns;
	/* Blocked time in `blocked_ns` after the moment whose low half is in `later_than`. */
	__u64 later_ns;
	__u32 later_than;
	__u32 reserved;
};

/* The waits of one group. */
struct wait_row {
	/* The group; 0 in a free row, and in row 0. */
	__u64 group;
	/* Sum over the culprits that did not fit into `blames`. */
	struct blame unnamed;
	/* 32-bit counters, which the reader extends. They cannot overflow between two readings. */
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
ABI_EXPORT(enum, no_releaser);
ABI_EXPORT(struct, release_key);
ABI_EXPORT(struct, release);

#endif
