/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Filters for file events.
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
	/* First of the kernel-internal error codes for interrupted system calls. */
	ERESTARTSYS = 512,
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* set at load */
} bulk SEC(".maps");

/* Also report read-only opens, failures, and special files. */
const volatile bool with_reads = false;
const volatile bool with_failures = false;
const volatile bool with_special = false;

/*
 * Report only this path and paths below it. The path has no trailing slash. A length of 0 means all
 * paths.
 */
const volatile char path_prefix[PREFIX_BYTES] = {};
const volatile __u32 path_prefix_length = 0;

/* The agent's own thread group, which is not reported; 0 if unknown. */
const volatile int agent_pid = 0;

/* Whether file accesses of this thread are considered at all. */
static __always_inline bool is_of_user(const struct task_struct *task)
{
	return task->tgid != agent_pid && !(task->flags & (PF_KTHREAD | PF_DUMPCORE));
}

/*
 * Whether the path equals the wanted path or is below it. True for a truncated path, which cannot
 * be compared.
 */
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

/* Maps an error of the kernel to the errno that the process sees. */
static __always_inline __u32 error_number(__u32 error)
{
	return error < ERESTARTSYS ? error : EINTR;
}

#endif
