// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Page cache reads and dirtied pages, charged to the current thread. Several programs exist for
 * reads and for dirtied pages; the loader picks the best one that the kernel supports.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../include/compat.bpf.h"
#include "../include/task.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* Log2 of the page size, set at load. */
const volatile __u32 page_shift = 12;

enum {
	/* A file has at most 2^63 bytes, and a page at least 2^12. */
	BITS_OF_PAGE = 51,
};

/*
 * Returns the number of read calls that the current thread has completed, or 0 without
 * CONFIG_TASK_XACCT.
 */
static __always_inline __u64 completed_reads(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return bpf_core_field_exists(task->ioac.syscr) ? task->ioac.syscr : 0;
}

/*
 * Returns the number of new pages, from `index` to `last`, that a read requests. A read may request
 * more pages than the file has. Such a read proceeds in steps of several folios, each with the same
 * last page. The next read call looks like another step if it begins in the page in which the
 * previous call ended. The upper bits of `read_last` therefore hold the number of calls.
 */
static __always_inline __u64 pages_asked(struct task_account *account,
					 struct address_space *mapping, __u64 index, __u64 last)
{
	__u64 read_last = last ^ completed_reads() << BITS_OF_PAGE;
	bool continues = account->read_mapping == (__u64)mapping &&
			 account->read_last == read_last && account->read_index < index;
	struct inode *file = only_to_be_read(mapping, NUMBER_ADDRESS_SPACE)->host;
	__u64 end = (file->i_size + (1ULL << page_shift) - 1) >> page_shift;

	account->read_mapping = (__u64)mapping;
	account->read_index = index;
	account->read_last = read_last;
	if (continues || index >= end || last < index)
		return 0;
	return (last < end ? last + 1 : end) - index;
}

/*
 * filemap:mm_filemap_get_pages exists in v6.12, but not in v6.1. The idle task never reads files.
 */
SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(read_get_pages, struct address_space *mapping, unsigned long index,
	     unsigned long last_index)
{
	struct task_account *account = current_account_to_charge();

	if (account)
		account->total.v[COUNTER_PAGE_READS] +=
			pages_asked(account, mapping, index, last_index);
	return 0;
}

/*
 * v5.16: 76580b6529db ("mm/swap: Add folio_mark_accessed"). Called once for each folio of a read.
 */
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

/* For kernels without fexit. */
SEC("kprobe/folio_mark_accessed")
int read_folio_probe(void *context)
{
	charge_current(COUNTER_PAGE_READS, 1);
	return 0;
}

SEC("kprobe/mark_page_accessed")
int read_page_probe(void *context)
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
