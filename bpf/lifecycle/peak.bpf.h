/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The peak resident set size of a process since its last exec. The kernel's own value
 * (signal->maxrss, which wait4 returns) includes the memory that an exec replaced. A child that
 * calls exec right after the fork would get the peak of its parent.
 */
#ifndef NOCTULE_LIFECYCLE_PEAK_BPF_H
#define NOCTULE_LIFECYCLE_PEAK_BPF_H

#include "../include/compat.bpf.h"
#include "oom.bpf.h"

/* Since v6.16 sched_process_exit has `group_dead` as its last argument. */
const volatile bool has_group_dead = false;

/* signal->maxrss at the last exec of a process. */
struct replaced {
	__u64 start;
	__u64 peak;
};

/*
 * The most recent processes that called exec, by thread group id. Used before v6.16, where the exit
 * tracepoint comes after the release of the memory. For an evicted process the kernel's own value
 * is used.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct replaced);
} replaced SEC(".maps");

/* Called after exec has replaced the memory. */
static __always_inline void note_replaced(struct task_struct *task)
{
	struct task_struct *read = to_be_read(task);
	struct replaced replaced_now = {
		.start = read->group_leader->start_boottime,
		.peak = read->signal->maxrss,
	};
	__u32 pid = task->tgid;

	if (!has_group_dead)
		bpf_map_update_elem(&replaced, &pid, &replaced_now, BPF_ANY);
}

/*
 * Returns false if the peak is unknown. Before v6.16 the memory is already released, and
 * signal->maxrss may still be the peak of the memory that the last exec replaced.
 */
static __always_inline bool peak_pages(struct task_struct *task, __u64 *pages)
{
	struct task_struct *read = to_be_read(task);
	__u64 start = read->group_leader->start_boottime;
	struct replaced *before;
	__u32 pid = task->tgid;
	bool known;

	if (has_group_dead && read->mm) {
		*pages = read->mm->hiwater_rss;
		if (*pages < resident_pages(read))
			*pages = resident_pages(read);
		return true;
	}
	*pages = read->signal->maxrss;
	if (has_group_dead)
		return true;
	before = bpf_map_lookup_elem(&replaced, &pid);
	known = !before || before->start != start || *pages > before->peak;
	bpf_map_delete_elem(&replaced, &pid);
	return known;
}

#endif
