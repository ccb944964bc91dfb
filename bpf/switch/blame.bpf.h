/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: the culprits of waits. When a wait ends, noctule divides the wait and charges each group
 * for the time for which it had the CPU. Interrupt and steal time is charged separately, because it
 * was taken from that group.
 */
#ifndef NOCTULE_BLAME_BPF_H
#define NOCTULE_BLAME_BPF_H

#include "past.bpf.h"

enum {
	/* The shares of a wait, in the order of their counters. */
	PART_THROTTLE = 0,
	PART_INTERRUPT = COUNTER_WAIT_INTERRUPT - COUNTER_WAIT_THROTTLE,
	PART_HOST = COUNTER_WAIT_HOST - COUNTER_WAIT_THROTTLE,
	PART_UNATTRIBUTED = COUNTER_WAIT_UNATTRIBUTED - COUNTER_WAIT_THROTTLE,
};

/* A wait, and the parts into which it is divided. */
struct division {
	/* The group that waited, and the start and end of the wait by the CPU's clock. */
	__u64 victim;
	__u64 from;
	struct moment to;
	__u32 cpu;
	/*
	 * Ranks that had the CPU only because the victim had used up its budget: from `held_from`
	 * up to, but not including, `held_below`. The victim has a higher rank.
	 */
	__u16 held_from;
	__u16 held_below;
	__u64 parts[WAIT_CAUSES];
	/* Time that the victim waited behind neighbours for which `blames` had no room. */
	__u64 unnamed;
	/* The group that is charged while the waiting thread itself runs. */
	__u64 runs_as;
	/*
	 * CPU time of the thread itself in its last epochs, before the wait. It is excluded,
	 * because a thread does not wait for itself.
	 */
	struct entry own[LEVELS];
	__u64 reserved[4];
};

_Static_assert(sizeof(struct division) % 64 == 0, "two CPUs share a cache line");

/* One slot for each CPU, and for each of enum division_place. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* DIVISIONS_ELSEWHERE plus possible CPUs, set at load */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct division);
} divisions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* set at load */
	__type(key, struct blame_key);
	__type(value, struct blame);
} blames SEC(".maps");

/*
 * Rows by number. A thread caches the number of its group's row, so that a wait needs no hash
 * lookup. Row 0 is the overflow row.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); /* set at load */
	__type(key, __u32);
	__type(value, struct wait_row);
} waits SEC(".maps");

/* Row number of each group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u64);
	__type(value, __u32);
} wait_rows SEC(".maps");

/* The highest row number. */
const volatile __u32 last_wait_row = 0;

/* Rows up to this number have been used. Rows with higher numbers are free. */
__u32 used_wait_rows;

/* Numbers of rows that user space has released for reuse. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1); /* set at load */
	__type(value, __u32);
} free_rows SEC(".maps");

/*
 * `blames` was full at the last insertion. No program tries again until user space has removed
 * rows, because a failing insertion searches the free lists of all CPUs.
 */
__u32 blames_full;

static const struct blame no_blame;

/* Returns the group to which waits of the thread are charged. */
static __always_inline __u64 victim_of(struct task_account *account)
{
	return account->followed ? GROUP_FOLLOWED : account->cgroup;
}

/*
 * Not inlined, because clang would merge its loads with loads of an account, which the verifier
 * rejects.
 */
static __noinline __u64 group_without_account(struct task_struct *task)
{
	return cgroup_of(task);
}

/* The code avoids branches, because each branch doubles the states of the verifier. */
static __always_inline enum rank rank_of_prio(int prio)
{
	return RANK_FAIR + ((__u32)(prio - MAX_RT_PRIO) >> 31) + ((__u32)prio >> 31);
}

static __always_inline enum rank task_rank(struct task_struct *task)
{
	return rank_of_prio(task->prio);
}

/* Returns the group of the thread. `account` can be NULL. */
static __always_inline __u64 group_of_thread(struct task_struct *task, struct task_account *account)
{
	return likely(account) ? victim_of(account) : group_without_account(task);
}

/* Returns the runner while this thread, of this group, has the CPU. */
static __always_inline runner runner_of(struct task_struct *task, __u64 group)
{
	if (task->flags & PF_KTHREAD && group == CGROUP_ROOT_ID)
		group = (__u64)GROUP_KERNEL;
	return make_runner(group, task_rank(task));
}

