/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_CGROUP_BPF_H
#define NOCTULE_CGROUP_BPF_H

#include "kernel.h"
#include "read.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

enum {
	/* kn->id of the root group of every hierarchy. */
	CGROUP_ROOT_ID = 1,
};

/*
 * Whether cgroup v2 is read. On v1 and hybrid hosts every task is in the root of v2, so the group
 * of the cpu controller is read instead. Set at load from the mounted hierarchies.
 */
const volatile bool cgroup_from_v2 = true;

/*
 * Returns the task's cgroup in that hierarchy. NULL for the root group of v1, and without
 * CONFIG_CGROUPS.
 */
static __always_inline struct cgroup *cgroup_struct_of(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->cgroups))
		return NULL;
	if (cgroup_from_v2)
		return to_be_read(task)->cgroups->dfl_cgrp;
	if (!bpf_core_field_exists(task->sched_task_group))
		return NULL;
	/* An autogroup has no cgroup. Only tasks of the root group are in autogroups. */
	return to_be_read(task)->sched_task_group->css.cgroup;
}

/* Returns the id of the task's cgroup: the inode of its directory in that hierarchy. */
static __always_inline __u64 cgroup_of(struct task_struct *task)
{
	struct cgroup *group = cgroup_struct_of(task);

	return group ? group->kn->id : CGROUP_ROOT_ID;
}

#endif
