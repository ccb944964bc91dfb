/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: who made a thread wait. Each CPU remembers which groups ran on it last; when a wait
 * ends, each part of it is charged to the group that had the CPU then.
 */
#ifndef NOCTULE_BLAME_BPF_H
#define NOCTULE_BLAME_BPF_H

#include "abi.h"

enum {
	/* Slices that a CPU remembers; neighbours of one group count as one. */
	SLICES = 32,
	/* Into which a wait is divided: COUNTER_WAIT_NEIGHBOUR and those after it. */
	WAIT_PARTS = COUNTER_WAIT_UNATTRIBUTED - COUNTER_WAIT_NEIGHBOUR + 1,
};

struct slice {
	__u64 group;
	/* By the scheduler's clock. It ends where the next begins. */
	__u64 start;
};

/* The last slices of a CPU. Written and read with its run queue locked. */
struct slices {
	/* How many there were; the newest is at `count - 1`. */
	__u64 count;
	/* When the first began. */
	__u64 first;
	/* The thread that runs; 0 is the idle task. */
	__u32 pid;
	__u32 reserved;
	/* What divide() has found last. */
	__u64 parts[WAIT_PARTS];
	__u64 padding[6];
	struct slice ring[SLICES];
};

_Static_assert(sizeof(struct slices) % 64 == 0, "two CPUs share a cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct slices);
} slices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* set at load */
	__type(key, struct blame_key);
	__type(value, struct blame);
} blames SEC(".maps");

/*
 * Rows by number: a thread remembers that of its group, so that a wait costs no look-up in a hash.
 * Row 0 is for the groups that found none, together.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); /* set at load */
	__type(key, __u32);
	__type(value, struct wait_row);
} waits SEC(".maps");

/* The number of each group's row. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u64);
	__type(value, __u32);
} wait_rows SEC(".maps");

/* Numbers of rows that are free. Filled at load, and when user space takes a row out. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1); /* set at load */
	__type(value, __u32);
} free_rows SEC(".maps");

/*
 * `blames` was full when it was last tried: until user space has taken rows out nobody tries again,
 * because that fails only after a search of the free lists of all CPUs.
 */
__u32 blames_full;

static const struct blame no_blame;

/* The group whose figures a wait of the thread is in. */
static __always_inline __u64 victim_of(struct task_account *account)
{
	return account->followed ? GROUP_FOLLOWED : account->cgroup;
}

/* Not inlined: clang merges its loads with those of an account, which the verifier refuses. */
static __noinline __u64 group_without_account(struct task_struct *task)
{
	return cgroup_of(task);
}

/* The group that has the CPU while the thread runs; `account` can be NULL. */
static __always_inline __u64 culprit_of(struct task_struct *task, struct task_account *account)
{
	__u64 group = account ? victim_of(account) : group_without_account(task);

	return task->flags & PF_KTHREAD && group == CGROUP_ROOT_ID ? (__u64)GROUP_KERNEL : group;
}

/* The number of the group's row, made when there is none; 0 when there is no room. */
static __always_inline __u32 row_number(__u64 group)
{
	__u32 *known = bpf_map_lookup_elem(&wait_rows, &group);
	struct wait_row *row;
	__u32 number;

	if (known)
		return *known;
	if (bpf_map_pop_elem(&free_rows, &number))
		return 0;
	row = bpf_map_lookup_elem(&waits, &number);
	if (!row)
		return 0;
	row->group = group;
	if (!bpf_map_update_elem(&wait_rows, &group, &number, BPF_NOEXIST))
		return number;
	/* Another CPU was first. */
	row->group = 0;
	bpf_map_push_elem(&free_rows, &number, BPF_ANY);
	known = bpf_map_lookup_elem(&wait_rows, &group);
	return known ? *known : 0;
}

/* The row of the group in which the thread waits; NULL never, but the verifier wants to be told. */
static __always_inline struct wait_row *wait_row(struct task_account *account, __u64 victim)
{
	struct wait_row *row = bpf_map_lookup_elem(&waits, &account->wait_row);

	/* It was moved since, or has not waited yet. */
	if (!row || row->group != victim) {
		account->wait_row = row_number(victim);
		if (!account->wait_row)
			count_loss(LOSS_WAIT_ROW);
		row = bpf_map_lookup_elem(&waits, &account->wait_row);
	}
	return row;
}

/* NULL: there is no room. */
static __always_inline struct blame *blame_row(__u64 victim, __u64 culprit)
{
	struct blame_key key = {.victim = victim, .culprit = culprit};
	struct blame *row = bpf_map_lookup_elem(&blames, &key);

	if (row || blames_full)
		return row;
	bpf_map_update_elem(&blames, &key, &no_blame, BPF_NOEXIST);
	row = bpf_map_lookup_elem(&blames, &key);
	if (!row)
		blames_full = 1;
	return row;
}

