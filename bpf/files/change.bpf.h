/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Deletes, renames and links of file names, and mode changes.
 *
 * Each change needs two kernel functions. security_path_*() (CONFIG_SECURITY_PATH) receives the
 * mount, without which the path cannot be built. The kernel calls this function only for processes,
 * not for changes that overlayfs or the NFS server make in the file system below. vfs_*() returns
 * the result. The programs do not see a failure before both functions: the name does not exist, or
 * the file system is mounted read-only. The programs also miss a denial by a security module in
 * security_path_*().
 */
#ifndef NOCTULE_FILES_CHANGE_BPF_H
#define NOCTULE_FILES_CHANGE_BPF_H

#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "wanted.bpf.h"

enum {
	/* linux/fs.h */
	RENAME_EXCHANGE = 1 << 1,
	/* After a lease is broken, the kernel calls both functions again. */
	EWOULDBLOCK = 11,
	NAME_BYTES = 256,
	S_IALLUGO = 07777,
};

/* A change that a thread is about to make. Pointers are compared, or read with probe reads. */
struct noted_change {
	struct dentry *dentry;
	/* The new name for a rename, the existing file for a link. */
	struct dentry *second;
	struct vfsmount *mnt;
	/* A rename changes the name in its dentry, so the old name is kept here. */
	struct dentry *directory;
	__u32 length;
	__u32 flags;
	char name[NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct noted_change);
} changing SEC(".maps");

/* Buffer for a record, which is too large for the stack. */
struct change_scratch {
	struct file_change record;
	char text[PATH_BYTES + PATH_BYTES];
	struct path_buffer buffer;
};

/*
 * Each program has its own buffer, because if the kernel preempts one program, another can run on
 * the same CPU.
 */
enum scratch_of {
	SCRATCH_UNLINK,
	SCRATCH_RMDIR,
	SCRATCH_RENAME,
	SCRATCH_LINK,
	SCRATCH_SYMLINK,
	SCRATCH_CHMOD,
	SCRATCHES,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, __u32);
	__type(value, struct change_scratch);
} change_scratch SEC(".maps");

/*
 * `denied` is set if a security module denied the change, so that the kernel does not call the file
 * system.
 */
static __always_inline void note_change(enum event_kind kind, const struct path *directory,
					struct dentry *dentry, struct dentry *second, __u32 flags,
					int denied)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct noted_change *noted;
	__u32 length;

	if (denied || !is_of_user(task) || !is_wanted(task))
		return;
	noted = bpf_task_storage_get(&changing, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!noted) {
		__sync_fetch_and_add(&lost_events[kind], 1);
		return;
	}
	noted->dentry = dentry;
	noted->second = second;
	noted->mnt = BPF_CORE_READ(directory, mnt);
	noted->directory = BPF_CORE_READ(directory, dentry);
	noted->flags = flags;
	length = BPF_CORE_READ(dentry, d_name.len) & (NAME_BYTES - 1);
	noted->length = length;
	bpf_probe_read_kernel(noted->name, length, BPF_CORE_READ(dentry, d_name.name));
}

/*
 * Takes the recorded change of this dentry. Returns NULL if there is none, or if the result is not
 * wanted.
 */
static __always_inline struct noted_change *take_noted(void *ctx, struct task_struct *task,
						       __u64 dentry, __u32 *error)
{
	struct noted_change *noted;
	struct dentry *directory;
	__u64 result = 0;

	noted = bpf_task_storage_get(&changing, task, NULL, 0);
	if (!noted || !dentry || (__u64)noted->dentry != dentry)
		return NULL;
	noted->dentry = NULL;
	if (bpf_get_func_ret(ctx, &result))
		return NULL;
	*error = error_number(-(int)result);
	if (*error && (*error == EWOULDBLOCK || !with_failures))
		return NULL;
	/*
	 * This must be a separate variable. In a single expression, the field of the map value
	 * would also be relocated.
	 */
	directory = noted->directory;
	if (!with_special && is_special_super(BPF_CORE_READ(directory, d_sb)))
		return NULL;
	return noted;
}

