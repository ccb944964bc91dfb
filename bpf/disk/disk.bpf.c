// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts requests to block devices, by device and by the cgroup that caused them: bytes, time in
 * the queue and time in the device.
 *
 * A task that needs I/O queues a bio. The programs then record the user of the bio. Any task or
 * interrupt can issue or complete a request, so the request is charged to the user that queued its
 * first bio.
 *
 * The programs use raw tracepoints and copy what they read, like the programs of the object cgroup.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../include/compat.bpf.h"
#include "../include/row.bpf.h"
#include "abi.h"
#include "owner.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

enum {
	MAX_DEVICES = 256,
	/* Bios that are not issued yet, or that never will be. */
	MAX_BIOS = 16384,
	MAX_IN_FLIGHT = 16384,
	/* The first operation of passthrough requests: REQ_OP_SCSI_IN. */
	REQ_OP_PASSES_THROUGH = 32,
};

struct queued {
	__u64 at;
	__u64 cgroup;
	__u32 user;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_BIOS);
	__type(key, __u64);
	__type(value, struct queued);
} bios SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_IN_FLIGHT);
	__type(key, __u64);
	__type(value, struct disk_request);
} requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__type(key, struct disk_key);
	__type(value, struct disk_use);
} uses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DEVICES);
	__type(key, __u32);
	__type(value, struct disk_device);
} devices SEC(".maps");

/*
 * Whether the tracepoints of requests, and those of bios, pass the queue as the first argument.
 * Before v5.11 both kinds of tracepoints do. The changes are a54895fa057c ("block: remove the
 * request_queue to argument request based tracepoints") for requests and e8a676d61c07 for bios.
 * 5.10.y has only the first change.
 */
const volatile bool request_passes_queue = false;
const volatile bool bio_passes_queue = false;

/*
 * Start of the measurement on CLOCK_MONOTONIC, set after the programs were attached. Requests from
 * before this time do not count as lost.
 */
__u64 started_at = -1ULL;

/* Requests without a row, because the table was full. */
__u64 lost_rows;
/* Requests whose issue or completion no program saw, counted without times. */
__u64 lost_requests;
/* Requests whose bio is not in `bios`, counted without user and queue time. */
__u64 lost_bios;

static __always_inline void add(__u64 *sum, __u64 amount)
{
	__atomic_fetch_add(sum, amount, __ATOMIC_RELAXED);
}

/*
 * Returns the bio or the request that the tracepoint passes. The barrier prevents the compiler from
 * merging the two loads, because the verifier requires constant offsets.
 */
static __always_inline __u64 subject_of(const __u64 *context, bool passes_queue)
{
	__u64 subject;

	if (!passes_queue)
		return context[0];
	subject = context[1];
	asm volatile("" : "+r"(subject));
	return subject;
}

static __always_inline __u32 device_number(struct gendisk *disk)
{
	__u32 number = BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
	struct disk_device device = {};

	if (bpf_map_lookup_elem(&devices, &number))
		return number;
	bpf_core_read_str(device.name, sizeof(device.name), &disk->disk_name);
	if (bpf_map_update_elem(&devices, &number, &device, BPF_NOEXIST) == -E2BIG)
		add(&lost_rows, 1);
	return number;
}

SEC("raw_tp/block_bio_queue")
int block_bio_queue(__u64 *context)
{
	__u64 bio = subject_of(context, bio_passes_queue);
	struct queued queued = {.at = bpf_ktime_get_ns()};

	find_user((void *)bio, &queued.cgroup, &queued.user);
	bpf_map_update_elem(&bios, &bio, &queued, BPF_ANY);
	return 0;
}

/*
 * The argument is the bio that was split off. The `bi_private` of this bio points to the queued
 * bio.
 */
SEC("raw_tp/block_split")
int block_split(__u64 *context)
{
	__u64 bio = subject_of(context, bio_passes_queue);
	__u64 whole = (__u64)BPF_CORE_READ((struct bio *)bio, bi_private);
	struct queued queued = {};
	struct queued *before = bpf_map_lookup_elem(&bios, &whole);

	if (before) {
		queued = *before;
	} else {
		queued.at = bpf_ktime_get_ns();
		find_user((void *)bio, &queued.cgroup, &queued.user);
	}
	bpf_map_update_elem(&bios, &bio, &queued, BPF_ANY);
	return 0;
}

/*
 * Removes a completed bio, because another bio can get the same address. This matters for bios that
 * are never issued: they were merged into another bio, or their device has no requests. The
 * arguments of the tracepoint are the queue and the bio.
 */
SEC("raw_tp/block_bio_complete")
int block_bio_complete(__u64 *context)
{
	__u64 bio = context[1];

	bpf_map_delete_elem(&bios, &bio);
	return 0;
}

/* Counts a request that was in the device until `now`. */
static __always_inline void count(const struct disk_request *request, __u64 now)
{
	static const struct disk_use none;
	struct disk_use *use = lookup_or_init(&uses, &request->key, &none);

	if (!use) {
		add(&lost_rows, 1);
		return;
	}
	switch (request->operation) {
	case REQ_OP_READ:
		add(&use->reads, 1);
		add(&use->read_bytes, request->bytes);
		break;
	case REQ_OP_WRITE:
		add(&use->writes, 1);
		add(&use->written_bytes, request->bytes);
		break;
	default:
		add(&use->others, 1);
	}
	if (request->is_queue_known) {
		add(&use->queued, 1);
		add(&use->queue_ns, request->queue_ns);
	}
	if (now > request->issued_at)
		add(&use->device_ns, now - request->issued_at);
}

