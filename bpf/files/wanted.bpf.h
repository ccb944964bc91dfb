/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which of what happens to files is wanted.
 */
#ifndef NOCTULE_FILES_WANTED_BPF_H
#define NOCTULE_FILES_WANTED_BPF_H

#include "../include/filter.bpf.h"
#include "../include/path.bpf.h"
#include "abi.h"
#include "special.bpf.h"

enum {
	PF_DUMPCORE = 0x200,
	EINTR = 4,
	/* From here on: the kernel's own marks of calls that a signal interrupted. */
	ERESTARTSYS = 512,
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* set at load */
} bulk SEC(".maps");

/* Opens for reading alone, failures, and special files are wanted too. */
const volatile bool with_reads = false;
const volatile bool with_failures = false;
const volatile bool with_special = false;

/* Only paths that are this one or below it; without a slash at its end. Length 0: all. */
const volatile char path_prefix[PREFIX_BYTES] = {};
const volatile __u32 path_prefix_length = 0;

/* The agent's own thread group: what it does is not reported. 0: not known. */
const volatile int agent_pid = 0;

/* Whether a thread is one whose files are looked at at all. */
static __always_inline bool is_of_user(const struct task_struct *task)
{
	return task->tgid != agent_pid && !(task->flags & (PF_KTHREAD | PF_DUMPCORE));
}

/* Whether the path is the wanted one or below it. Of a path that was cut this is not known: yes. */
static __always_inline bool has_prefix(const char *path, __u32 length, __u32 marks)
{
	__u32 i;

	if (!path_prefix_length || marks & PATH_CUT)
		return true;
	for (i = 0; i < PREFIX_BYTES - 1 && i < path_prefix_length; i++)
		if (i >= length || path[i] != path_prefix[i])
			return false;
	return length == i || path[i] == '/';
}

/* What the process gets to see of an error of the kernel. */
static __always_inline __u32 error_number(__u32 error)
{
	return error < ERESTARTSYS ? error : EINTR;
}

#endif