/*
 * Like walk_step_global(), but with the buffer of this program. This function takes a pointer,
 * which these kernels support.
 */
__noinline int change_walk_step(struct change_scratch *made)
{
	return made && walk_step(&made->buffer);
}

/* Like walk(). */
static __always_inline __u32 finish_walk(struct change_scratch *made)
{
	if (bpf_ksym_exists(bpf_iter_num_new))
		return end_walk(&made->buffer, walk_iterated(&made->buffer));
	for (int i = 0; i < PATH_STEPS_OLDER; i++)
		if (!change_walk_step(made))
			return end_walk(&made->buffer, true);
	return end_walk(&made->buffer, false);
}

static __always_inline struct change_scratch *
begin_change(__u32 of, struct task_struct *task, enum event_kind kind, __u32 error, __u32 flags)
{
	struct change_scratch *made = bpf_map_lookup_elem(&change_scratch, &of);

	if (!made) {
		__sync_fetch_and_add(&lost_events[kind], 1);
		return NULL;
	}
	made->record.head.time = bpf_ktime_get_boot_ns();
	made->record.head.kind = kind;
	made->record.head.reserved = 0;
	describe_process(&made->record.head.process, task);
	made->record.flags = flags;
	made->record.error = error;
	made->record.mode = 0;
	made->record.second_length = 0;
	made->record.second_marks = 0;
	made->buffer.root = task->fs->root.dentry;
	made->buffer.root_mnt = task->fs->root.mnt;
	return made;
}

/*
 * Adds the first path, from a dentry. The file may already be deleted if a process still has it
 * open.
 */
static __always_inline void add_first(struct change_scratch *made, struct dentry *dentry,
				      struct vfsmount *mnt)
{
	begin_walk(dentry, mnt, &made->buffer);
	made->record.length = finish_walk(made);
	made->record.marks = made->buffer.marks;
	copy_path(made->text, &made->buffer, made->record.length);
}

/* Adds the first path, from a recorded name. */
static __always_inline void add_noted(struct change_scratch *made, const struct noted_change *noted)
{
	__u32 length = noted->length & (NAME_BYTES - 1);
	__u32 begin = PATH_END - 1 - length;

	begin_walk(noted->directory, noted->mnt, &made->buffer);
	/*
	 * These barriers have no effect at run time. Without them the compiler would drop the
	 * masks, which the verifier of v6.12 needs.
	 */
	barrier_var(begin);
	begin &= PATH_BYTES - 1;
	barrier_var(length);
	length &= NAME_BYTES - 1;
	made->buffer.begin = begin;
	made->buffer.text[begin] = '/';
	bpf_probe_read_kernel(made->buffer.text + begin + 1, length, noted->name);
	made->record.length = finish_walk(made);
	made->record.marks = made->buffer.marks & ~PATH_DELETED;
	copy_path(made->text, &made->buffer, made->record.length);
}

static __always_inline void add_second(struct change_scratch *made, struct dentry *dentry,
				       struct vfsmount *mnt)
{
	__u32 at = made->record.length, length;

	begin_walk(dentry, mnt, &made->buffer);
	length = finish_walk(made);
	made->record.second_marks = made->buffer.marks & ~PATH_DELETED;
	barrier_var(at);
	at &= PATH_BYTES - 1;
	copy_path(made->text + at, &made->buffer, length);
	made->record.second_length = length;
}

static __always_inline bool second_has_prefix(const struct change_scratch *made)
{
	__u32 at = made->record.length & (PATH_BYTES - 1);

	return made->record.second_length &&
	       has_prefix(made->text + at, made->record.second_length, made->record.second_marks);
}