/*
 * Returns the number of a free row, or 0. Without atomic operations two CPUs could take the same
 * number. In that case user space puts all numbers into `free_rows` before it attaches anything.
 */
static __always_inline __u32 take_free_row(void)
{
	__u32 number;

	if (!bpf_map_pop_elem(&free_rows, &number))
		return number;
	if (!has_task_storage || used_wait_rows >= last_wait_row)
		return 0;
	number = fetch_and_add(&used_wait_rows, 1) + 1;
	return number <= last_wait_row ? number : 0;
}

/*
 * Returns the number of the group's row and creates it if needed. Returns 0 if the table is full.
 */
static __always_inline __u32 row_number(__u64 group)
{
	__u32 *known = bpf_map_lookup_elem(&wait_rows, &group);
	struct wait_row *row;
	__u32 number;

	if (known)
		return *known;
	number = take_free_row();
	row = bpf_map_lookup_elem(&waits, &number);
	if (!number || !row)
		return 0;
	row->group = group;
	if (!bpf_map_update_elem(&wait_rows, &group, &number, BPF_NOEXIST))
		return number;
	/* Another CPU inserted its row first. */
	row->group = 0;
	bpf_map_push_elem(&free_rows, &number, BPF_ANY);
	known = bpf_map_lookup_elem(&wait_rows, &group);
	return known ? *known : 0;
}

/*
 * Returns the row of the group in which the thread waits. It is never NULL, but the verifier
 * requires the check.
 */
static __always_inline struct wait_row *wait_row(struct task_account *account, __u64 victim)
{
	struct wait_row *row = bpf_map_lookup_elem(&waits, &account->wait_row);

	/* The thread has moved to another group, or has never waited. */
	if (!row || unlikely(row->group != victim)) {
		account->wait_row = row_number(victim);
		if (!account->wait_row)
			count_loss(LOSS_WAIT_ROW);
		row = bpf_map_lookup_elem(&waits, &account->wait_row);
	}
	return row;
}

/* Returns NULL if the table is full. */
static __always_inline struct blame *blame_row(__u64 victim, __u64 culprit)
{
	struct blame_key key = {.victim = victim, .culprit = culprit};
	struct blame *row = bpf_map_lookup_elem(&blames, &key);

	if (row || blames_full)
		return row;
	row = lookup_or_init(&blames, &key, &no_blame);
	if (!row)
		blames_full = 1;
	return row;
}

/* Returns the counter for a wait while `culprit` has the CPU. */
static __always_inline enum counter wait_counter(__u64 victim, __u64 culprit)
{
	if (culprit == victim)
		return COUNTER_WAIT_SELF;
	if (culprit == GROUP_IDLE)
		return COUNTER_WAIT_IDLE;
	if (culprit == (__u64)GROUP_KERNEL)
		return COUNTER_WAIT_KERNEL;
	return COUNTER_WAIT_NEIGHBOUR;
}

/* Returns `value` * `part` / `whole`. `value` is at most `whole`. */
static __always_inline __u64 portion(__u64 value, __u64 part, __u64 whole)
{
	__u32 bit = highest_bit(whole | 1);
	/* Keeps the product below 2^64. The shift is 0 if none is needed; there is no branch. */
	__u32 shift = (bit >> 5) * (bit - 31);

	/* A division by 0 is safe in BPF: the result is 0. */
	return (value >> shift) * (part >> shift) / (whole >> shift) << shift;
}

/*
 * Charges `ns` of a wait during which `runner` had the CPU. This is a global function, which the
 * verifier checks once instead of at each call. Before v5.12 (e5069b9c23b3) such a function takes
 * only integers. User space cannot patch it for 5.10.
 */
