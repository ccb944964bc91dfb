/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps with settled counters, and the buffers for records of these counters. */
#ifndef NOCTULE_SUMS_BPF_H
#define NOCTULE_SUMS_BPF_H

#include "../include/row.bpf.h"
#include "abi.h"

/* Sums of the threads that ended in each cgroup or left it, by package. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__type(key, struct settled_key);
	__type(value, struct settled_sums);
} settled SEC(".maps");

/*
 * A process on a package. Pid and start time do not change if a thread other than the leader calls
 * exec and replaces the leader.
 */
struct process_key {
	__u32 tgid;
	__u32 package;
	__u64 start;
};

/*
 * Sums of each process over its ended threads, and over the time of its threads in earlier cgroups.
 * The sums are not stored with the leader, because such an exec can free the leader before the
 * process ends. The table also stores name and parent, because user space writes the last record of
 * a process whose end no program saw.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* set at load */
	__type(key, struct process_key);
	__type(value, struct task_sample);
} carried SEC(".maps");

/* Set when a program carries sums; cleared by user space. */
__u32 carried_unread;

/* Sum of the counters of all cgroups that did not fit into the map `settled`. */
struct counters overflow;

/*
 * Number of followed processes that started, and number of followed processes whose end was
 * reported.
 */
__u64 followed_started;
__u64 followed_reported;

/*
 * Buffers for records, which are too large for the stack. Only one walk, one move between cgroups,
 * and one switch per CPU run at a time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* SCRATCHES plus possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct task_sample);
} scratches SEC(".maps");

static const struct counters nothing;
static const struct settled_sums nothing_settled;
static const struct task_sample no_sample;

#endif
