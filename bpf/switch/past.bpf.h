/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recent past of a CPU: the last slices one by one, and older time in epochs, each with a sum
 * for each group. So a wait of a second is divided among the groups that ran meanwhile, however
 * often they took turns: 100,000 switches a second fill the ring of slices in 0.3 ms.
 */
#ifndef NOCTULE_PAST_BPF_H
#define NOCTULE_PAST_BPF_H

#include "abi.h"
#include "../include/abi.bpf.h"
#include "../include/task.bpf.h"
#include "moment.bpf.h"

enum {
	/* Slices that are remembered one by one; neighbours of one runner count as one. */
	SLICES = 32,
	/*
	 * So many go into epochs at once, the oldest: the program and the epoch are then in the
	 * cache for all but the first.
	 */
	SLICES_FOLDED = 8,
	/* Room for both. A power of two: older verifiers know the bounds of no other remainder. */
	PLACES = 64,
	EPOCHS = 64,
	/* Runners that an epoch has room for. */
	SHARES = 6,
};

/* Least length of an epoch: EPOCHS of them last for longer than an interval. */
const volatile __u64 epoch_ns = 20000000;

/* Of scheduling classes: a higher one takes the CPU from a lower one at once. */
enum rank {
	RANK_IDLE,
	RANK_FAIR,
	RANK_REALTIME,
	RANK_DEADLINE,
	RANK_BITS = 2,
};

/* A group and the rank in which it ran, in one word. Groups count up from 1 or down from -1. */
typedef __u64 runner;

static __always_inline runner make_runner(__u64 group, enum rank rank)
{
	return group << RANK_BITS | rank;
}

static __always_inline __u64 group_of(runner runner)
{
	return (__u64)((__s64)runner >> RANK_BITS);
}

static __always_inline enum rank rank_of(runner runner)
{
	return runner & ((1 << RANK_BITS) - 1);
}

struct slice {
	runner runner;
	/* When it began. It ends where the next begins. */
	struct moment began;
};

struct share {
	runner runner;
	__u64 ns;
};

/* Slices that followed each other, added up. */
struct epoch {
	/* Of the first one. It ends where the next epoch begins. */
	__u64 began;
	__u64 used;
	__u64 stolen;
	__u64 interrupts;
	struct share shares[SHARES];
};

struct past {
	/* How many slices there were; the newest is at `count - 1`. */
	__u64 count;
	/* How many epochs; they end where the slices begin. */
	__u64 epochs_count;
	/* How many slices are in epochs: those from here on are in the ring. */
	__u64 folded;
	/* The thread that runs; 0 is the idle task. */
	__u32 pid;
	__u32 reserved;
	__u64 padding[4];
	struct slice ring[PLACES];
	struct epoch epochs[EPOCHS];
};

_Static_assert(sizeof(struct past) % 64 == 0, "two CPUs share a cache line");

ABI_EXPORT(struct, past);
ABI_EXPORT(enum, rank);

/*
 * For each CPU; written with its run queue locked. User space reads them without it, at each tick.
 * Mapped: then values begin at a page.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct past);
} pasts SEC(".maps");

/*
 * Adds a slice, which is not the newest, to the newest epoch. A function that is not static is
 * verified once (see charge_runner).
 */
__noinline int fold_slice(__u32 cpu, __u64 index)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);
	const struct slice *slice, *end;
	struct share *least;
	struct epoch *epoch;
	__u64 length, stolen, ran;

	if (!past)
		return 0;
	slice = &past->ring[index % PLACES];
	end = &past->ring[(index + 1) % PLACES];
	length = end->began.clock - slice->began.clock;
	stolen = end->began.stolen - slice->began.stolen;
	if (stolen > length)
		stolen = length;
	ran = length - stolen;
	epoch = &past->epochs[(past->epochs_count - 1) % EPOCHS];
	if (!past->epochs_count || slice->began.clock - epoch->began > epoch_ns) {
		epoch = &past->epochs[past->epochs_count % EPOCHS];
		epoch->began = slice->began.clock;
		epoch->used = 0;
		epoch->stolen = 0;
		epoch->interrupts = 0;
		past->epochs_count++;
	}
	epoch->stolen += stolen;
	epoch->interrupts += end->began.interrupts - slice->began.interrupts;
	least = &epoch->shares[0];
	for (__u32 i = 0; i < SHARES; i++) {
		struct share *share = &epoch->shares[i];

		if (i == epoch->used) {
			epoch->used = i + 1;
			share->runner = slice->runner;
			share->ns = ran;
			return 0;
		}
		if (share->runner == slice->runner) {
			share->ns += ran;
			return 0;
		}
		if (share->ns < least->ns)
			least = share;
	}
	/* No room: the least makes room for more. What no share has is unattributed. */
	if (least->ns < ran) {
		least->runner = slice->runner;
		least->ns = ran;
	}
	return 0;
}

/* The ring has the most that it may have: the oldest go. */
__noinline int fold_oldest(__u32 cpu)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);

	if (!past)
		return 0;
	for (__u32 i = 0; i < SLICES_FOLDED; i++)
		fold_slice(cpu, past->folded + i);
	past->folded += SLICES_FOLDED;
	return 0;
}

/* So much that the host or interrupts took from a runner is worth a slice of its own. */
#define TAKEN_NS (1 << 20)

/*
 * A runner gets the CPU now. Where it had it before, its slice goes on, unless the host or
 * interrupts took much time from it: that counts for the waits of that time alone. Where the kernel
 * accounts interrupts they take a little in nearly every slice, which is divided evenly.
 */
static __always_inline void begin_slice(struct past *past, __u32 cpu, runner runner,
					const struct moment *now)
{
	__u64 count = past->count;
	struct slice *slice;

	slice = &past->ring[(count - 1) % PLACES];
	if (count && slice->runner == runner && now->stolen - slice->began.stolen < TAKEN_NS)
		return;
	if (unlikely(count - past->folded >= SLICES + SLICES_FOLDED))
		fold_oldest(cpu);
	slice = &past->ring[count % PLACES];
	slice->runner = runner;
	slice->began = *now;
	past->count = count + 1;
}

#endif
