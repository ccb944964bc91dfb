/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: the releasers of blocked threads. If a thread waits for a lock, a pipe, a socket on this
 * host or a child, its waker is the party that the thread waited for. The program at sched_waking
 * notes the waker in the account of the blocked thread. The switch that ends the block charges the
 * time of the block. The program runs at each wake-up of the machine, so user space attaches it
 * only on request.
 */
#ifndef NOCTULE_RELEASE_BPF_H
#define NOCTULE_RELEASE_BPF_H

#include "blame.bpf.h"
#include "slice.bpf.h"

const volatile bool releasers_on = false;

enum {
	/* Classes in which a thread waits for the thread that wakes it. */
	RELEASED_CLASSES = 1 << BLOCK_PIPE | 1 << BLOCK_UNIX | 1 << BLOCK_LOCK |
			   1 << BLOCK_LOOPBACK | 1 << BLOCK_CHILD,
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, struct release_key);
	__type(value, struct release);
} releases SEC(".maps");

/* `releases` was full at the last insertion. Rows are never removed. */
__u32 releases_full;

/*
 * The start of user space's window (CLOCK_MONOTONIC). Only the time of a block after this moment
 * counts.
 */
__u64 releases_from;

static const struct release no_release;

/* Clears the releaser of the last block before the next block begins. */
static __always_inline void forget_releaser(struct task_account *account)
{
	account->releaser = RELEASER_UNKNOWN;
	account->releaser_start = 0;
	account->releaser_pid = 0;
	/* These stores precede the block, because a waker that sees the block sets the releaser. */
	barrier();
}

/*
 * Charges a block up to `end` to its releaser, or to RELEASER_LATER if the thread moves. `at` is
 * the moment of the snapshot in progress, or 0. If the block spans this moment, the time after it
 * is also noted as later, as in end_block(), and the reader of the snapshot subtracts that time.
 */
static __always_inline void charge_release(struct task_account *account, bool moves, __u64 block,
					   __u64 end, __u64 at)
{
	__u64 began = block >> BLOCK_CLASS_BITS;
	__u64 begin = began < releases_from ? releases_from : began;
	struct release_key key = {
		.victim = victim_of(account),
		.releaser = moves ? (__u64)RELEASER_LATER : account->releaser,
		.process_start = moves ? 0 : account->releaser_start,
		.pid = moves ? 0 : account->releaser_pid,
		.class = block & BLOCK_CLASS_MASK,
	};
	struct release *row;

	if (!(RELEASED_CLASSES >> key.class & 1) || key.releaser == RELEASER_UNKNOWN ||
	    end <= begin)
		return;
	row = bpf_map_lookup_elem(&releases, &key);
	if (!row && !releases_full)
		row = lookup_or_init(&releases, &key, &no_release);
	if (!row) {
		releases_full = 1;
		count_loss(LOSS_RELEASE_ROW);
		return;
	}
	/* The time is noted before it is added, so that a reader never counts it twice. */
	if (began < at && at < end)
		note_later_in(row, end - at, at);
	__sync_fetch_and_add(&row->blocked_ns, end - begin);
}

#endif
