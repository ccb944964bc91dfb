/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rows that user space reads.
 */
#ifndef NOCTULE_DISK_ABI_H
#define NOCTULE_DISK_ABI_H

#include "../include/kernel.h"
#include "../include/abi.bpf.h"

enum {
	/* DISK_NAME_LEN of linux/blkdev.h. */
	DEVICE_NAME_BYTES = 32,
};

/* The user to which a request is charged. */
enum disk_user {
	/* The cgroup whose id is in the key. */
	DISK_USER_CGROUP,
	/*
	 * Write-back of dirty data by kernel threads; the cgroups that dirtied the data are
	 * unknown.
	 */
	DISK_USER_WRITEBACK,
	/* Journal and metadata of file systems, written by kernel threads. */
	DISK_USER_JOURNAL,
	/* Flushes of the device's cache. One flush can serve several tasks. */
	DISK_USER_FLUSH,
	/* Other requests of kernel threads. */
	DISK_USER_KERNEL,
	/* The programs did not see which task queued the request. */
	DISK_USER_UNKNOWN,
};

ABI_EXPORT(enum, disk_user);

struct disk_key {
	/* The cgroup id, if `user` is a cgroup; otherwise 0. */
	__u64 cgroup;
	/* Major number << 20 | minor number, as in the kernel. */
	__u32 device;
	/* enum disk_user */
	__u32 user;
};

_Static_assert(sizeof(struct disk_key) == 16, "no padding");

/* Completed requests. The times are sums over requests, which overlap. */
struct disk_use {
	__u64 read_bytes;
	__u64 written_bytes;
	__u64 reads;
	__u64 writes;
	/* Flushes, discards and other requests without data. */
	__u64 others;
	/* Requests with a known time of submission. `queue_ns` is the sum over these requests. */
	__u64 queued;
	/* Time from the submission of a request to its issue. */
	__u64 queue_ns;
	/* Time from the issue of a request to its completion. */
	__u64 device_ns;
};

_Static_assert(sizeof(struct disk_use) == 64, "no padding");

struct disk_device {
	char name[DEVICE_NAME_BYTES];
};

/* A request that was issued and is still in flight. */
struct disk_request {
	struct disk_key key;
	/* `start_time_ns` of the request, which distinguishes requests at the same address. */
	__u64 allocated_at;
	__u64 queue_ns;
	/* 0 if the driver returned the request and the kernel is yet to issue it again. */
	__u64 issued_at;
	/* Start of the queue time that is not included in `queue_ns` yet. */
	__u64 queued_at;
	__u32 bytes;
	/* enum req_op */
	__u16 operation;
	/* Whether the time of submission is known. */
	__u16 is_queue_known;
};

_Static_assert(sizeof(struct disk_request) == 56, "no padding");

#endif
