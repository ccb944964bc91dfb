// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reports the files that processes open or fail to open, the names that they delete, rename and
 * link, and the modes that they change. The loader attaches one of two kinds of programs for opens:
 * at the kernel function that opens files, or at the exit of the system calls.
 *
 * An open with O_PATH gives no access to the file, only to its location. Such an open is never
 * counted.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../include/syscall.bpf.h"
#include "abi.h"
#include "change.bpf.h"
#include "rows.bpf.h"
#include "wanted.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* asm-generic/fcntl.h. These values are the same on x86 and arm64. */
enum {
	O_ACCMODE = 03,
	O_WRONLY = 01,
	O_CREAT = 0100,
	O_EXCL = 0200,
	O_NOCTTY = 0400,
	O_TRUNC = 01000,
	O_NONBLOCK = 04000,
	O_PATH = 010000000,
	/* Kernel-internal flag for the file of a program that is executed. */
	FMODE_EXEC = 040,
	/* Flags that do_dentry_open() removes from an open file. */
	O_AT_OPEN = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC,
	O_CLOEXEC = 02000000,
/* The kernel sets this flag on every open of a 64-bit process. */
#if defined(__TARGET_ARCH_x86)
	O_LARGEFILE = 0100000,
#elif defined(__TARGET_ARCH_arm64)
	O_LARGEFILE = 0400000,
#endif
	/*
	 * Flags that are not reported. O_CLOEXEC belongs to the descriptor, and do_filp_open() does
	 * not receive it.
	 */
	O_LEFT_OUT = O_CLOEXEC | O_LARGEFILE,
};

enum {
	MAX_ERRNO = 4095,
	/*
	 * linux/namei.h: the value since v5.12, and since v6.15, which reordered the flags. Neither
	 * bit has ever had another meaning in the `lookup_flags` of an open.
	 */
	LOOKUP_CACHED_BEFORE = 0x200000,
	LOOKUP_CACHED = 0x200,
};

/* Buffer for a record, which is too large for the stack. */
struct file_scratch {
	struct file_open record;
	char path[PATH_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct file_scratch);
} scratch SEC(".maps");

/* An attempt to open a file, and its result. */
struct attempt {
	/* NULL if unknown. */
	const struct file *file;
	/*
	 * The name passed by the caller. `user` is set if the name is in the memory of the process.
	 */
	const char *name;
	bool user;
	__u32 flags;
	__u32 error;
};

static __always_inline bool is_requested_open(struct task_struct *task,
					      const struct attempt *attempt)
{
	if (!is_of_user(task))
		return false;
	if (attempt->flags & O_PATH)
		return false;
	if (attempt->error ? !with_failures : !with_reads && !(attempt->flags & O_ACCMODE))
		return false;
	if (attempt->file && !with_special && is_special(attempt->file))
		return false;
	return is_wanted(task);
}

/* Writes the path of an open file, or else the name passed by the caller. */
static __always_inline void fill_path(struct file_scratch *made, struct task_struct *task,
				      const struct attempt *attempt)
{
	struct file_open *record = &made->record;
	struct path_buffer *buffer = path_buffer();
	long length;

	if (attempt->file && buffer) {
		record->length = path_of(&attempt->file->f_path, task, buffer);
		record->marks = buffer->marks;
		copy_path(made->path, buffer, record->length);
		return;
	}
	length = attempt->user ? bpf_probe_read_user_str(made->path, PATH_BYTES, attempt->name)
			       : bpf_probe_read_kernel_str(made->path, PATH_BYTES, attempt->name);
	record->length = length > 0 ? length - 1 : 0;
	record->marks = 0;
	if (!record->length)
		made->path[0] = 0;
}

static __always_inline void send(struct file_scratch *made, struct task_struct *task,
				 const struct attempt *attempt)
{
	struct file_open *record = &made->record;
	__u32 length = record->length;

	record->head.time = bpf_ktime_get_boot_ns();
	record->head.kind = EVENT_FILE_OPEN;
	record->head.reserved = 0;
	describe_process(&record->head.process, task);
	record->flags = attempt->flags;
	record->error = attempt->error;
	barrier_var(length);
	length &= PATH_BYTES - 1;
	emit(&bulk, record, sizeof(*record) + length, EVENT_FILE_OPEN);
}

