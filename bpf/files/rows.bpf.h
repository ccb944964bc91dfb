/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Number of opens per cgroup. The counts are exact, even if records are dropped from the ring
 * buffer.
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

/* Sum over the cgroups that did not fit into `file_rows`. */
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