/* Where a wait counts while `culprit` has the CPU. */
static __always_inline enum counter wait_counter(__u64 victim, __u64 culprit)
{
	if (culprit == victim)
		return COUNTER_WAIT_SELF;
	if (culprit == GROUP_IDLE)
		return COUNTER_WAIT_IDLE;
	if (culprit == (__u64)GROUP_KERNEL)
		return COUNTER_WAIT_SYSTEM;
	return COUNTER_WAIT_NEIGHBOUR;
}

/*
 * Divides the time from `from` to `to` among the groups that had the CPU then, and gives back the
 * part of which the culprit has no row. A function that is not static is verified once, and not in
 * each state in which it is called: inlined, it made up nine tenths of what the kernel has to
 * verify. Such a function takes numbers only, and user space cannot adapt it for 5.10.
 */
__noinline __u64 divide(__u32 number, __u64 victim, __u64 from, __u64 to)
{
	struct slices *cpu = bpf_map_lookup_elem(&slices, &number);
	__u64 count, unnamed = 0;

	if (!cpu)
		return 0;
	count = cpu->count;
	__builtin_memset(cpu->parts, 0, sizeof(cpu->parts));
	for (__u32 i = 1; i <= SLICES && i <= count && from < to; i++) {
		struct slice *slice = &cpu->ring[(count - i) % SLICES];
		__u64 start = slice->start > from ? slice->start : from;
		enum counter counter;
		struct blame *row;

		if (start >= to)
			continue;
		counter = wait_counter(victim, slice->group);
		cpu->parts[counter - COUNTER_WAIT_NEIGHBOUR] += to - start;
		if (counter == COUNTER_WAIT_NEIGHBOUR) {
			row = blame_row(victim, slice->group);
			if (row)
				__atomic_fetch_add(&row->wait_ns, to - start, __ATOMIC_RELAXED);
			else
				unnamed += to - start;
		}
		to = start;
	}
	if (from < to)
		cpu->parts[COUNTER_WAIT_UNATTRIBUTED - COUNTER_WAIT_NEIGHBOUR] = to - from;
	return unnamed;
}

/* There was no room for the culprit: the row of the victim has it. */
static __always_inline void blame_unnamed(struct task_account *account, __u64 victim, __u64 ns)
{
	struct wait_row *own = wait_row(account, victim);

	if (own)
		__sync_fetch_and_add(&own->unnamed.wait_ns, ns);
	count_loss(LOSS_BLAME_ROW);
}

/* Charges a wait during which one group had the CPU. */
static __always_inline void blame_one(struct task_account *account, __u64 victim, __u64 culprit,
				      __u64 ns)
{
	enum counter counter = wait_counter(victim, culprit);
	struct blame *row;

	account->total.v[counter] += ns;
	if (counter != COUNTER_WAIT_NEIGHBOUR)
		return;
	row = blame_row(victim, culprit);
	if (row)
		__sync_fetch_and_add(&row->wait_ns, ns);
	else
		blame_unnamed(account, victim, ns);
}

/* Charges the time from `from` to `to` to the groups that had the CPU then. */
static __always_inline void blame_slices(struct task_account *account, struct slices *cpu,
					 __u32 number, __u64 from, __u64 to)
{
	struct slice *newest = &cpu->ring[(cpu->count - 1) % SLICES];
	__u64 victim = victim_of(account);
	__u64 unnamed;

	if (from >= to)
		return;
	if (cpu->count && newest->start <= from) {
		blame_one(account, victim, newest->group, to - from);
		return;
	}
	unnamed = divide(number, victim, from, to);
	for (int i = 0; i < WAIT_PARTS; i++)
		account->total.v[COUNTER_WAIT_NEIGHBOUR + i] += cpu->parts[i];
	if (unnamed)
		blame_unnamed(account, victim, unnamed);
}

/* Whoever gets the CPU now. */
static __always_inline void begin_slice(struct slices *cpu, __u64 group, __u64 clock)
{
	__u64 count = cpu->count;
	struct slice *slice;

	if (!count)
		cpu->first = clock;
	else if (cpu->ring[(count - 1) % SLICES].group == group)
		return;
	slice = &cpu->ring[count % SLICES];
	slice->group = group;
	slice->start = clock;
	cpu->count = count + 1;
}

/* `account` lost the CPU to `culprit` although it wanted to go on. */
static __always_inline void count_preemption(struct task_account *account, __u64 culprit)
{
	__u64 victim = victim_of(account);
	struct wait_row *own;
	struct blame *row;

	if (culprit == victim) {
		account->total.v[COUNTER_PREEMPTED_SELF]++;
	} else if (culprit == (__u64)GROUP_KERNEL || culprit == GROUP_IDLE) {
		/* Idle: it is taken to another CPU, or its core is kept from it. */
		account->total.v[COUNTER_PREEMPTED_SYSTEM]++;
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
