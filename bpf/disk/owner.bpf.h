/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the user of a bio: the cgroup of the task that submits the bio or, for a kernel thread, the
 * cgroup that the bio names.
 */
#ifndef NOCTULE_DISK_OWNER_BPF_H
#define NOCTULE_DISK_OWNER_BPF_H

#include "../include/cgroup.bpf.h"
#include "abi.h"

/* The counted hierarchy, numbered as in /proc/self/cgroup: 0 is v2. */
const volatile int hierarchy = 0;

/* Name of the kernel thread that writes the journal of ext4. */
static const char journal_thread[5] = "jbd2/";

/* Returns the group of a css_set in the counted hierarchy; NULL for the root of v1. */
static __always_inline struct cgroup *cgroup_of_set(struct css_set *set)
{
	struct cgroup_subsys_state *css = NULL;
	__u32 id;

	if (cgroup_from_v2)
		return BPF_CORE_READ(set, dfl_cgrp);
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return NULL;
	id = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);
	if (bpf_core_read(&css, sizeof(css), &set->subsys[id]))
		return NULL;
	return css ? BPF_CORE_READ(css, cgroup) : NULL;
}

static __always_inline __u64 id_of(struct cgroup *group)
{
	return group ? BPF_CORE_READ(group, kn, id) : CGROUP_ROOT_ID;
}

/*
 * Returns the group that the bio names, or 0 if it names none or the root. If that group is in
 * another hierarchy, returns the group that its tasks have in the counted hierarchy.
 */
static __always_inline __u64 cgroup_in_bio(struct bio *bio)
{
	struct cgroup *group;
	struct list_head *link;
	__u64 id;

	if (!bpf_core_field_exists(bio->bi_blkg))
		return 0;
	group = BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup);
	if (!group)
		return 0;
	id = id_of(group);
	if (id == CGROUP_ROOT_ID)
		return 0;
	if (BPF_CORE_READ(group, root, hierarchy_id) == hierarchy)
		return id;
	link = BPF_CORE_READ(group, cset_links.next);
	if (!link || (__u64)link == (__u64)group + bpf_core_field_offset(struct cgroup, cset_links))
		return 0;
	link = (void *)link - bpf_core_field_offset(struct cgrp_cset_link, cset_link);
	id = id_of(cgroup_of_set(BPF_CORE_READ((struct cgrp_cset_link *)link, cset)));
	return id == CGROUP_ROOT_ID ? 0 : id;
}

static __always_inline bool is_journal_thread(struct task_struct *task)
{
	char comm[sizeof(journal_thread)];
	__u32 i;

	if (bpf_core_read(comm, sizeof(comm), &task->comm))
		return false;
	for (i = 0; i < sizeof(comm); i++)
		if (comm[i] != journal_thread[i])
			return false;
	return true;
}

/* Sets the user of a bio that the current task submits. */
static __always_inline void find_user(struct bio *bio, __u64 *cgroup, __u32 *user)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u32 flags = BPF_CORE_READ(bio, bi_opf);

	*user = DISK_USER_CGROUP;
	if (!(BPF_CORE_READ(task, flags) & PF_KTHREAD)) {
		*cgroup = id_of(cgroup_of_set(BPF_CORE_READ(task, cgroups)));
		return;
	}
	*cgroup = cgroup_in_bio(bio);
	if (*cgroup)
		return;
	if ((flags & REQ_OP_MASK) != REQ_OP_WRITE)
		*user = DISK_USER_KERNEL;
	else if (flags & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_META) ||
		 is_journal_thread(task))
		*user = DISK_USER_JOURNAL;
	else
		*user = DISK_USER_WRITEBACK;
}

#endif