__noinline int charge_runner(__u32 number, runner runner, __u64 ns)
{
	struct division *it = bpf_map_lookup_elem(&divisions, &number);
	__u64 culprit = group_of(runner);
	enum counter counter;
	struct blame *row;
	__u32 part;

	if (!it)
		return 0;
	if (rank_of(runner) >= it->held_from && rank_of(runner) < it->held_below) {
		it->parts[PART_THROTTLE] += ns;
		return 0;
	}
	counter = wait_counter(it->victim, culprit);
	part = counter - COUNTER_WAIT_THROTTLE;
	if (part < WAIT_CAUSES)
		it->parts[part] += ns;
	if (counter != COUNTER_WAIT_NEIGHBOUR)
		return 0;
	row = blame_row(it->victim, culprit);
	if (row)
		__atomic_fetch_add(&row->wait_ns, ns, __ATOMIC_RELAXED);
	else
		it->unnamed += ns;
	return 0;
}

static __always_inline void charge_stolen(struct division *it, __u64 stolen, __u64 interrupts)
{
	it->parts[PART_INTERRUPT] += interrupts;
	it->parts[PART_HOST] += stolen - interrupts;
}

/* Time taken from a runner. */
struct taken {
	/* Time taken by interrupts and the host together, and time taken by interrupts. */
	__u64 stolen;
	__u64 interrupts;
};

/*
 * Returns the time taken, up to `to`, from the last `part` ns of a slice. The slice is `length` ns
 * long at `to`.
 */
static __always_inline struct taken taken_from(const struct slice *slice, const struct moment *to,
					       __u64 part, __u64 length)
{
	struct taken taken = {
		.stolen = to->stolen - slice->began.stolen,
		.interrupts = to->interrupts - slice->began.interrupts,
	};

	if (taken.stolen > length)
		taken.stolen = length;
	if (taken.interrupts > taken.stolen)
		taken.interrupts = taken.stolen;
	if (part < length) {
		taken.stolen = portion(taken.stolen, part, length);
		taken.interrupts = portion(taken.interrupts, part, length);
	}
	return taken;
}

/*
 * Charges the time for which a wait overlaps a slice, then moves the end of the wait to the start
 * of the slice.
 */
__noinline int charge_slice(__u32 number, __u64 index)
{
	struct division *it = bpf_map_lookup_elem(&divisions, &number);
	const struct slice *slice;
	__u64 length, part;
	struct taken taken;
	struct past *past;
	__u32 cpu;

	if (!it)
		return 0;
	cpu = it->cpu;
	past = bpf_map_lookup_elem(&pasts, &cpu);
	if (!past)
		return 0;
	slice = &past->ring[index % PLACES];
	length = it->to.clock - slice->began.clock;
	part = it->to.clock - it->from;
	/*
	 * The slice began after the wait ended, according to a clock that was read slightly
	 * earlier.
	 */
	if ((__s64)length <= 0)
		return 0;
	if (part > length)
		part = length;
	taken = taken_from(slice, &it->to, part, length);
	charge_stolen(it, taken.stolen, taken.interrupts);
	charge_runner(number, slice->runner, part - taken.stolen);
	it->to = slice->began;
	return 0;
}

/*
 * Charges the time for which a wait overlaps an epoch, which ended at `to`. Returns the start of
 * that time. The wait may have begun within the epoch, after the thread itself had run in it. The
 * time of the overlap is divided in proportion to how long the other groups ran.
 */
__noinline __u64 charge_epoch(__u32 number, __u32 level, __u64 index, __u64 to)
{
	struct division *it = bpf_map_lookup_elem(&divisions, &number);
	__u64 length, part, shared, rest, ran, own, stolen, interrupts;
	const struct epoch *epoch;
	const struct entry *entry;
	struct past *past;
	__u32 cpu;

	if (!it)
		return to;
	cpu = it->cpu;
	past = bpf_map_lookup_elem(&pasts, &cpu);
	if (!past)
		return to;
	/* Older verifiers lose the bounds of a spilled index, but keep the bounds of a pointer. */
	epoch = &past->epochs[level % LEVELS][index % EPOCHS];
	barrier_var(epoch);
	entry = &it->own[level % LEVELS];
	barrier_var(entry);
	length = to - epoch->began;
	part = to - it->from;
	if ((__s64)length <= 0)
		return to;
	if (part > length)
		part = length;
	stolen = portion(epoch->stolen, part, length);
	interrupts = portion(epoch->interrupts, part, length);
	if (stolen > part)
		stolen = part;
	if (interrupts > stolen)
		interrupts = stolen;
	charge_stolen(it, stolen, interrupts);
	shared = part - stolen;
	own = entry->epoch == epoch->began ? entry->ran : 0;
	ran = length - epoch->stolen - own;
	if ((__s64)ran < (__s64)shared)
		ran = shared;
	rest = shared;
	for (__u32 i = 0; i < SHARES && i < epoch->used; i++) {
		__u64 ns = epoch->shares[i].ns;

		if (own && group_of(epoch->shares[i].runner) == it->runs_as) {
			__u64 others = ns > own ? ns - own : 0;

			own -= ns - others;
			ns = others;
		}
		ns = portion(ns < ran ? ns : ran, shared, ran);
		if (ns > rest)
			ns = rest;
		charge_runner(number, epoch->shares[i].runner, ns);
		rest -= ns;
	}
	/* The time of groups that did not fit into the epoch, and the rounding error. */
	it->parts[PART_UNATTRIBUTED] += rest;
	return to - part;
}

