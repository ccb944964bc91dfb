/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Log-linear buckets: 16 of width 1, then 8 for each power of two. The midpoint of a bucket differs
 * from any value in the bucket by at most 1/16.
 */
#ifndef NOCTULE_HIST_BPF_H
#define NOCTULE_HIST_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

enum histogram {
	/* Buckets for each power of two: 2^3. */
	HISTOGRAM_BITS = 3,
	/* Values of 2^40 and more go to the last bucket. In nanoseconds, that is 18 minutes. */
	HISTOGRAM_MAX_BITS = 40,
	HISTOGRAM_BUCKETS = (HISTOGRAM_MAX_BITS - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS,
};

/*
 * Returns the position of the highest set bit. `value` must be between 1 and 2^63 - 1. BPF has no
 * instruction for this. The code avoids branches, because each branch doubles the states that the
 * verifier explores. Instead the code subtracts: if the subtracted number is larger, the top bit of
 * the result is set.
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
	/* A table with two bits for each number below 16. */
	return bit + (0xffffaa50ULL >> 2 * value & 3);
}

/* Values below 2^HISTOGRAM_BITS are shifted by 0. A negative value counts as a large one. */
static __always_inline void histogram_add(__u32 *buckets, __u64 value)
{
	__u32 bucket, shift;

	value = value << 1 >> 1;
	shift = highest_bit(value | 1ULL << HISTOGRAM_BITS) - HISTOGRAM_BITS;
	bucket = (shift << HISTOGRAM_BITS) + (value >> shift);
	if (bucket >= HISTOGRAM_BUCKETS)
		bucket = HISTOGRAM_BUCKETS - 1;
	__sync_fetch_and_add(&buckets[bucket], 1);
}

#endif
