/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_FILES_ABI_H
#define NOCTULE_FILES_ABI_H

#include "../include/event.bpf.h"
#include "../include/path.bpf.h"

/* An open that succeeded or failed. The bytes of the path follow. */
struct file_open {
	struct event_head head;
	/* Flags as in open(2), without O_CLOEXEC. */
	__u32 flags;
	/* errno; 0 if the file was opened. */
	__s32 error;
	__u32 length;
	/* Bit mask of enum path_mark. */
	__u32 marks;
};

_Static_assert(sizeof(struct file_open) == 88, "implicit padding");

enum change_flag {
	/* A directory was deleted. */
	CHANGE_DIRECTORY = 1 << 0,
	/* A symbolic link was created. The second path is its target. */
	CHANGE_SYMBOLIC = 1 << 1,
	/* Two files exchanged their names. */
	CHANGE_EXCHANGE = 1 << 2,
};

/*
 * A name was deleted, renamed or linked, or a mode was changed, or the attempt failed. The bytes of
 * the path follow. For a rename or a link, the bytes of the second path come after them.
 */
struct file_change {
	struct event_head head;
	/* Bit mask of enum change_flag. */
	__u32 flags;
	/* errno; 0 on success. */
	__s32 error;
	/* chmod only: the new mode. */
	__u32 mode;
	__u32 length;
	__u32 second_length;
	/* Bit mask of enum path_mark. */
	__u16 marks;
	__u16 second_marks;
};

_Static_assert(sizeof(struct file_change) == 96, "implicit padding");

/* Opens by one cgroup. */
struct file_counts {
	__u64 reads;
	/* Opens for writing, or for reading and writing. */
	__u64 writes;
	__u64 failures;
};

enum file_prefix {
	/* Maximum length of the path prefix, including the NUL. */
	PREFIX_BYTES = 256,
};

ABI_EXPORT(struct, file_open);
ABI_EXPORT(enum, change_flag);
ABI_EXPORT(struct, file_change);
ABI_EXPORT(struct, file_counts);
ABI_EXPORT(enum, path_mark);
ABI_EXPORT(enum, file_prefix);

#endif
