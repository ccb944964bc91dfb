/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Victims of the OOM killer. The kernel reports that a process was chosen. Only when the process
 * exits is it known whether the OOM killer killed it.
 */
#ifndef NOCTULE_LIFECYCLE_OOM_BPF_H
#define NOCTULE_LIFECYCLE_OOM_BPF_H

#include "../include/compat.bpf.h"
#include "row.bpf.h"

enum {
	MM_COUNTERS_RESIDENT = 3,
	/* Maximum number of nested memory cgroups whose limit is read. */
	MEMORY_LEVELS = 32,
	VICTIMS = 1024,
};

const volatile __u32 page_shift = 12;

/*
 * mark_victim passes the task since v6.9, and also in 6.1.130. Older kernels pass the id of one of
 * the victim's threads.
 */
const volatile bool victim_is_task = false;

struct victim {
	__u64 start;
	__u64 rss;
	__u64 limit;
};

/* Chosen processes by thread group id, until they exit. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, VICTIMS);
	__type(key, __u32);
	__type(value, struct victim);
} victims SEC(".maps");

/*
 * The most recent killed processes: start time by thread group id. The kernel sends the signal
 * before it marks the victim, and can be preempted between the two steps. Before v6.16 the exit
 * tracepoint came after the release of the memory, which waits for the mark.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, VICTIMS);
	__type(key, __u32);
	__type(value, __u64);
} killed SEC(".maps");

/* Marked threads by thread id, for kernels that report only that. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, VICTIMS);
	__type(key, __u32);
	__type(value, __u8);
} marked_threads SEC(".maps");

/*
 * Returns the lowest limit of the task's memory cgroup and its ancestors, in bytes; 0 if there is
 * none.
 */
static __always_inline __u64 memory_limit(struct task_struct *task)
{
	__u64 unlimited = ((1ULL << 63) - 1) >> page_shift;
	struct page_counter *counter;
	struct mem_cgroup *group;
	__u64 lowest = unlimited;
	int id;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id) ||
	    !bpf_core_field_exists(task->cgroups))
		return 0;
	id = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	/* The css is the first field of struct mem_cgroup, so both have the same address. */
	if (bpf_core_read(&group, sizeof(group), &task->cgroups->subsys[id]) || !group)
		return 0;
	counter = &group->memory;
	for (int i = 0; i < MEMORY_LEVELS && counter; i++) {
		__u64 max = BPF_CORE_READ(counter, max);

		if (max < lowest)
			lowest = max;
		counter = BPF_CORE_READ(counter, parent);
	}
	return lowest == unlimited ? 0 : lowest << page_shift;
}

/* Returns the number of resident pages, counted as in the kernel's log. */
static __always_inline __u64 resident_pages(struct task_struct *task)
{
	enum { FILE = 0, ANONYMOUS = 1, SHARED = 3 };
	struct mm_struct___pre_6_2 *older = (void *)task->mm;
	struct mm_struct *mm = task->mm;

	if (!mm)
		return 0;
	/*
	 * This is not a direct read, because before v6.2 the verifier rejects a typedef in an
	 * array.
	 */
	if (bpf_core_field_exists(older->rss_stat.count))
		return BPF_CORE_READ(older, rss_stat.count[FILE].counter) +
		       BPF_CORE_READ(older, rss_stat.count[ANONYMOUS].counter) +
		       BPF_CORE_READ(older, rss_stat.count[SHARED].counter);
	return BPF_CORE_READ(mm, rss_stat[FILE].count) +
	       BPF_CORE_READ(mm, rss_stat[ANONYMOUS].count) +
	       BPF_CORE_READ(mm, rss_stat[SHARED].count);
}

static __always_inline void note_victim(struct task_struct *task)
{
	struct task_struct *read = to_be_read(task);
	__u32 pid = task->tgid;
	struct victim victim = {
		.start = read->group_leader->start_boottime,
		.rss = resident_pages(read) << page_shift,
		.limit = memory_limit(read),
	};

	if (bpf_map_update_elem(&victims, &pid, &victim, BPF_ANY))
		count_loss(LOSS_OOM_VICTIM);
}

static __always_inline void note_old_mark(__u32 thread)
{
	__u8 marked = 1;

	if (bpf_map_update_elem(&marked_threads, &thread, &marked, BPF_ANY))
		count_loss(LOSS_OOM_VICTIM);
}

/* Notes the process of an exiting thread that was marked. */
static __always_inline void note_old_victim(struct task_struct *task)
{
	__u32 thread = task->pid;

	if (!bpf_map_lookup_elem(&marked_threads, &thread))
		return;
	note_victim(task);
	bpf_map_delete_elem(&marked_threads, &thread);
}

static __always_inline void note_killed(struct task_struct *task)
{
	__u64 start = to_be_read(task)->group_leader->start_boottime;
	__u32 pid = task->tgid;

	bpf_map_update_elem(&killed, &pid, &start, BPF_ANY);
}

static __always_inline bool was_killed(struct task_struct *task)
{
	__u32 pid = task->tgid;
	__u64 *start = bpf_map_lookup_elem(&killed, &pid);

	return start && *start == to_be_read(task)->group_leader->start_boottime;
}

/*
 * Removes the record that the OOM killer chose the process. The program at exit first records the
 * kill and then looks for the victim. The program at mark_victim first records the victim and then
 * looks for the kill. At least one of the two programs therefore finds the record of the other, and
 * the program that removes the record of the victim reports the kill.
 */
static __always_inline bool take_victim(struct task_struct *task, struct victim *taken)
{
	__u32 pid = task->tgid;
	struct victim *victim = bpf_map_lookup_elem(&victims, &pid);

	if (!victim || victim->start != to_be_read(task)->group_leader->start_boottime)
		return false;
	*taken = *victim;
	return !bpf_map_delete_elem(&victims, &pid);
}

#endif
