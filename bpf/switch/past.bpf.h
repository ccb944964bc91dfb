/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recent past of a CPU: the last slices one by one, and older time in epochs, each with a sum
 * per group. A wait of a second can therefore be divided among the groups that ran in it, however
 * often they alternated. (100,000 switches a second fill the ring of slices in 0.3 ms.)
 *
 * A wait may begin within an epoch. The epoch is divided in proportion, although other groups may
 * have run before the wait than during it. Epochs are therefore short, and older ones are merged
 * into long ones.
 */
#ifndef NOCTULE_PAST_BPF_H
#define NOCTULE_PAST_BPF_H

#include "abi.h"
#include "../include/abi.bpf.h"
#include "../include/task.bpf.h"
#include "moment.bpf.h"

enum {
	/* Number of slices kept one by one. Consecutive slices of one runner are merged. */
	SLICES = 32,
	/*
	 * Number of oldest slices that are folded into epochs at a time. Only the first of them
	 * then pays for loading the program and the epoch into the cache.
	 */
	SLICES_FOLDED = 8,
	/*
	 * Number of slots of the ring of slices, and of a ring of epochs. It is a power of two,
	 * because older verifiers cannot bound the remainder of other divisions.
	 */
	PLACES = 64,
	/* Number of epochs per level. */
	EPOCHS = 64,
	/* Number of runners per epoch. */
	SHARES = 6,
	/*
	 * Minimum length of an epoch. A full ring of long epochs covers at least 1.28 s, which is
	 * more than the default interval between snapshots.
	 */
	SHORT_EPOCH_NS = 2500000,
	LONG_EPOCH_NS = 20000000,
};

enum level {
	SHORT_EPOCHS,
	LONG_EPOCHS,
	LEVELS,
};

/* Ranks of scheduling classes. A higher class preempts a lower one immediately. */
enum rank {
	RANK_IDLE,
	RANK_FAIR,
	RANK_REALTIME,
	RANK_DEADLINE,
	RANK_BITS = 2,
};

/* A group and its rank while it ran, in one word. Group ids count up from 1 or down from -1. */
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
	/* Start of the slice. The slice ends where the next one begins. */
	struct moment began;
};

struct share {
	runner runner;
	__u64 ns;
};

/* The sum of several consecutive slices. */
struct epoch {
	/* Start of the first slice. The epoch ends where the next epoch begins. */
	__u64 began;
	__u64 used;
	__u64 stolen;
	__u64 interrupts;
	struct share shares[SHARES];
};

struct past {
	/* Number of slices so far. The newest slice has the index `count - 1`. */
	__u64 count;
	/* Number of slices that were folded into epochs. Later slices are in the ring. */
	__u64 folded;
	/* The running thread; 0 for the idle task. */
	__u32 pid;
	__u32 reserved;
	/*
	 * For each level, start of the epoch to which the newest slice will be added. That slice is
	 * still in the ring.
	 */
	__u64 newest[LEVELS];
	/*
	 * Number of epochs at each level. The short epochs end where the ring of slices begins, and
	 * the long epochs end where the short ones begin.
	 */
	__u64 epochs_count[LEVELS];
	__u64 padding;
	struct slice ring[PLACES];
	struct epoch epochs[LEVELS][EPOCHS];
};

_Static_assert(sizeof(struct past) % 64 == 0, "two CPUs share a cache line");

ABI_EXPORT(struct, past);
ABI_EXPORT(enum, rank);
ABI_EXPORT(enum, level);

/*
 * Records the epoch in which the thread starts to run. Called when its slice has begun. The
 * thread's own share of an epoch is its CPU time since its first slice in that epoch.
 */
static __always_inline void enter_epoch(struct past *past, struct task_struct *task,
					struct task_account *account)
{
	if (likely(account->epoch == (__u32)past->newest[SHORT_EPOCHS]))
		return;
	account->epoch = past->newest[SHORT_EPOCHS];
	for (int i = 0; i < LEVELS; i++) {
		struct entry *entry = &account->entries[i];

		if (entry->epoch == past->newest[i])
			continue;
		entry->epoch = past->newest[i];
		entry->ran = task->se.sum_exec_runtime;
	}
}

/*
 * One entry for each CPU, written with the CPU's run queue locked. User space reads without the
 * lock, at each tick. BPF_F_MMAPABLE aligns the values to a page.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct past);
} pasts SEC(".maps");

static __always_inline struct slice *newest_slice(struct past *past)
{
	return &past->ring[(past->count - 1) % PLACES];
}

static __always_inline struct epoch *newest_epoch(struct past *past, enum level level)
{
	return &past->epochs[level][(past->epochs_count[level] - 1) % EPOCHS];
}

/* Whether an epoch that began at `began` is long enough to end at `clock`. */
static __always_inline bool is_over(__u64 began, __u64 clock, enum level level)
{
	return clock - began > (level == LONG_EPOCHS ? LONG_EPOCH_NS : SHORT_EPOCH_NS);
}

static __always_inline void begin_epoch(struct past *past, enum level level, __u64 clock)
{
	struct epoch *epoch;

	past->epochs_count[level]++;
	epoch = newest_epoch(past, level);
	epoch->began = clock;
	epoch->used = 0;
	epoch->stolen = 0;
	epoch->interrupts = 0;
}

