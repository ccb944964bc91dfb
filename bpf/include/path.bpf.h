/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The full path of a file, as a process sees it. bpf_d_path() is refused in tracepoints, so the
 * names and the mounts are walked here, without the kernel's locks: while a directory above the
 * file is renamed or moved, the path can be a mixture of the old one and the new one.
 */
#ifndef NOCTULE_PATH_BPF_H
#define NOCTULE_PATH_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

enum {
	/* Room for a path. */
	PATH_BYTES = 4096,
	/* A path that was written ends here. One byte less, so that its length is below a power. */
	PATH_END = PATH_BYTES - 1,
	/* Names and mounts that are walked at most: each name has a slash and a letter. */
	PATH_STEPS = PATH_BYTES / 2 + 256,
	/*
	 * The same without iterators of numbers: the verifier walks them all, and compares each
	 * with those before.
	 */
	PATH_STEPS_OLDER = 512,
};

/* Properties of a path beside its bytes. */
enum path_mark {
	/* Names at the beginning did not fit. The path then begins with a name, without a slash. */
	PATH_CUT = 1 << 0,
	/* No longer in its directory. The kernel appends " (deleted)", which can be a name. */
	PATH_DELETED = 1 << 1,
	/*
	 * Not below the root of the process: in a mount that is detached or in none (memfd), or
	 * outside of the process's chroot. The path is the one from the top that was found.
	 */
	PATH_UNREACHABLE = 1 << 2,
};

/*
 * Buffer in which a path is made; a map value, because it is too large for the stack. The state of
 * the walk is kept there as well: the verifier treats a value read from a map as unknown, so all
 * branches of a step end in one state. With the same in registers it gave up after a million
 * instructions.
 */
struct path_buffer {
	/* Where the walk is, and the root of the mount that it is in. */
	struct dentry *dentry;
	struct vfsmount *mnt;
	struct dentry *top;
	/* The root of the process, where the walk ends. */
	const struct dentry *root;
	const struct vfsmount *root_mnt;
	/* Where the text begins that was written so far. It ends at PATH_END; there is no NUL. */
	__u32 begin;
	/* Bits of enum path_mark. */
	__u32 marks;
	/* The verifier does not see that the longest name ends in time. */
	char text[PATH_BYTES + 256];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_buffer);
} path_buffers SEC(".maps");

/* The buffer of this CPU; never NULL, but the verifier needs the check. */
static __always_inline struct path_buffer *path_buffer(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&path_buffers, &zero);
}

static __always_inline void enter_mount(struct path_buffer *made, struct vfsmount *mnt,
					struct dentry *dentry)
{
	made->mnt = mnt;
	made->dentry = dentry;
	made->top = BPF_CORE_READ(mnt, mnt_root);
}

/* Puts a slash and the name of the entry before the text; false when there is no room. */
static __always_inline bool prepend_name(struct path_buffer *made, struct dentry *dentry)
{
	const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
	__u32 length = BPF_CORE_READ(dentry, d_name.len) & 255;
	__u32 begin = made->begin;

	if (length + 1 > begin)
		return false;
	begin -= length + 1;
	/* Changes nothing; without the barrier the compiler knows that, and the verifier does not.
	 */
	barrier_var(begin);
	begin &= PATH_BYTES - 1;
	made->begin = begin;
	made->text[begin] = '/';
	bpf_probe_read_kernel(made->text + begin + 1, length, name);
	return true;
}

