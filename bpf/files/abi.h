/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_FILES_ABI_H
#define NOCTULE_FILES_ABI_H

#include "../include/event.bpf.h"
#include "../include/path.bpf.h"

/* A file was opened, or could not be. The bytes of the path follow. */
struct file_open {
	struct event_head head;
	/* As in open(2), without O_CLOEXEC. */
	__u32 flags;
	/* errno; 0 when the file was opened. */
	__s32 error;
	__u32 length;
	/* Bits of enum path_mark. */
	__u32 marks;
};

_Static_assert(sizeof(struct file_open) == 88, "implicit padding");

enum change_flag {
	/* A directory was deleted. */
	CHANGE_DIRECTORY = 1 << 0,
	/* A symbolic link was made; the second path is what it says. */
	CHANGE_SYMBOLIC = 1 << 1,
	/* Two files have exchanged their names. */
	CHANGE_EXCHANGE = 1 << 2,
};

/*
 * A name of a file was removed, changed or linked, or its mode was changed; or could not be. The
 * bytes of the path follow, and those of the second one, which a rename and a link have.
 */
struct file_change {
	struct event_head head;
	/* Bits of enum change_flag. */
	__u32 flags;
	/* errno; 0 when it was done. */
	__s32 error;
	/* Of a chmod: the mode from now on. */
	__u32 mode;
	__u32 length;
	__u32 second_length;
	/* Bits of enum path_mark. */
	__u16 marks;
	__u16 second_marks;
};

_Static_assert(sizeof(struct file_change) == 96, "implicit padding");

/* The opens of one cgroup. */
struct file_counts {
	__u64 reads;
	/* For writing, or for both. */
	__u64 writes;
	__u64 failures;
};

enum file_prefix {
	/* Longest prefix that paths are compared with, and a NUL. */
	PREFIX_BYTES = 256,
};

ABI_EXPORT(struct, file_open);
ABI_EXPORT(enum, change_flag);
ABI_EXPORT(struct, file_change);
ABI_EXPORT(struct, file_counts);
ABI_EXPORT(enum, path_mark);
ABI_EXPORT(enum, file_prefix);

#endif
