/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts by cgroup. The counts are complete even if events are dropped from the stream. */
#ifndef NOCTULE_LIFECYCLE_ROW_BPF_H
#define NOCTULE_LIFECYCLE_ROW_BPF_H

#include "../include/loss.bpf.h"
#include "../include/row.bpf.h"
#include "abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct process_row);
} process_rows SEC(".maps");

/* Process, OOM and TCP events. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22); /* set at load */
} facts SEC(".maps");

/* Sum over the cgroups that did not fit into `process_rows`. */
struct process_row process_overflow;

static const struct process_row no_processes;

static __always_inline struct process_row *process_row(__u64 cgroup)
{
	struct process_row *row = lookup_or_init(&process_rows, &cgroup, &no_processes);

	if (row)
		return row;
	count_loss(LOSS_EVENT_ROW);
	return &process_overflow;
}

#endif
