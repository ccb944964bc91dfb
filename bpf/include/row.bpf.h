/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Map rows that are created on first use.
 */
#ifndef NOCTULE_ROW_BPF_H
#define NOCTULE_ROW_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

static __always_inline void *lookup_or_init(void *map, const void *key, const void *initial)
{
	void *row = bpf_map_lookup_elem(map, key);

	if (row)
		return row;
	/* If another CPU inserts its row first, that row is used. */
	bpf_map_update_elem(map, key, initial, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

#endif