/* One name or one mount upwards; false when there is no way up, with the reason in the marks. */
static __always_inline bool step_up(struct path_buffer *made)
{
	const __u32 offset = bpf_core_field_offset(struct mount, mnt);
	struct dentry *dentry = made->dentry, *parent;
	struct mount *mount, *above;

	if (dentry == made->top) {
		mount = (void *)made->mnt - offset;
		above = BPF_CORE_READ(mount, mnt_parent);
		if (above == mount) {
			made->marks |= PATH_UNREACHABLE;
			/* A file that is mounted alone, such as the program of runc. */
			if (made->begin == PATH_END && BPF_CORE_READ(dentry, d_parent) != dentry)
				prepend_name(made, dentry);
			return false;
		}
		enter_mount(made, (void *)above + offset, BPF_CORE_READ(mount, mnt_mountpoint));
		return true;
	}
	parent = BPF_CORE_READ(dentry, d_parent);
	if (parent == dentry) {
		made->marks |= PATH_UNREACHABLE;
		/* A file that is in no directory, such as that of a memfd, has a name all the same.
		 */
		if (made->begin == PATH_END)
			prepend_name(made, dentry);
		return false;
	}
	if (!prepend_name(made, dentry)) {
		made->marks |= PATH_CUT;
		return false;
	}
	made->dentry = parent;
	return true;
}

static __always_inline void begin_walk(struct dentry *dentry, struct vfsmount *mnt,
				       struct path_buffer *made)
{
	made->begin = PATH_END;
	/* As the kernel's d_unlinked(): in no directory, and not because it is the root of one. */
	made->marks =
		!BPF_CORE_READ(dentry, d_hash.pprev) && BPF_CORE_READ(dentry, d_parent) != dentry
			? PATH_DELETED
			: 0;
	enter_mount(made, mnt, dentry);
}

/* One step, unless the root of the process is reached; false: there is none further. */
static __always_inline bool walks_on(struct path_buffer *made)
{
	return !(made->dentry == made->root && made->mnt == made->root_mnt) && step_up(made);
}

/*
 * The same as a function that is not static: it is verified once, and not in each round of a loop.
 * Inlined into 512 rounds it was 300,000 instructions for the verifier of v6.1. Such a function
 * takes numbers only (before v5.12: e5069b9c23b3).
 */
__noinline int walks_on_alone(__u32 zero)
{
	struct path_buffer *made = path_buffer();

	return made && walks_on(made) ? 1 : zero;
}

/* v6.4: 6018e1f407cc ("bpf: implement numbers iterator"). False: the path is longer than that. */
static __always_inline bool walk_iterated(struct path_buffer *made)
{
	struct bpf_iter_num it;
	bool done = false;

	bpf_iter_num_new(&it, 0, PATH_STEPS);
	while (!done && bpf_iter_num_next(&it))
		done = !walks_on(made);
	bpf_iter_num_destroy(&it);
	return done;
}

/* The same in the buffer of this CPU, on every kernel. */
static __always_inline bool walk(struct path_buffer *made)
{
	if (bpf_ksym_exists(bpf_iter_num_new))
		return walk_iterated(made);
	for (int i = 0; i < PATH_STEPS_OLDER; i++)
		if (!walks_on_alone(0))
			return true;
	return false;
}

/* The length of what was walked; `whole`: the walk came to its end. */
static __always_inline __u32 end_walk(struct path_buffer *made, bool whole)
{
	if (!whole)
		made->marks |= PATH_CUT;
	if (made->begin == PATH_END) {
		made->begin = PATH_END - 1;
		made->text[PATH_END - 1] = '/';
	} else if (made->marks & PATH_CUT) {
		made->begin++;
	}
	return PATH_END - made->begin;
}

/*
 * Makes the path as `task` sees it, in the buffer of this CPU, and returns its length, 1 to
 * PATH_END; copy_path() takes it out. `path` may be any pointer into the kernel's memory; `task`
 * must be one that the verifier knows the type of, of a thread that has not ended.
 */
static __always_inline __u32 path_of(const struct path *path, struct task_struct *task,
				     struct path_buffer *made)
{
	made->root = task->fs->root.dentry;
	made->root_mnt = task->fs->root.mnt;
	begin_walk(BPF_CORE_READ(path, dentry), BPF_CORE_READ(path, mnt), made);
	return end_walk(made, walk(made));
}

/* Copies a path, of the length that path_of() gave, to the beginning of `to`. */
static __always_inline void copy_path(char to[PATH_BYTES], const struct path_buffer *made,
				      __u32 length)
{
	barrier_var(length);
	length &= PATH_BYTES - 1;
	bpf_probe_read_kernel(to, length, made->text + PATH_END - length);
}

#endif
