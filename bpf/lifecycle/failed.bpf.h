/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Failed execs, seen at the exit of the system calls. At that time the registers still contain the
 * arguments.
 */
#ifndef NOCTULE_LIFECYCLE_FAILED_BPF_H
#define NOCTULE_LIFECYCLE_FAILED_BPF_H

#include "../include/filter.bpf.h"
#include "../include/path.bpf.h"
#include "../include/syscall.bpf.h"
#include "context.bpf.h"
#include "row.bpf.h"

enum {
	/* First of the kernel-internal error codes for calls that are restarted after a signal. */
	ERESTARTSYS = 512,
};

/* Buffer for a record, which is too large for the stack. */
struct failed_scratch {
	struct process_exec_failed event;
	char path[PATH_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct failed_scratch);
} failed_scratch SEC(".maps");

static __always_inline int exec_ended(struct task_struct *task, const struct pt_regs *regs,
				      __s32 directory, const void *path)
{
	long error = -RESULT(regs), length;
	struct failed_scratch *made;
	__u32 zero = 0;

	if (error <= 0 || error >= ERESTARTSYS || !is_streamed(EVENT_PROCESS_EXEC_FAILED) ||
	    !is_wanted(task))
		return 0;
	made = bpf_map_lookup_elem(&failed_scratch, &zero);
	if (!made)
		return 0;
	made->event.head.time = bpf_ktime_get_boot_ns();
	made->event.head.kind = EVENT_PROCESS_EXEC_FAILED;
	made->event.head.reserved = 0;
	describe_process(&made->event.head.process, task);
	describe_parent(&made->event.parent, task);
	made->event.uid = to_be_read(task)->cred->uid.val;
	made->event.error = error;
	made->event.directory = directory;
	length = bpf_probe_read_user_str(made->path, PATH_BYTES, path);
	length = length > 0 ? length - 1 : 0;
	barrier_var(length);
	length &= PATH_BYTES - 1;
	made->event.length = length;
	emit(&facts, made, sizeof(made->event) + length, EVENT_PROCESS_EXEC_FAILED);
	return 0;
}

#endif