/* Counts a request whose completion no program saw. */
static __always_inline void lose(const __u64 *address, const struct disk_request *request)
{
	struct disk_request lost = *request;

	bpf_map_delete_elem(&requests, address);
	add(&lost_requests, 1);
	count(&lost, lost.issued_at);
}

static __always_inline bool began_after_start(struct request *request)
{
	return BPF_CORE_READ(request, start_time_ns) > started_at;
}

/*
 * Describes a request that is issued now. Returns false if the request is not counted, because it
 * is a passthrough request or its queue has no disk.
 */
static __always_inline bool describe(struct disk_request *issued, struct request *request)
{
	struct gendisk *disk = disk_of(request);
	__u64 bio = (__u64)BPF_CORE_READ(request, bio);
	struct queued *queued;

	issued->operation = BPF_CORE_READ(request, cmd_flags) & REQ_OP_MASK;
	if (!disk || issued->operation >= REQ_OP_PASSES_THROUGH)
		return false;
	issued->key.device = device_number(disk);
	issued->bytes = BPF_CORE_READ(request, __data_len);
	if (!bio) {
		issued->key.user = DISK_USER_FLUSH;
		return true;
	}
	queued = bpf_map_lookup_elem(&bios, &bio);
	if (!queued) {
		issued->key.user = DISK_USER_UNKNOWN;
		/* A copied request (dm-multipath) has an `end_io`, and no task queued its bio. */
		if (began_after_start(request) && !BPF_CORE_READ(request, end_io))
			add(&lost_bios, 1);
		return true;
	}
	issued->key.user = queued->user;
	issued->key.cgroup = queued->cgroup;
	if (issued->issued_at > queued->at) {
		issued->queue_ns = issued->issued_at - queued->at;
		issued->is_queue_known = true;
	}
	bpf_map_delete_elem(&bios, &bio);
	return true;
}

SEC("raw_tp/block_rq_issue")
int block_rq_issue(__u64 *context)
{
	__u64 address = subject_of(context, request_passes_queue);
	struct request *request = (void *)address;
	struct disk_request issued = {
		.issued_at = bpf_ktime_get_ns(),
		.allocated_at = BPF_CORE_READ(request, start_time_ns),
	};
	struct disk_request *before = bpf_map_lookup_elem(&requests, &address);

	if (before && !before->issued_at && before->allocated_at == issued.allocated_at) {
		before->queue_ns += issued.issued_at - before->queued_at;
		before->issued_at = issued.issued_at;
		return 0;
	}
	if (before)
		lose(&address, before);
	if (describe(&issued, request) &&
	    bpf_map_update_elem(&requests, &address, &issued, BPF_ANY))
		add(&lost_requests, 1);
	return 0;
}

/* The driver has no room for the request and returns it to the queue. */
SEC("raw_tp/block_rq_requeue")
int block_rq_requeue(__u64 *context)
{
	__u64 address = subject_of(context, request_passes_queue);
	struct disk_request *request = bpf_map_lookup_elem(&requests, &address);
	__u64 now = bpf_ktime_get_ns();

	if (!request || !request->issued_at)
		return 0;
	request->queue_ns += now - request->issued_at;
	request->issued_at = 0;
	request->queued_at = now;
	return 0;
}

/* Whether the programs should have seen the issue of this completed request. */
static __always_inline bool is_lost(struct request *request)
{
	__u32 operation = BPF_CORE_READ(request, cmd_flags) & REQ_OP_MASK;

	/* The kernel never issues a flush with a bio, but a flush request of the queue instead. */
	return operation < REQ_OP_PASSES_THROUGH && BPF_CORE_READ(request, __data_len) &&
	       began_after_start(request);
}

/* In all versions, the arguments are the request, its error and the number of completed bytes. */
SEC("raw_tp/block_rq_complete")
int block_rq_complete(__u64 *context)
{
	__u64 address = context[0];
	__u32 bytes = context[2];
	struct request *request = (void *)address;
	struct disk_request *issued = bpf_map_lookup_elem(&requests, &address);
	struct disk_request done = {};
	__u64 now = bpf_ktime_get_ns();

	/*
	 * Only some bytes of the request are complete. The kernel completes the other bytes later.
	 */
	if (bytes < BPF_CORE_READ(request, __data_len))
		return 0;
	if (issued && issued->allocated_at != BPF_CORE_READ(request, start_time_ns)) {
		lose(&address, issued);
		issued = NULL;
	}
	if (!issued) {
		if (is_lost(request) && describe(&done, request)) {
			add(&lost_requests, 1);
			count(&done, 0);
		}
		return 0;
	}
	done = *issued;
	bpf_map_delete_elem(&requests, &address);
	if (!done.issued_at) {
		/* The driver returned the request, which then ended without another issue. */
		done.queue_ns += now - done.queued_at;
		done.issued_at = now;
	}
	count(&done, now);
	return 0;
}
