/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process executes a program.
 */
#ifndef NOCTULE_LIFECYCLE_EXEC_BPF_H
#define NOCTULE_LIFECYCLE_EXEC_BPF_H

#include "../include/path.bpf.h"
#include "context.bpf.h"
#include "row.bpf.h"

/* Buffer for a record, which is too large for the stack. */
struct exec_scratch {
	struct process_exec event;
	char text[PATH_BYTES + EXEC_ARGS + PATH_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exec_scratch);
} exec_scratch SEC(".maps");

/*
 * Writes the path of the executable. For a script, this is the path of the interpreter, and the
 * script is among the arguments.
 */
static __always_inline __u32 add_path(struct exec_scratch *made, struct path_buffer *path,
				      struct task_struct *task)
{
	struct file *program = task->mm->exe_file;
	__u32 length;

	made->event.path_length = 0;
	made->event.path_marks = 0;
	if (!program)
		return 0;
	length = path_of(&program->f_path, task, path);
	made->event.path_length = length;
	made->event.path_marks = path->marks;
	copy_path(made->text, path, length);
	return length;
}

/* Appends the arguments to the path. The arguments are read before the program can change them. */
static __always_inline __u32 add_args(struct exec_scratch *made, __u32 at, struct mm_struct *mm)
{
	__u64 length = mm->arg_end - mm->arg_start;

	made->event.args_truncated = length > EXEC_ARGS;
	made->event.args_length = 0;
	if (length > EXEC_ARGS)
		length = EXEC_ARGS;
	/*
	 * These barriers have no effect at run time. Without the barriers the compiler would drop
	 * the checks, which the verifier needs.
	 */
	barrier_var(at);
	barrier_var(length);
	if (at >= PATH_BYTES || length > EXEC_ARGS)
		return 0;
	/* The last argument may be truncated, in which case it has no NUL. */
	if (bpf_probe_read_user(made->text + at, length, (const void *)mm->arg_start))
		return 0;
	made->event.args_length = length;
	return length;
}

/* Appends the working directory to the arguments. */
static __always_inline __u32 add_directory(struct exec_scratch *made, __u32 at,
					   struct path_buffer *path, struct task_struct *task)
{
	__u32 length = path_of(&task->fs->pwd, task, path);

	made->event.directory_length = 0;
	made->event.directory_marks = path->marks;
	barrier_var(at);
	if (at >= PATH_BYTES + EXEC_ARGS)
		return 0;
	copy_path(made->text + at, path, length);
	made->event.directory_length = length;
	return length;
}

static __always_inline void report_exec(struct task_struct *task)
{
	struct path_buffer *path = path_buffer();
	struct exec_scratch *made;
	__u32 zero = 0, length;

	made = bpf_map_lookup_elem(&exec_scratch, &zero);
	if (!made || !path)
		return;
	made->event.head.time = bpf_ktime_get_boot_ns();
	made->event.head.kind = EVENT_PROCESS_EXEC;
	made->event.head.reserved = 0;
	describe_process(&made->event.head.process, task);
	describe_parent(&made->event.parent, task);
	describe_ancestors(made->event.ancestors, task);
	describe_credentials(&made->event, task);
	describe_namespaces(made->event.namespaces, task);
	made->event.reserved = 0;
	length = add_path(made, path, task);
	length += add_args(made, length, task->mm);
	length += add_directory(made, length, path, task);
	barrier_var(length);
	if (length > PATH_BYTES + EXEC_ARGS + PATH_BYTES)
		return;
	emit(&facts, made, sizeof(made->event) + length, EVENT_PROCESS_EXEC);
}

#endif
