/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_LIFECYCLE_ABI_H
#define NOCTULE_LIFECYCLE_ABI_H

#include "../include/event.bpf.h"
#include "../include/path.bpf.h"

/* The parent of a process; pid 0 if there is none. */
struct process_parent {
	__u64 start;
	__u32 pid;
	__u32 reserved;
	char comm[16];
};

struct process_start {
	struct event_head head;
	struct process_parent parent;
};

_Static_assert(sizeof(struct process_start) == 104, "implicit padding");

enum exec_limit {
	EXEC_ARGS = 4096,
	/* Number of names of further ancestors, beginning with the grandparent. */
	EXEC_ANCESTORS = 4,
};

/* Indexes of process_exec.namespaces. */
enum exec_namespace {
	NAMESPACE_CGROUP,
	NAMESPACE_IPC,
	NAMESPACE_MNT,
	NAMESPACE_NET,
	NAMESPACE_PID,
	NAMESPACE_USER,
	NAMESPACE_UTS,
	NAMESPACES,
};

struct process_exec {
	struct event_head head;
	struct process_parent parent;
	char ancestors[EXEC_ANCESTORS][16];
	/* Credentials after the exec. The ids are those in the host's user namespace. */
	__u64 cap_effective;
	__u32 uid;
	__u32 euid;
	__u32 gid;
	__u32 egid;
	/* From the audit subsystem; all bits are set if there is none. */
	__u32 login_uid;
	__u32 audit_session;
	/* Inode numbers of the namespaces; 0 if unknown. */
	__u32 namespaces[NAMESPACES];
	/*
	 * Data after the struct: the path, the arguments, each with its NUL, and the working
	 * directory.
	 */
	__u32 path_length;
	__u32 args_length;
	__u32 directory_length;
	/* Bit mask of enum path_mark. */
	__u8 path_marks;
	__u8 args_truncated;
	__u8 directory_marks;
	__u8 reserved;
	/* Name of the controlling terminal, or empty. */
	char tty[16];
	__u32 reserved_end;
};

_Static_assert(sizeof(struct process_exec) == 264, "implicit padding");

enum exec_directory {
	/* linux/fcntl.h: AT_FDCWD. */
	EXEC_AT_CWD = -100,
};

/* An exec that failed. */
struct process_exec_failed {
	struct event_head head;
	struct process_parent parent;
	/* Real user id. */
	__u32 uid;
	__u32 error;
	/*
	 * The descriptor relative to which execveat(2) resolves the path; EXEC_AT_CWD for
	 * execve(2).
	 */
	__s32 directory;
	/* Length of the path, as the process passed it. The path follows without a NUL. */
	__u32 length;
};

_Static_assert(sizeof(struct process_exec_failed) == 120, "implicit padding");

enum exit_flag {
	/* Killed by the OOM killer. */
	EXIT_OOM = 1 << 0,
	/* `cpu_ns` is known. */
	EXIT_CPU_TIME = 1 << 1,
	/* `rss_peak` is known. */
	EXIT_RSS_PEAK = 1 << 2,
};

struct process_exit {
	struct event_head head;
	struct process_parent parent;
	__u64 duration_ns;
	__u64 cpu_ns;
	/* Peak resident set size in bytes, since the last exec. */
	__u64 rss_peak;
	/* Status as returned by wait(2). */
	__u32 status;
	__u32 flags;
};

_Static_assert(sizeof(struct process_exit) == 136, "implicit padding");

/* The process in the head receives the signal. */
struct process_signal {
	struct event_head head;
	/* The sender; pid 0 for the kernel or a timer. */
	struct process_parent sender;
	__u32 signal;
	/* si_code: the reason for the signal. */
	__s32 code;
};

_Static_assert(sizeof(struct process_signal) == 112, "implicit padding");

struct oom_kill {
	struct event_head head;
	/* Resident set size in bytes when the victim was chosen. */
	__u64 rss;
	/* Lowest memory limit of the cgroup and its ancestors, in bytes; 0 if there is none. */
	__u64 limit;
};

_Static_assert(sizeof(struct oom_kill) == 88, "implicit padding");

/* Process event counts of a cgroup. */
struct process_row {
	__u64 starts;
	__u64 completed;
	__u64 failed;
	__u64 killed;
	/* Killed by the OOM killer; not included in `killed`. */
	__u64 oom;
	/*
	 * Killed by the OOM killer, but included in `killed`: the kernel reported the victim after
	 * its exit.
	 */
	__u64 oom_late;
};

ABI_EXPORT(struct, process_parent);
ABI_EXPORT(struct, process_start);
ABI_EXPORT(enum, exec_namespace);
ABI_EXPORT(struct, process_exec);
ABI_EXPORT(struct, process_exec_failed);
ABI_EXPORT(struct, process_exit);
ABI_EXPORT(struct, oom_kill);
ABI_EXPORT(struct, process_signal);
ABI_EXPORT(struct, process_row);
ABI_EXPORT(enum, exit_flag);
ABI_EXPORT(enum, exec_directory);
ABI_EXPORT(enum, exec_limit);
ABI_EXPORT(enum, path_mark);

#endif
