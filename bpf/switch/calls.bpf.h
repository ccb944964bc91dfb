/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Classes of system calls, by the kind of event that a thread in the call waits for. The numbers
 * are from asm/unistd.h and never change.
 */
#ifndef NOCTULE_CALLS_BPF_H
#define NOCTULE_CALLS_BPF_H

#include "../include/kernel.h"
#include "../include/syscall.bpf.h"

enum call {
	/* Not in a system call, or in one that is not listed. */
	CALL_NONE,
	CALL_POLL,
	CALL_TIMER,
	CALL_LOCK,
	CALL_CHILD,
	/* Message queues. */
	CALL_MESSAGE,
	/* The class depends on the type of the descriptor in the first argument. */
	CALL_DESCRIPTOR,
	/* Like CALL_DESCRIPTOR, but the call can also dirty pages. */
	CALL_WRITE,
	/* Calls that take a file name, or that work only on files. */
	CALL_FILE,
};

enum {
	CALLS = 512,
	/* Marks a 32-bit system call, which has another number, in thread_info.status on x86. */
	TS_COMPAT = 0x2,
	/* Marks a 32-bit system call in the processor state on arm64. */
	PSR_MODE32_BIT = 0x10,
};

/* clang-format off */
static const __u8 calls[CALLS] = {
#if defined(__TARGET_ARCH_x86)
	[0] = CALL_DESCRIPTOR, /* read */
	[1] = CALL_WRITE, /* write */
	[2] = CALL_FILE, /* open */
	[3] = CALL_DESCRIPTOR, /* close */
	[4] = CALL_FILE, /* stat */
	[5] = CALL_FILE, /* fstat */
	[6] = CALL_FILE, /* lstat */
	[7] = CALL_POLL, /* poll */
	[8] = CALL_FILE, /* lseek */
	[9] = CALL_FILE, /* mmap */
	[16] = CALL_DESCRIPTOR, /* ioctl */
	[17] = CALL_DESCRIPTOR, /* pread64 */
	[18] = CALL_WRITE, /* pwrite64 */
	[19] = CALL_DESCRIPTOR, /* readv */
	[20] = CALL_WRITE, /* writev */
	[21] = CALL_FILE, /* access */
	[23] = CALL_POLL, /* select */
	[26] = CALL_FILE, /* msync */
	[34] = CALL_POLL, /* pause */
	[35] = CALL_TIMER, /* nanosleep */
	[40] = CALL_DESCRIPTOR, /* sendfile */
	[42] = CALL_DESCRIPTOR, /* connect */
	[43] = CALL_POLL, /* accept */
	[44] = CALL_DESCRIPTOR, /* sendto */
	[45] = CALL_DESCRIPTOR, /* recvfrom */
	[46] = CALL_DESCRIPTOR, /* sendmsg */
	[47] = CALL_DESCRIPTOR, /* recvmsg */
	[48] = CALL_DESCRIPTOR, /* shutdown */
	[56] = CALL_CHILD, /* clone */
	[58] = CALL_CHILD, /* vfork */
	[59] = CALL_FILE, /* execve */
	[61] = CALL_CHILD, /* wait4 */
	[65] = CALL_LOCK, /* semop */
	[69] = CALL_MESSAGE, /* msgsnd */
	[70] = CALL_MESSAGE, /* msgrcv */
	[72] = CALL_LOCK, /* fcntl */
	[73] = CALL_LOCK, /* flock */
	[74] = CALL_FILE, /* fsync */
	[75] = CALL_FILE, /* fdatasync */
	[76] = CALL_FILE, /* truncate */
	[77] = CALL_FILE, /* ftruncate */
	[78] = CALL_FILE, /* getdents */
	[80] = CALL_FILE, /* chdir */
	[81] = CALL_FILE, /* fchdir */
	[82] = CALL_FILE, /* rename */
	[83] = CALL_FILE, /* mkdir */
	[84] = CALL_FILE, /* rmdir */
	[85] = CALL_FILE, /* creat */
	[86] = CALL_FILE, /* link */
	[87] = CALL_FILE, /* unlink */
	[88] = CALL_FILE, /* symlink */
	[89] = CALL_FILE, /* readlink */
	[90] = CALL_FILE, /* chmod */
	[91] = CALL_FILE, /* fchmod */
	[92] = CALL_FILE, /* chown */
	[93] = CALL_FILE, /* fchown */
	[94] = CALL_FILE, /* lchown */
	[128] = CALL_POLL, /* rt_sigtimedwait */
	[130] = CALL_POLL, /* rt_sigsuspend */
	[132] = CALL_FILE, /* utime */
	[133] = CALL_FILE, /* mknod */
	[137] = CALL_FILE, /* statfs */
	[138] = CALL_FILE, /* fstatfs */
	[155] = CALL_FILE, /* pivot_root */
	[161] = CALL_FILE, /* chroot */
	[162] = CALL_FILE, /* sync */
	[165] = CALL_FILE, /* mount */
	[166] = CALL_FILE, /* umount2 */
	[167] = CALL_FILE, /* swapon */
	[168] = CALL_FILE, /* swapoff */
	[179] = CALL_FILE, /* quotactl */
	[187] = CALL_FILE, /* readahead */
	[188] = CALL_FILE, /* setxattr */
	[189] = CALL_FILE, /* lsetxattr */
	[190] = CALL_FILE, /* fsetxattr */
	[191] = CALL_FILE, /* getxattr */
	[192] = CALL_FILE, /* lgetxattr */
	[193] = CALL_FILE, /* fgetxattr */
	[197] = CALL_FILE, /* removexattr */
	[202] = CALL_LOCK, /* futex */
	[208] = CALL_POLL, /* io_getevents */
	[209] = CALL_FILE, /* io_submit */
	[215] = CALL_POLL, /* epoll_wait_old */
	[217] = CALL_FILE, /* getdents64 */
	[220] = CALL_LOCK, /* semtimedop */
	[221] = CALL_FILE, /* fadvise64 */
	[230] = CALL_TIMER, /* clock_nanosleep */
	[232] = CALL_POLL, /* epoll_wait */
	[235] = CALL_FILE, /* utimes */
	[242] = CALL_MESSAGE, /* mq_timedsend */
	[243] = CALL_MESSAGE, /* mq_timedreceive */
	[247] = CALL_CHILD, /* waitid */
	[257] = CALL_FILE, /* openat */
	[258] = CALL_FILE, /* mkdirat */
	[259] = CALL_FILE, /* mknodat */
	[260] = CALL_FILE, /* fchownat */
	[261] = CALL_FILE, /* futimesat */
	[262] = CALL_FILE, /* newfstatat */
	[263] = CALL_FILE, /* unlinkat */
	[264] = CALL_FILE, /* renameat */
	[265] = CALL_FILE, /* linkat */
	[266] = CALL_FILE, /* symlinkat */
	[267] = CALL_FILE, /* readlinkat */
	[268] = CALL_FILE, /* fchmodat */
	[269] = CALL_FILE, /* faccessat */
	[270] = CALL_POLL, /* pselect6 */
	[271] = CALL_POLL, /* ppoll */
	[275] = CALL_DESCRIPTOR, /* splice */
	[276] = CALL_DESCRIPTOR, /* tee */
	[277] = CALL_FILE, /* sync_file_range */
	[278] = CALL_DESCRIPTOR, /* vmsplice */
	[280] = CALL_FILE, /* utimensat */
	[281] = CALL_POLL, /* epoll_pwait */
	[285] = CALL_FILE, /* fallocate */
	[288] = CALL_POLL, /* accept4 */
	[295] = CALL_DESCRIPTOR, /* preadv */
	[296] = CALL_WRITE, /* pwritev */
	[299] = CALL_DESCRIPTOR, /* recvmmsg */
	[303] = CALL_FILE, /* name_to_handle_at */
	[304] = CALL_FILE, /* open_by_handle_at */
	[306] = CALL_FILE, /* syncfs */
	[307] = CALL_DESCRIPTOR, /* sendmmsg */
	[316] = CALL_FILE, /* renameat2 */
	[322] = CALL_FILE, /* execveat */
	[326] = CALL_FILE, /* copy_file_range */
	[327] = CALL_DESCRIPTOR, /* preadv2 */
	[328] = CALL_WRITE, /* pwritev2 */
	[332] = CALL_FILE, /* statx */
	[333] = CALL_POLL, /* io_pgetevents */
	[426] = CALL_POLL, /* io_uring_enter */
	[435] = CALL_CHILD, /* clone3 */
	[437] = CALL_FILE, /* openat2 */
	[439] = CALL_FILE, /* faccessat2 */
	[441] = CALL_POLL, /* epoll_pwait2 */
	[449] = CALL_LOCK, /* futex_waitv */
	[455] = CALL_LOCK, /* futex_wait */
	[456] = CALL_LOCK, /* futex_requeue */
#elif defined(__TARGET_ARCH_arm64)
	[2] = CALL_FILE, /* io_submit */
	[4] = CALL_POLL, /* io_getevents */
	[5] = CALL_FILE, /* setxattr */
	[6] = CALL_FILE, /* lsetxattr */
	[7] = CALL_FILE, /* fsetxattr */
	[8] = CALL_FILE, /* getxattr */
	[9] = CALL_FILE, /* lgetxattr */
	[10] = CALL_FILE, /* fgetxattr */
	[14] = CALL_FILE, /* removexattr */
	[22] = CALL_POLL, /* epoll_pwait */
	[25] = CALL_LOCK, /* fcntl */
	[29] = CALL_DESCRIPTOR, /* ioctl */
	[32] = CALL_LOCK, /* flock */
	[33] = CALL_FILE, /* mknodat */
	[34] = CALL_FILE, /* mkdirat */
	[35] = CALL_FILE, /* unlinkat */
	[36] = CALL_FILE, /* symlinkat */
	[37] = CALL_FILE, /* linkat */
	[38] = CALL_FILE, /* renameat */
	[39] = CALL_FILE, /* umount2 */
	[40] = CALL_FILE, /* mount */
	[41] = CALL_FILE, /* pivot_root */
	[43] = CALL_FILE, /* statfs */
	[44] = CALL_FILE, /* fstatfs */
	[45] = CALL_FILE, /* truncate */
	[46] = CALL_FILE, /* ftruncate */
	[47] = CALL_FILE, /* fallocate */
	[48] = CALL_FILE, /* faccessat */
	[49] = CALL_FILE, /* chdir */
	[50] = CALL_FILE, /* fchdir */
	[51] = CALL_FILE, /* chroot */
	[52] = CALL_FILE, /* fchmod */
	[53] = CALL_FILE, /* fchmodat */
	[54] = CALL_FILE, /* fchownat */
	[55] = CALL_FILE, /* fchown */
	[56] = CALL_FILE, /* openat */
	[57] = CALL_DESCRIPTOR, /* close */
	[60] = CALL_FILE, /* quotactl */
	[61] = CALL_FILE, /* getdents64 */
	[62] = CALL_FILE, /* lseek */
	[63] = CALL_DESCRIPTOR, /* read */
	[64] = CALL_WRITE, /* write */
	[65] = CALL_DESCRIPTOR, /* readv */
	[66] = CALL_WRITE, /* writev */
	[67] = CALL_DESCRIPTOR, /* pread64 */
	[68] = CALL_WRITE, /* pwrite64 */
	[69] = CALL_DESCRIPTOR, /* preadv */
	[70] = CALL_WRITE, /* pwritev */
	[71] = CALL_DESCRIPTOR, /* sendfile */
	[72] = CALL_POLL, /* pselect6 */
	[73] = CALL_POLL, /* ppoll */
	[75] = CALL_DESCRIPTOR, /* vmsplice */
	[76] = CALL_DESCRIPTOR, /* splice */
	[77] = CALL_DESCRIPTOR, /* tee */
	[78] = CALL_FILE, /* readlinkat */
	[80] = CALL_FILE, /* fstat */
	[81] = CALL_FILE, /* sync */
	[82] = CALL_FILE, /* fsync */
	[83] = CALL_FILE, /* fdatasync */
	[84] = CALL_FILE, /* sync_file_range */
	[88] = CALL_FILE, /* utimensat */
	[95] = CALL_CHILD, /* waitid */
	[98] = CALL_LOCK, /* futex */
	[101] = CALL_TIMER, /* nanosleep */
	[115] = CALL_TIMER, /* clock_nanosleep */
	[133] = CALL_POLL, /* rt_sigsuspend */
	[137] = CALL_POLL, /* rt_sigtimedwait */
	[182] = CALL_MESSAGE, /* mq_timedsend */
	[183] = CALL_MESSAGE, /* mq_timedreceive */
	[188] = CALL_MESSAGE, /* msgrcv */
	[189] = CALL_MESSAGE, /* msgsnd */
	[192] = CALL_LOCK, /* semtimedop */
	[193] = CALL_LOCK, /* semop */
	[202] = CALL_POLL, /* accept */
	[203] = CALL_DESCRIPTOR, /* connect */
	[206] = CALL_DESCRIPTOR, /* sendto */
	[207] = CALL_DESCRIPTOR, /* recvfrom */
	[210] = CALL_DESCRIPTOR, /* shutdown */
	[211] = CALL_DESCRIPTOR, /* sendmsg */
	[212] = CALL_DESCRIPTOR, /* recvmsg */
	[213] = CALL_FILE, /* readahead */
	[220] = CALL_CHILD, /* clone */
	[221] = CALL_FILE, /* execve */
	[222] = CALL_FILE, /* mmap */
	[223] = CALL_FILE, /* fadvise64 */
	[224] = CALL_FILE, /* swapon */
	[225] = CALL_FILE, /* swapoff */
	[227] = CALL_FILE, /* msync */
	[242] = CALL_POLL, /* accept4 */
	[243] = CALL_DESCRIPTOR, /* recvmmsg */
	[260] = CALL_CHILD, /* wait4 */
	[267] = CALL_FILE, /* syncfs */
	[269] = CALL_DESCRIPTOR, /* sendmmsg */
	[276] = CALL_FILE, /* renameat2 */
	[281] = CALL_FILE, /* execveat */
	[285] = CALL_FILE, /* copy_file_range */
	[286] = CALL_DESCRIPTOR, /* preadv2 */
	[287] = CALL_WRITE, /* pwritev2 */
	[291] = CALL_FILE, /* statx */
	[292] = CALL_POLL, /* io_pgetevents */
	[426] = CALL_POLL, /* io_uring_enter */
	[435] = CALL_CHILD, /* clone3 */
	[437] = CALL_FILE, /* openat2 */
	[439] = CALL_FILE, /* faccessat2 */
	[441] = CALL_POLL, /* epoll_pwait2 */
	[449] = CALL_LOCK, /* futex_waitv */
	[455] = CALL_LOCK, /* futex_wait */
	[456] = CALL_LOCK, /* futex_requeue */
#endif
};
/* clang-format on */

/* Returns the class of the thread's system call. `registers` are the thread's user registers. */
static __always_inline enum call call_of(struct task_struct *task, const struct pt_regs *registers)
{
#if defined(__TARGET_ARCH_x86)
	bool compat = task->thread_info.status & TS_COMPAT;
#elif defined(__TARGET_ARCH_arm64)
	bool compat = registers->pstate & PSR_MODE32_BIT;
#endif
	__u64 number = system_call(registers);

	return number < CALLS && !compat ? calls[number] : CALL_NONE;
}

#endif