/*
 * Charges the time for which a wait overlaps the epochs of a level, up to `to`. Returns the start
 * of that time.
 */
static __always_inline __u64 charge_epochs(__u32 number, const struct division *it,
					   const struct past *past, enum level level, __u64 to)
{
	__u64 count = past->epochs_count[level];

	for (__u32 i = 1; i <= EPOCHS && i <= count && it->from < to; i++)
		to = charge_epoch(number, level, count - i, to);
	return to;
}

/*
 * Divides a wait among the runners that had the CPU. This is a global function, which the verifier
 * checks once instead of at each call. Inlined, it caused 90% of the verifier's work. Such a
 * function takes only integers, and user space cannot patch it for 5.10.
 *
 * The function is also called for a wait in progress, while the CPU continues to switch. The newest
 * epoch can then get slices that were already charged one by one, or that began after the end of
 * the wait. Such slices also get a share of the wait. The shares still add up to the wait.
 */
__noinline int divide(__u32 number)
{
	struct division *it = bpf_map_lookup_elem(&divisions, &number);
	__u64 to, count, slices;
	struct past *past;
	__u32 cpu;

	if (!it)
		return 0;
	cpu = it->cpu;
	past = bpf_map_lookup_elem(&pasts, &cpu);
	if (!past)
		return 0;
	count = past->count;
	slices = count - past->folded;
	for (__u32 i = 1; i <= SLICES + SLICES_FOLDED && i <= slices && it->from < it->to.clock;
	     i++)
		charge_slice(number, count - i);
	to = it->to.clock;
	to = charge_epochs(number, it, past, SHORT_EPOCHS, to);
	to = charge_epochs(number, it, past, LONG_EPOCHS, to);
	if (it->from < to)
		it->parts[PART_UNATTRIBUTED] += to - it->from;
	return 0;
}

/* The culprit did not fit into `blames`, so the row of the victim counts it. */
static __always_inline void blame_unnamed(struct wait_row *own, __u64 ns)
{
	__sync_fetch_and_add(&own->unnamed.wait_ns, ns);
	count_loss(LOSS_BLAME_ROW);
}

/* Counts a preemption of the thread of `account` by `culprit`. */
static __always_inline void count_preemption(struct task_account *account, __u64 culprit)
{
	__u64 victim = victim_of(account);
	struct wait_row *own;
	struct blame *row;

	if (culprit == victim) {
		account->total.v[COUNTER_PREEMPTED_SELF]++;
	} else if (culprit == (__u64)GROUP_KERNEL || culprit == GROUP_IDLE) {
		/*
		 * The CPU is idle: the thread was preempted to migrate, or its core is reserved by
		 * core scheduling.
		 */
		account->total.v[COUNTER_PREEMPTED_KERNEL]++;
	} else {
		account->total.v[COUNTER_PREEMPTED_NEIGHBOUR]++;
		row = blame_row(victim, culprit);
		if (row) {
			__sync_fetch_and_add(&row->preemptions, 1);
			return;
		}
		own = wait_row(account, victim);
		if (own)
			__sync_fetch_and_add(&own->unnamed.preemptions, 1);
		count_loss(LOSS_BLAME_ROW);
	}
}

#endif
