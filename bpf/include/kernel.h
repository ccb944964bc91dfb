/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types and fields that noctule reads, and nothing else. Offsets are adapted at load
 * time (CO-RE); a field that some kernel lacks is asked for with bpf_core_field_exists first. UAPI
 * constants stand here too, so that the build needs no kernel headers.
 */
#ifndef NOCTULE_KERNEL_H
#define NOCTULE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1U << 0,
	BPF_RB_NO_WAKEUP = 1U << 0,
	BPF_RB_FORCE_WAKEUP = 1U << 1,
	BPF_RB_AVAIL_DATA = 0,
};

struct bpf_perf_event_value {
	__u64 counter;
	__u64 enabled;
	__u64 running;
};

/* linux/sched.h */
enum {
	TASK_DEAD = 0x80,
	PF_KTHREAD = 0x00200000,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cgroup;

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct cfs_rq;
struct task_struct;

struct task_group {
	struct cgroup_subsys_state css;
	struct cfs_rq **cfs_rq;
};

struct rq {
	__u64 clock;
	__u64 clock_task;
	__u64 clock_pelt;
	unsigned long lost_idle_time;
	int cpu;
	struct task_struct *curr;
};

struct cfs_rq {
	struct rq *rq;
	__u64 throttled_clock_self;
	__u64 throttled_clock_self_time;
	int throttle_count;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

struct sched_entity {
	__u64 exec_start;
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int on_rq;
	int pid;
	int tgid;
	char comm[16];
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_time;
	__u64 start_boottime;
	struct sched_entity se;
	struct sched_info sched_info;
	/* v6.18: e1fad12dcb66 ("sched/fair: Switch to task based throttle model"). */
	bool throttled;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct css_set *cgroups;
	struct task_group *sched_task_group;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct inode {
	long long i_size;
};

struct address_space {
	struct inode *host;
};

struct folio {
	unsigned long flags;
	unsigned int _nr_pages;
};

/* linux/page-flags.h; the value differs between kernels, only the name is asked for. */
enum pageflags {
	PG_head = 6,
};

#pragma clang attribute pop

/* Opaque to us: bpf_iter_task_new fills it. */
struct bpf_iter_task {
	__u64 opaque[3];
} __attribute__((aligned(8)));

#endif