static __always_inline int send_change(struct change_scratch *made, enum event_kind kind)
{
	__u32 length = made->record.length + made->record.second_length;

	if (!has_prefix(made->text, made->record.length, made->record.marks) &&
	    (made->record.flags & CHANGE_SYMBOLIC || !second_has_prefix(made)))
		return 0;
	barrier_var(length);
	length &= PATH_BYTES + PATH_BYTES - 1;
	emit(&bulk, made, sizeof(made->record) + length, kind);
	return 0;
}

static __always_inline int removed(void *ctx, __u64 dentry, __u32 flags, enum scratch_of of)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct change_scratch *made;
	struct noted_change *noted;
	__u32 error = 0;

	noted = take_noted(ctx, task, dentry, &error);
	if (!noted)
		return 0;
	made = begin_change(of, task, EVENT_FILE_DELETE, error, flags);
	if (!made)
		return 0;
	add_noted(made, noted);
	return send_change(made, EVENT_FILE_DELETE);
}

/*
 * After a successful rename the dentry already has the new name. If both names belong to the same
 * file, the kernel does nothing and returns success.
 */
static __always_inline int renamed(void *ctx, struct renamedata *data)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 dentry = (__u64)BPF_CORE_READ(data, old_dentry);
	struct inode *file = BPF_CORE_READ((struct dentry *)dentry, d_inode);
	struct change_scratch *made;
	struct noted_change *noted;
	struct dentry *second;
	__u32 error = 0;

	noted = take_noted(ctx, task, dentry, &error);
	if (!noted)
		return 0;
	second = noted->second;
	if (!error && file && BPF_CORE_READ(second, d_inode) == file)
		return 0;
	made = begin_change(SCRATCH_RENAME, task, EVENT_FILE_RENAME, error, noted->flags);
	if (!made)
		return 0;
	add_noted(made, noted);
	add_second(made, error ? noted->second : (struct dentry *)dentry, noted->mnt);
	return send_change(made, EVENT_FILE_RENAME);
}

static __always_inline int linked(void *ctx, __u64 dentry)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct change_scratch *made;
	struct noted_change *noted;
	__u32 error = 0;

	noted = take_noted(ctx, task, dentry, &error);
	if (!noted)
		return 0;
	made = begin_change(SCRATCH_LINK, task, EVENT_FILE_LINK, error, 0);
	if (!made)
		return 0;
	/* The old and the new name are on one mount. */
	add_first(made, noted->second, noted->mnt);
	add_second(made, (struct dentry *)dentry, noted->mnt);
	return send_change(made, EVENT_FILE_LINK);
}

static __always_inline int symlinked(void *ctx, __u64 dentry, const char *text)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct change_scratch *made;
	struct noted_change *noted;
	__u32 error = 0, at;
	long length;

	noted = take_noted(ctx, task, dentry, &error);
	if (!noted)
		return 0;
	made = begin_change(SCRATCH_SYMLINK, task, EVENT_FILE_LINK, error, CHANGE_SYMBOLIC);
	if (!made)
		return 0;
	add_noted(made, noted);
	at = made->record.length;
	barrier_var(at);
	at &= PATH_BYTES - 1;
	length = bpf_probe_read_kernel_str(made->text + at, PATH_BYTES, text);
	made->record.second_length = length > 0 ? length - 1 : 0;
	return send_change(made, EVENT_FILE_LINK);
}

static __always_inline int chmodded(void *ctx, __u64 dentry, const struct iattr *attributes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct change_scratch *made;
	struct noted_change *noted;
	__u32 error = 0;

	noted = take_noted(ctx, task, dentry, &error);
	if (!noted)
		return 0;
	made = begin_change(SCRATCH_CHMOD, task, EVENT_FILE_CHMOD, error, 0);
	if (!made)
		return 0;
	add_first(made, (struct dentry *)dentry, noted->mnt);
	made->record.mode = BPF_CORE_READ(attributes, ia_mode) & S_IALLUGO;
	return send_change(made, EVENT_FILE_CHMOD);
}

#endif
