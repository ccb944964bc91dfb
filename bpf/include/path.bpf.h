/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The full path of a file, as a process sees it. The kernel does not allow bpf_d_path() in
 * tracepoints, so the code below walks names and mounts without the kernel's locks. If a parent
 * directory is renamed or moved during the walk, the path can mix old and new names.
 */
#ifndef NOCTULE_PATH_BPF_H
#define NOCTULE_PATH_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

enum {
	/* Size of a path buffer. */
	PATH_BYTES = 4096,
	/*
	 * End of the text in the buffer. The value is one less than a power of two, so that a
	 * length fits into a mask.
	 */
	PATH_END = PATH_BYTES - 1,
	/*
	 * Maximum number of names and mounts to walk: each name takes at least a slash and a
	 * letter.
	 */
	PATH_STEPS = PATH_BYTES / 2 + 256,
	/*
	 * Like PATH_STEPS, for kernels without number iterators. Their verifier walks all steps and
	 * compares each step with the earlier ones.
	 */
	PATH_STEPS_OLDER = 512,
};

/* Properties of a path. */
enum path_mark {
	/* The first names did not fit. The path then starts with a name instead of a slash. */
	PATH_CUT = 1 << 0,
	/*
	 * The file is no longer in its directory. The kernel would append " (deleted)", which is
	 * also a valid name.
	 */
	PATH_DELETED = 1 << 1,
	/*
	 * The file is not below the root of the process. The file's mount is detached or does not
	 * exist (memfd), or the file is outside the process's chroot. The path starts at the
	 * topmost directory found.
	 */
	PATH_UNREACHABLE = 1 << 2,
};

/*
 * Buffer in which a path is built, from its end backwards. The buffer is a map value because it is
 * too large for the stack. The state of the walk is kept there as well. The verifier treats a value
 * read from a map as unknown, so all branches of a step end in one state. With the state in
 * registers, the verifier gave up after a million instructions.
 */
struct path_buffer {
	/* The current position of the walk, and the root of the mount at that position. */
	struct dentry *dentry;
	struct vfsmount *mnt;
	struct dentry *top;
	/* The root of the process, where the walk ends. */
	const struct dentry *root;
	const struct vfsmount *root_mnt;
	/* Start of the text written so far. The text ends at PATH_END, without a NUL. */
	__u32 begin;
	/* Bit mask of enum path_mark. */
	__u32 marks;
	/* The extra bytes are for the verifier, which cannot prove that the longest name fits. */
	char text[PATH_BYTES + 256];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_buffer);
} path_buffers SEC(".maps");

/*
 * Returns the buffer of this CPU. The pointer is never NULL, but the verifier requires the check.
 */
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

/* Prepends a slash and the name of the entry. Returns false if they do not fit. */
static __always_inline bool prepend_name(struct path_buffer *made, struct dentry *dentry)
{
	const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
	__u32 length = BPF_CORE_READ(dentry, d_name.len) & 255;
	__u32 begin = made->begin;

	if (length + 1 > begin)
		return false;
	begin -= length + 1;
	/*
	 * This barrier has no effect at run time. Without the barrier the compiler would remove the
	 * mask, which the verifier needs.
	 */
	barrier_var(begin);
	begin &= PATH_BYTES - 1;
	made->begin = begin;
	made->text[begin] = '/';
	bpf_probe_read_kernel(made->text + begin + 1, length, name);
	return true;
}

/* Walks up by one name or one mount. Returns false at the top and sets the reason in `marks`. */
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
			/* A single file can be mounted, such as the binary of runc. */
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
		/* A file without a directory, such as a memfd, still has a name. */
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
	/* Like the kernel's d_unlinked(): unhashed, and not the root of its file system. */
	made->marks =
		!BPF_CORE_READ(dentry, d_hash.pprev) && BPF_CORE_READ(dentry, d_parent) != dentry
			? PATH_DELETED
			: 0;
	enter_mount(made, mnt, dentry);
}

/* Walks one step. Returns false if the walk has reached the root of the process or cannot go on. */
static __always_inline bool walk_step(struct path_buffer *made)
{
	return !(made->dentry == made->root && made->mnt == made->root_mnt) && step_up(made);
}

/*
 * Like walk_step(), but as a global function, which the verifier checks once instead of in each
 * round of a loop. Inlined into 512 rounds, it took 300,000 instructions in the verifier of v6.1.
 * Before v5.12 (e5069b9c23b3) such a function takes only integers.
 */
__noinline int walk_step_global(__u32 zero)
{
	struct path_buffer *made = path_buffer();

	return made && walk_step(made) ? 1 : zero;
}

/*
 * v6.4: 6018e1f407cc ("bpf: implement numbers iterator"). Returns false if the path has more than
 * PATH_STEPS steps.
 */
static __always_inline bool walk_iterated(struct path_buffer *made)
{
	struct bpf_iter_num it;
	bool done = false;

	bpf_iter_num_new(&it, 0, PATH_STEPS);
	while (!done && bpf_iter_num_next(&it))
		done = !walk_step(made);
	bpf_iter_num_destroy(&it);
	return done;
}

/*
 * Walks to the root on any kernel. Before v6.4 `made` is ignored in favour of this CPU's buffer, so
 * both must be equal.
 */
static __always_inline bool walk(struct path_buffer *made)
{
	if (bpf_ksym_exists(bpf_iter_num_new))
		return walk_iterated(made);
	for (int i = 0; i < PATH_STEPS_OLDER; i++)
		if (!walk_step_global(0))
			return true;
	return false;
}

/* Returns the length of the path. `whole` is set if the walk was complete. */
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
 * Builds the path as `task` sees it, in the buffer of this CPU. Returns its length, 1 to PATH_END.
 * copy_path() copies the path out of the buffer. `path` may be any kernel address. `task` must have
 * a type that the verifier knows, and its thread must not have ended.
 */
static __always_inline __u32 path_of(const struct path *path, struct task_struct *task,
				     struct path_buffer *made)
{
	made->root = task->fs->root.dentry;
	made->root_mnt = task->fs->root.mnt;
	begin_walk(BPF_CORE_READ(path, dentry), BPF_CORE_READ(path, mnt), made);
	return end_walk(made, walk(made));
}

/* Copies a path of the length that path_of() returned to the beginning of `to`. */
static __always_inline void copy_path(char to[PATH_BYTES], const struct path_buffer *made,
				      __u32 length)
{
	barrier_var(length);
	length &= PATH_BYTES - 1;
	bpf_probe_read_kernel(to, length, made->text + PATH_END - length);
}

#endif
