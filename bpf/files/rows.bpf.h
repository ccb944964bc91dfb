/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many files each cgroup opened: exact, whatever finds no room in the ring.
 */
#ifndef NOCTULE_FILES_ROWS_BPF_H
#define NOCTULE_FILES_ROWS_BPF_H

#include "abi.h"
#include "../include/loss.bpf.h"
#include "../include/row.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__type(key, __u64);
	__type(value, struct file_counts);
} file_rows SEC(".maps");

/* The cgroups for which `file_rows` had no room, together. */
struct file_counts file_overflow;

static const struct file_counts no_files;

static __always_inline struct file_counts *file_row(__u64 cgroup)
{
	struct file_counts *row = lookup_or_init(&file_rows, &cgroup, &no_files);

	if (row)
		return row;
	count_loss(LOSS_EVENT_ROW);
	return &file_overflow;
}

static __always_inline void count_open(__u64 cgroup, bool failed, bool writes)
{
	struct file_counts *row = file_row(cgroup);

	__sync_fetch_and_add(failed ? &row->failures : writes ? &row->writes : &row->reads, 1);
}

#endif
