/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process executes another program.
 */
#ifndef NOCTULE_LIFECYCLE_EXEC_BPF_H
#define NOCTULE_LIFECYCLE_EXEC_BPF_H

#include "row.bpf.h"

/* A record is made here: it is too large for the stack. */
struct exec_record {
	struct process_exec event;
	char text[EXEC_PATH + EXEC_ARGS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exec_record);
} exec_scratch SEC(".maps");

/* Copies the arguments behind the path; what the program changes later does not matter. */
static __always_inline void add_args(struct process_exec *event, char *to, struct mm_struct *mm)
{
	__u64 length = mm->arg_end - mm->arg_start;

	event->args_truncated = length > EXEC_ARGS;
	if (length > EXEC_ARGS)
		length = EXEC_ARGS;
	event->args_length = 0;
	/* The last argument can be cut off: there is no NUL behind it then. */
	if (!bpf_probe_read_user(to, length & (2 * EXEC_ARGS - 1), (const void *)mm->arg_start))
		event->args_length = length;
}

static __always_inline void report_exec(struct task_struct *task, struct linux_binprm *binary)
{
	struct exec_record *record;
	struct process_exec *event;
	__u32 zero = 0, length;
	long path;

	record = bpf_map_lookup_elem(&exec_scratch, &zero);
	if (!record)
		return;
	event = &record->event;
	event->head.time = bpf_ktime_get_boot_ns();
	event->head.kind = EVENT_PROCESS_EXEC;
	event->head.reserved = 0;
	describe_process(&event->head.process, task);
	event->uid = task->cred->uid.val;
	path = bpf_probe_read_kernel_str(record->text, EXEC_PATH, binary->filename);
	length = path > 0 ? path & (2 * EXEC_PATH - 1) : 0;
	if (length > EXEC_PATH)
		length = EXEC_PATH;
	event->path_length = length;
	event->path_truncated = length == EXEC_PATH;
	add_args(event, record->text + length, task->mm);
	length += event->args_length;
	if (length > EXEC_PATH + EXEC_ARGS)
		return;
	emit(&facts, record, sizeof(*event) + length, EVENT_PROCESS_EXEC);
}

#endif
