/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Log-linear buckets: 16 of width 1, then 8 for each power of two. The middle of a bucket is off
 * from any value in it by 1/16 at most.
 */
#ifndef NOCTULE_HIST_BPF_H
#define NOCTULE_HIST_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

enum histogram {
	/* Buckets for each power of two: 2^3. */
	HISTOGRAM_BITS = 3,
	/* Values of 2^40 and more are in the last bucket: 18 minutes, in nanoseconds. */
	HISTOGRAM_MAX_BITS = 40,
	HISTOGRAM_BUCKETS = (HISTOGRAM_MAX_BITS - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS,
};

/*
 * Position of the highest bit that is set; `value` is not 0 and below 2^63. BPF has no instruction
 * for it. Without branches, each of which doubles the states in which the verifier goes on: a
 * smaller number less a larger one has its highest bit set.
 */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = 0, more;

	more = (0xffffffffULL - value) >> 63 << 5;
	bit += more;
	value >>= more;
	more = (0xffffULL - value) >> 63 << 4;
	bit += more;
	value >>= more;
	more = (0xffULL - value) >> 63 << 3;
	bit += more;
	value >>= more;
	more = (0xfULL - value) >> 63 << 2;
	bit += more;
	value >>= more;
	/* Two bits for each number below 16. */
	return bit + (0xffffaa50ULL >> 2 * value & 3);
}

static __always_inline void histogram_add(__u32 *buckets, __u64 value)
{
	__u32 bucket = value;
	__u32 shift;

	if (value >> HISTOGRAM_MAX_BITS) {
		bucket = HISTOGRAM_BUCKETS - 1;
	} else if (value >> (HISTOGRAM_BITS + 1)) {
		shift = highest_bit(value) - HISTOGRAM_BITS;
		bucket = (shift << HISTOGRAM_BITS) + (value >> shift);
	}
	/* Always true, which the verifier does not see and the compiler does. */
	barrier_var(bucket);
	if (bucket < HISTOGRAM_BUCKETS)
		__sync_fetch_and_add(&buckets[bucket], 1);
}

#endif