static __always_inline void add_share(struct epoch *epoch, runner runner, __u64 ns)
{
	struct share *least = &epoch->shares[0];

	for (__u32 i = 0; i < SHARES; i++) {
		struct share *share = &epoch->shares[i];

		if (i == epoch->used) {
			epoch->used = i + 1;
			share->runner = runner;
			share->ns = ns;
			return;
		}
		if (share->runner == runner) {
			share->ns += ns;
			return;
		}
		if (share->ns < least->ns)
			least = share;
	}
	/*
	 * There is no room: the smallest share is replaced if the new one is larger. The replaced
	 * time becomes unattributed.
	 */
	if (least->ns < ns) {
		least->runner = runner;
		least->ns = ns;
	}
}

/* A global function, which the verifier checks once (see charge_runner). */
__noinline int add_long_share(__u32 cpu, __u64 runner, __u64 ns)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);

	if (past)
		add_share(newest_epoch(past, LONG_EPOCHS), runner, ns);
	return 0;
}

/* Merges the oldest short epoch into the newest long one, to free its slot. */
__noinline int merge_oldest_epoch(__u32 cpu)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);
	const struct epoch *oldest;
	struct epoch *epoch;

	if (!past)
		return 0;
	oldest = &past->epochs[SHORT_EPOCHS][past->epochs_count[SHORT_EPOCHS] % EPOCHS];
	if (is_over(newest_epoch(past, LONG_EPOCHS)->began, oldest->began, LONG_EPOCHS))
		begin_epoch(past, LONG_EPOCHS, oldest->began);
	epoch = newest_epoch(past, LONG_EPOCHS);
	epoch->stolen += oldest->stolen;
	epoch->interrupts += oldest->interrupts;
	for (__u32 i = 0; i < SHARES && i < oldest->used; i++)
		add_long_share(cpu, oldest->shares[i].runner, oldest->shares[i].ns);
	return 0;
}

/* Adds a slice other than the newest one to the newest epoch. */
__noinline int add_slice_to_epoch(__u32 cpu, __u64 index)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);
	const struct slice *slice, *end;
	struct epoch *epoch;
	__u64 length, stolen;

	if (!past)
		return 0;
	slice = &past->ring[index % PLACES];
	end = &past->ring[(index + 1) % PLACES];
	length = end->began.clock - slice->began.clock;
	stolen = end->began.stolen - slice->began.stolen;
	if (stolen > length)
		stolen = length;
	if (is_over(newest_epoch(past, SHORT_EPOCHS)->began, slice->began.clock, SHORT_EPOCHS)) {
		merge_oldest_epoch(cpu);
		begin_epoch(past, SHORT_EPOCHS, slice->began.clock);
	}
	epoch = newest_epoch(past, SHORT_EPOCHS);
	epoch->stolen += stolen;
	epoch->interrupts += end->began.interrupts - slice->began.interrupts;
	add_share(epoch, slice->runner, length - stolen);
	return 0;
}

/* Folds the oldest slices when the ring is full. */
__noinline int merge_oldest_slices(__u32 cpu)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);

	if (!past)
		return 0;
	for (__u32 i = 0; i < SLICES_FOLDED; i++)
		add_slice_to_epoch(cpu, past->folded + i);
	past->folded += SLICES_FOLDED;
	return 0;
}

/*
 * Records that the newest slice starts an epoch. add_slice_to_epoch() later begins that epoch,
 * because it also decides by is_over().
 */
static __always_inline void note_epoch(struct past *past, __u64 clock)
{
	past->newest[SHORT_EPOCHS] = clock;
	if (is_over(past->newest[LONG_EPOCHS], clock, LONG_EPOCHS))
		past->newest[LONG_EPOCHS] = clock;
}

/* If interrupts or the host took at least this much time from a runner, a new slice begins. */
#define TAKEN_NS (1 << 20)

/*
 * Begins a slice. If the runner already had the CPU, its slice continues, unless interrupts or the
 * host took much time from it. A long interruption is thus charged only to the waits that it
 * overlaps. If the kernel accounts interrupt time, nearly every slice loses a little time to
 * interrupts. That time is spread evenly over the slice.
 */
static __always_inline void begin_slice(struct past *past, __u32 cpu, runner runner,
					const struct moment *now)
{
	struct slice *slice = newest_slice(past);
	__u64 count = past->count;

	if (count && slice->runner == runner && now->stolen - slice->began.stolen < TAKEN_NS)
		return;
	if (unlikely(count - past->folded >= SLICES + SLICES_FOLDED))
		merge_oldest_slices(cpu);
	slice = &past->ring[count % PLACES];
	slice->runner = runner;
	slice->began = *now;
	past->count = count + 1;
	if (unlikely(is_over(past->newest[SHORT_EPOCHS], now->clock, SHORT_EPOCHS)))
		note_epoch(past, now->clock);
}

/*
 * Like begin_slice(), for a switch that no program saw. This is a global function, which the
 * verifier checks once (see charge_runner).
 */
__noinline int begin_unseen_slice(__u32 cpu, runner runner, __u64 clock, __u64 stolen,
				  __u64 interrupts)
{
	const struct moment then = {
		.clock = clock,
		.stolen = stolen,
		.interrupts = interrupts,
	};
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);

	if (past)
		begin_slice(past, cpu, runner, &then);
	return 0;
}

#endif
