/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events, sent as ring buffer records. A record that does not fit is counted by kind in
 * `lost_events`, and user space puts a gap record into the event stream. The ring buffer itself
 * does not report losses.
 */
#ifndef NOCTULE_EVENT_BPF_H
#define NOCTULE_EVENT_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.bpf.h"
#include "cgroup.bpf.h"

enum event_kind {
	EVENT_PROCESS_START,
	EVENT_PROCESS_EXEC,
	EVENT_PROCESS_EXIT,
	EVENT_OOM_KILL,
	EVENT_TCP_LISTEN,
	EVENT_TCP_LISTEN_CLOSE,
	EVENT_TCP_CONNECT,
	EVENT_TCP_CONNECT_FAILED,
	EVENT_TCP_ACCEPT,
	EVENT_TCP_RETRANSMIT,
	EVENT_TCP_CLOSE,
	EVENT_FILE_OPEN,
	EVENT_PROCESS_SIGNAL,
	EVENT_FILE_DELETE,
	EVENT_FILE_RENAME,
	EVENT_FILE_LINK,
	EVENT_FILE_CHMOD,
	EVENT_DNS_QUERY,
	EVENT_UDP_FLOW,
	EVENT_PROCESS_EXEC_FAILED,
	EVENT_KINDS,
};

/*
 * The process that an event belongs to. For a socket this is the process that connected the socket
 * or started to listen, as it was at that time.
 */
struct event_process {
	__u64 cgroup;
	/* start_boottime of the thread group leader. */
	__u64 start;
	/* Thread group id; 0 if unknown. */
	__u32 pid;
	__u32 reserved;
	/* Name of the leader. */
	char comm[16];
	/* Name of the thread that acted; empty if that thread was the leader. */
	char thread[16];
};

struct event_head {
	/* CLOCK_BOOTTIME. */
	__u64 time;
	__u32 kind;
	__u32 reserved;
	struct event_process process;
};

_Static_assert(sizeof(struct event_head) == 72, "implicit padding");

ABI_EXPORT(enum, event_kind);

/* Bit mask of the kinds that are sent to the ring buffer. The mask does not affect the counters. */
const volatile __u32 stream_kinds = 0;

/* Dropped records, by kind. */
__u64 lost_events[EVENT_KINDS];

static __always_inline bool is_streamed(enum event_kind kind)
{
	return stream_kinds & 1U << kind;
}

/*
 * Sends a record to user space. The kernel wakes the reader only if the reader has consumed all
 * earlier records. The reader also waits some milliseconds before it reads. A burst of records
 * therefore causes one wake-up.
 */
static __always_inline void emit(void *ring, void *record, __u32 size, enum event_kind kind)
{
	if (bpf_ringbuf_output(ring, record, size, 0))
		__sync_fetch_and_add(&lost_events[kind], 1);
}

static __always_inline void describe_process(struct event_process *process,
					     struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	process->start = leader->start_boottime;
	process->cgroup = cgroup_of(task);
	process->pid = task->tgid;
	process->reserved = 0;
	bpf_probe_read_kernel(process->comm, sizeof(process->comm), leader->comm);
	/* The buffer may still hold the thread name of an earlier record. */
	process->thread[0] = 0;
	if (task->pid != task->tgid)
		bpf_probe_read_kernel(process->thread, sizeof(process->thread), task->comm);
}

#endif
