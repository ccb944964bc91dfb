// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Pages read through the page cache, and pages of it made dirty, charged to the current thread. Two
 * generations of each hook; the loader picks what the kernel has.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../include/compat.bpf.h"
#include "../include/task.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* v6.14: filemap:mm_filemap_get_pages. Pages index to last_index were asked for by a read. */
SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(read_get_pages, struct address_space *mapping, unsigned long index,
	     unsigned long last_index)
{
	if (last_index >= index)
		charge_current(COUNTER_PAGE_READS, last_index - index + 1);
	return 0;
}

/* v5.16: 76580b6529db ("mm/swap: Add folio_mark_accessed"); one call for each folio of a read. */
SEC("fexit/folio_mark_accessed")
int BPF_PROG(read_folio_access)
{
	charge_current(COUNTER_PAGE_READS, 1);
	return 0;
}

/* Before v5.16. */
SEC("fexit/mark_page_accessed")
int BPF_PROG(read_page_access)
{
	charge_current(COUNTER_PAGE_READS, 1);
	return 0;
}

/* v5.18: 203a31516616 ("mm/writeback: Add __folio_mark_dirty") renamed the tracepoint. */
SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(write_folio, struct folio *folio)
{
	charge_current(COUNTER_PAGE_WRITES, folio_pages(folio));
	return 0;
}

SEC("tp_btf/writeback_dirty_page")
int BPF_PROG(write_page)
{
	charge_current(COUNTER_PAGE_WRITES, 1);
	return 0;
}