static __always_inline void account(struct task_struct *task, const struct attempt *attempt)
{
	struct file_scratch *made;
	__u32 zero = 0;

	if (!is_requested_open(task, attempt))
		return;
	made = bpf_map_lookup_elem(&scratch, &zero);
	if (!made)
		return;
	/* The walk is the most expensive part. The path is only needed for a reader or a prefix. */
	if (is_streamed(EVENT_FILE_OPEN) || path_prefix_length || !attempt->file) {
		fill_path(made, task, attempt);
		if (!attempt->file && !with_special && is_special_name(made->path))
			return;
		if (!has_prefix(made->path, made->record.length, made->record.marks))
			return;
	}
	count_open(cgroup_of(task), attempt->error, attempt->flags & O_ACCMODE);
	if (is_streamed(EVENT_FILE_OPEN))
		send(made, task, attempt);
}

/*
 * io_uring first tries an open from the caches only. If that fails, a thread that may block opens
 * the file. The first attempt is not reported. An openat2(2) with RESOLVE_CACHED has the same
 * lookup flag, but not O_NONBLOCK.
 */
static __always_inline bool is_first_attempt(const struct open_flags *op)
{
	return op->lookup_flags & (LOOKUP_CACHED | LOOKUP_CACHED_BEFORE) &&
	       op->open_flag & O_NONBLOCK;
}

/*
 * Handles each open by path, from any system call or io_uring. If the kernel opens a file to
 * execute a program, that is not counted as an open of the process.
 */
static __always_inline int opened(struct filename *name, const struct open_flags *op,
				  struct file *file)
{
	struct attempt attempt = {.flags = op->open_flag & ~O_LEFT_OUT};
	long error = -(long)file;

	if (attempt.flags & FMODE_EXEC)
		return 0;
	if (is_first_attempt(op)) {
		if (error == EAGAIN)
			return 0;
		attempt.flags &= ~O_NONBLOCK;
	}
	if (error > 0 && error <= MAX_ERRNO) {
		attempt.error = error_number(error);
		attempt.name = name->name;
	} else {
		attempt.file = file;
	}
	account(bpf_get_current_task_btf(), &attempt);
	return 0;
}

SEC("fexit/do_filp_open")
int BPF_PROG(filp_open, int dfd, struct filename *name, const struct open_flags *op,
	     struct file *file)
{
	return opened(name, op, file);
}

/* The new name of do_filp_open(), as in Debian's v7.2 kernel. */
SEC("fexit/do_file_open")
int BPF_PROG(file_open, int dfd, struct filename *name, const struct open_flags *op,
	     struct file *file)
{
	return opened(name, op, file);
}

/* Functions that change names and modes. Each pair sends one report: see change.bpf.h. */
SEC("fexit/security_path_unlink")
int BPF_PROG(path_unlink, const struct path *directory, struct dentry *name, int denied)
{
	note_change(EVENT_FILE_DELETE, directory, name, NULL, 0, denied);
	return 0;
}

SEC("fexit/security_path_rmdir")
int BPF_PROG(path_rmdir, const struct path *directory, struct dentry *name, int denied)
{
	note_change(EVENT_FILE_DELETE, directory, name, NULL, 0, denied);
	return 0;
}

SEC("fexit/security_path_rename")
int BPF_PROG(path_rename, const struct path *from, struct dentry *name, const struct path *to,
	     struct dentry *new_name, unsigned int flags, int denied)
{
	note_change(EVENT_FILE_RENAME, from, name, new_name,
		    flags & RENAME_EXCHANGE ? CHANGE_EXCHANGE : 0, denied);
	return 0;
}

SEC("fexit/security_path_link")
int BPF_PROG(path_link, struct dentry *file, const struct path *directory, struct dentry *name,
	     int denied)
{
	note_change(EVENT_FILE_LINK, directory, name, file, 0, denied);
	return 0;
}

