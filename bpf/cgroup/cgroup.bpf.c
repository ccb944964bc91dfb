// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Creation, renaming and removal of cgroups, with their paths, so that even a group that lives for
 * some milliseconds has a name.
 *
 * The programs use raw tracepoints and copy what they read. For programs with typed arguments,
 * libbpf would parse all kernel types again for this object. Such parsing would take longer than
 * all other work of these few programs, and cgroups are rarely created or removed.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../include/loss.bpf.h"
#include "abi.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} cgroup_events SEC(".maps");

const volatile __u32 events_wakeup_bytes = 1 << 19;

/* The hierarchy to report, numbered as in /proc/self/cgroup: 0 is v2. */
const volatile int hierarchy = 0;

/*
 * Reserves a record with `room` bytes for the path and fills it. Returns NULL if the ring buffer is
 * full.
 */
static __always_inline struct cgroup_event *event_with(struct cgroup *group, const char *path,
						       enum cgroup_change change, __u32 room)
{
	struct cgroup_event *event;
	long length;

	event = bpf_ringbuf_reserve(&cgroup_events, sizeof(*event) + room, 0);
	if (!event) {
		count_loss(LOSS_CGROUP_EVENT);
		return NULL;
	}
	event->id = BPF_CORE_READ(group, kn, id);
	event->change = change;
	length = bpf_probe_read_kernel_str(event->path, room, path);
	/* A path that fills the buffer may be truncated. */
	event->length = length > 0 && length < room ? length : 0;
	return event;
}

static __always_inline void report(struct cgroup *group, const char *path,
				   enum cgroup_change change)
{
	struct cgroup_event *event;
	__u64 wakeup;

	if (BPF_CORE_READ(group, root, hierarchy_id) != hierarchy)
		return;
	event = event_with(group, path, change, CGROUP_PATH_SHORT);
	if (event && !event->length) {
		bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
		event = event_with(group, path, change, CGROUP_PATH_LONG);
	}
	if (!event)
		return;
	wakeup = bpf_ringbuf_query(&cgroup_events, BPF_RB_AVAIL_DATA) > events_wakeup_bytes
			 ? BPF_RB_FORCE_WAKEUP
			 : BPF_RB_NO_WAKEUP;
	bpf_ringbuf_submit(event, wakeup);
}

SEC("raw_tp/cgroup_mkdir")
int BPF_PROG(cgroup_mkdir, struct cgroup *group, const char *path)
{
	report(group, path, CGROUP_MADE);
	return 0;
}

SEC("raw_tp/cgroup_rename")
int BPF_PROG(cgroup_rename, struct cgroup *group, const char *path)
{
	report(group, path, CGROUP_RENAMED);
	return 0;
}

SEC("raw_tp/cgroup_rmdir")
int BPF_PROG(cgroup_rmdir, struct cgroup *group, const char *path)
{
	report(group, path, CGROUP_REMOVED);
	return 0;
}

SEC("raw_tp/cgroup_release")
int BPF_PROG(cgroup_release, struct cgroup *group, const char *path)
{
	report(group, path, CGROUP_RELEASED);
	return 0;
}
