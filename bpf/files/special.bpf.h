/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Special files, which are not on a disk and are opened all the time: devices and kernel
 * interfaces, such as those under /dev, /proc and /sys. Special files are recognized by their file
 * system rather than by their path, because a container may mount a proc elsewhere, and /dev/shm
 * has ordinary files.
 */
#ifndef NOCTULE_FILES_SPECIAL_BPF_H
#define NOCTULE_FILES_SPECIAL_BPF_H

#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* linux/stat.h */
enum {
	S_IFMT = 0170000,
	S_IFCHR = 0020000,
	S_IFBLK = 0060000,
};

/* From linux/magic.h, or else from the source code of the file system. */
enum {
	ANON_INODE_FS_MAGIC = 0x09041934,
	BINFMTFS_MAGIC = 0x42494e4d,
	BPF_FS_MAGIC = 0xcafe4a11,
	CGROUP_SUPER_MAGIC = 0x27e0eb,
	CGROUP2_SUPER_MAGIC = 0x63677270,
	CONFIGFS_MAGIC = 0x62656570,
	DEBUGFS_MAGIC = 0x64626720,
	DEVPTS_SUPER_MAGIC = 0x1cd1,
	EFIVARFS_MAGIC = 0xde5e81e4,
	FUSE_CTL_SUPER_MAGIC = 0x65735543,
	MQUEUE_MAGIC = 0x19800202,
	NSFS_MAGIC = 0x6e736673,
	PIPEFS_MAGIC = 0x50495045,
	PROC_SUPER_MAGIC = 0x9fa0,
	PSTOREFS_MAGIC = 0x6165676c,
	RDTGROUP_SUPER_MAGIC = 0x7655821,
	SECURITYFS_MAGIC = 0x73636673,
	SELINUX_MAGIC = 0xf97cff8c,
	SMACK_MAGIC = 0x43415d53,
	SYSFS_MAGIC = 0x62656572,
	TMPFS_MAGIC = 0x01021994,
	TRACEFS_MAGIC = 0x74726163,
};

/* devtmpfs has the same magic number as tmpfs, but another name. */
static __always_inline bool is_devtmpfs(struct super_block *super)
{
	const char wanted[] = "devtmpfs";
	char name[sizeof(wanted)] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(super, s_type, name));
	for (int i = 0; i < (int)sizeof(wanted); i++)
		if (name[i] != wanted[i])
			return false;
	return true;
}

static __always_inline bool is_special_super(struct super_block *super)
{
	switch (BPF_CORE_READ(super, s_magic)) {
	case ANON_INODE_FS_MAGIC:
	case BINFMTFS_MAGIC:
	case BPF_FS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case CONFIGFS_MAGIC:
	case DEBUGFS_MAGIC:
	case DEVPTS_SUPER_MAGIC:
	case EFIVARFS_MAGIC:
	case FUSE_CTL_SUPER_MAGIC:
	case MQUEUE_MAGIC:
	case NSFS_MAGIC:
	case PIPEFS_MAGIC:
	case PROC_SUPER_MAGIC:
	case PSTOREFS_MAGIC:
	case RDTGROUP_SUPER_MAGIC:
	case SECURITYFS_MAGIC:
	case SELINUX_MAGIC:
	case SMACK_MAGIC:
	case SYSFS_MAGIC:
	case TRACEFS_MAGIC:
		return true;
	case TMPFS_MAGIC:
		return is_devtmpfs(super);
	}
	return false;
}

static __always_inline bool is_special(const struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u32 type = BPF_CORE_READ(inode, i_mode) & S_IFMT;

	return type == S_IFCHR || type == S_IFBLK || is_special_super(BPF_CORE_READ(inode, i_sb));
}

/* Checks by name, because a file that could not be opened has only a name. */
static __always_inline bool is_special_name(const char *name)
{
	bool proc = name[1] == 'p' && name[2] == 'r' && name[3] == 'o' && name[4] == 'c';
	bool dev = name[1] == 'd' && name[2] == 'e' && name[3] == 'v';
	bool sys = name[1] == 's' && name[2] == 'y' && name[3] == 's';
	char next = proc ? name[5] : name[4];

	return name[0] == '/' && (proc || dev || sys) && (next == '/' || !next);
}

#endif