SEC("fexit/security_path_symlink")
int BPF_PROG(path_symlink, const struct path *directory, struct dentry *name, const char *text,
	     int denied)
{
	note_change(EVENT_FILE_LINK, directory, name, NULL, CHANGE_SYMBOLIC, denied);
	return 0;
}

SEC("fexit/security_path_chmod")
int BPF_PROG(path_chmod, const struct path *path, unsigned short mode, int denied)
{
	note_change(EVENT_FILE_CHMOD, path, BPF_CORE_READ(path, dentry), NULL, 0, denied);
	return 0;
}

SEC("fexit/vfs_unlink")
int unlink_file(unsigned long long *ctx)
{
	return removed(ctx, *(volatile unsigned long long *)&ctx[2], 0, SCRATCH_UNLINK);
}

SEC("fexit/vfs_rmdir")
int rmdir_file(unsigned long long *ctx)
{
	return removed(ctx, *(volatile unsigned long long *)&ctx[2], CHANGE_DIRECTORY,
		       SCRATCH_RMDIR);
}

SEC("fexit/vfs_rename")
int rename_file(unsigned long long *ctx)
{
	return renamed(ctx, (void *)*(volatile unsigned long long *)&ctx[0]);
}

SEC("fexit/vfs_link")
int link_file(unsigned long long *ctx)
{
	return linked(ctx, *(volatile unsigned long long *)&ctx[3]);
}

SEC("fexit/vfs_symlink")
int symlink_file(unsigned long long *ctx)
{
	return symlinked(ctx, *(volatile unsigned long long *)&ctx[2],
			 (void *)*(volatile unsigned long long *)&ctx[3]);
}

SEC("fexit/notify_change")
int chmod_file(unsigned long long *ctx)
{
	return chmodded(ctx, *(volatile unsigned long long *)&ctx[1],
			(void *)*(volatile unsigned long long *)&ctx[2]);
}

/* Returns the file of a descriptor, or NULL if another thread has already closed it. */
static __always_inline const struct file *file_of(struct task_struct *task, __u32 descriptor)
{
	struct fdtable *table = task->files->fdt;
	struct file *file = NULL;

	if (descriptor < table->max_fds)
		bpf_probe_read_kernel(&file, sizeof(file), table->fd + descriptor);
	return file;
}

/*
 * Handles the exit of an open system call. The access mode comes from the file. Only flags that the
 * file does not keep come from the call.
 */
static __always_inline int ended(struct task_struct *task, const struct pt_regs *regs,
				 unsigned long name, __u32 asked)
{
	struct attempt attempt = {.name = (const char *)name, .user = true, .flags = asked};
	const struct file *file = NULL;
	long result = RESULT(regs);

	if (result < 0)
		attempt.error = error_number(-result);
	else
		file = file_of(task, result);
	if (file)
		attempt.flags = BPF_CORE_READ(file, f_flags) | (asked & O_AT_OPEN);
	attempt.flags &= ~O_LEFT_OUT;
	attempt.file = file;
	account(task, &attempt);
	return 0;
}

SEC("tracepoint/syscalls/sys_exit_openat")
int openat_exit(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct pt_regs *regs = registers_of(task);

	return ended(task, regs, ARGUMENT_2(regs), ARGUMENT_3(regs));
}

SEC("tracepoint/syscalls/sys_exit_openat2")
int openat2_exit(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct pt_regs *regs = registers_of(task);
	__u64 flags = 0;

	/* The first field of struct open_how. */
	bpf_probe_read_user(&flags, sizeof(flags), (const void *)ARGUMENT_3(regs));
	return ended(task, regs, ARGUMENT_2(regs), flags);
}

SEC("tracepoint/syscalls/sys_exit_open")
int open_exit(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct pt_regs *regs = registers_of(task);

	return ended(task, regs, ARGUMENT_1(regs), ARGUMENT_2(regs));
}

SEC("tracepoint/syscalls/sys_exit_creat")
int creat_exit(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct pt_regs *regs = registers_of(task);

	return ended(task, regs, ARGUMENT_1(regs), O_CREAT | O_WRONLY | O_TRUNC);
}
