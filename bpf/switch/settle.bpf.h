/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Settling: when a thread ends or changes its cgroup, its counters are added to the row of that
 * cgroup and to its process, so that both sums stay closed. Between settlements a switch touches
 * nothing that is shared.
 */
#ifndef NOCTULE_SETTLE_BPF_H
#define NOCTULE_SETTLE_BPF_H

#include "../include/row.bpf.h"
#include "abi.h"
#include "blocked.bpf.h"
#include "exits.bpf.h"
#include "listed.bpf.h"
#include "place.bpf.h"
#include "slice.bpf.h"
#include "wait.bpf.h"

/* Sums of the threads that ended in each cgroup or left it, by package. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__type(key, struct settled_key);
	__type(value, struct settled_sums);
} settled SEC(".maps");

/*
 * A process, which keeps both when another thread than the leader calls exec and takes its place,
 * on a package.
 */
struct process_key {
	__u32 tgid;
	__u32 package;
	__u64 start;
};

/*
 * Carried sums of each process: of its ended threads, and of its threads in earlier cgroups. Not
 * kept with the leader, which such an exec can free before the process ends. The name and parent
 * are kept too: user space makes the last record of a process whose end no program has seen.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* set at load */
	__type(key, struct process_key);
	__type(value, struct task_sample);
} carried SEC(".maps");

/* Sums were carried since user space last cleared this. */
__u32 carried_unread;

/* The cgroups for which `settled` had no room, together. */
struct counters overflow;

/* Followed processes that were started, and whose end was reported. */
__u64 followed_started;
__u64 followed_reported;

/*
 * Scratch space for a record, which is too large for the stack. There is one walk at a time, one
 * move between cgroups at a time, and one switch at a time on each CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* SCRATCHES and possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct task_sample);
} scratches SEC(".maps");

static const struct counters nothing;
static const struct settled_sums nothing_settled;
static const struct task_sample no_sample;

static __always_inline void add(struct counters *to, const struct counters *what)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
		__sync_fetch_and_add(&to->v[i], what->v[i]);
}

/*
 * Notes how much of what was added to a row came after the moment of the snapshot. Several CPUs can
 * be the first in a snapshot: one of them takes out what is there from the snapshot before.
 */
#define note_later_in(row, ns, at)                                            \
	({                                                                    \
		__u64 stale_ = (row)->later_ns;                               \
		if (exchange(&(row)->later_than, (__u32)(at)) != (__u32)(at)) \
			__sync_fetch_and_add(&(row)->later_ns, -stale_);      \
		__sync_fetch_and_add(&(row)->later_ns, ns);                   \
	})

/* The counters of the thread since it was created. */
static __always_inline void used_so_far(struct task_struct *task, struct task_account *account,
					struct cpu_slot *slot, struct counters *c)
{
	__builtin_memcpy(c, &account->total, sizeof(account->total));
	__builtin_memset(&c->v[COUNTER_BLOCKED], 0, sizeof(account->blocked));
	add_open_softirqs(slot, c);
	kernel_counters(task, c);
	/* The kernel counts those that a quota took the CPU from as preempted. */
	c->v[COUNTER_SWITCHES_PREEMPTED] -= c->v[COUNTER_SWITCHES_THROTTLED];
	/* Not each of them: one that was about to sleep, and has a signal, counts as voluntary. */
	if ((__s64)(c->v[COUNTER_SWITCHES_PREEMPTED] -
		    account->base.v[COUNTER_SWITCHES_PREEMPTED]) < 0)
		c->v[COUNTER_SWITCHES_PREEMPTED] = account->base.v[COUNTER_SWITCHES_PREEMPTED];
	c->v[COUNTER_CPU_TIME] = cpu_time(task, slot, sample_at);
}

/*
 * Subtracts the use after the moment of the snapshot. The result can be below 0: the account is
 * younger than the moment, or was settled since; or the time includes interrupts and steal, which
 * the kernel charges to nobody. User space reads a value below 0 as 0.
 */
static __always_inline void without_later(struct task_account *account, struct counters *c,
					  __u64 at)
{
	if (account->later_than != at)
		return;
	for (int i = 0; i < COUNTERS_OF_SLICES; i++)
		c->v[i] -= account->later[i];
}

/*
 * Takes the counters since the last settlement, up to the moment of the snapshot, to be written
 * now. A part that another CPU settles meanwhile is in the rows of that CPU, and not here.
 */
static __always_inline void take_unsettled(struct task_struct *task, struct task_account *account,
					   struct cpu_slot *slot, struct counters *c)
{
	used_so_far(task, account, slot, c);
	without_later(account, c, sample_at);
	/* As a loop it is laid out such that kernels before v6.2 take it for one without an end. */
#pragma clang loop unroll(full)
	for (int i = 0; i < COUNTER_TOTALS; i++) {
		__u64 *base = &account->base.v[i];
		__u64 before = *(volatile __u64 *)base, now = c->v[i];

		c->v[i] = 0;
		if ((__s64)(now - before) > 0 && compare_and_swap(base, before, now) == before)
			c->v[i] = now - before;
	}
	take_blocked(account, c, sample_at);
}

static __always_inline struct process_key process_of(struct task_struct *task,
						     struct task_account *account)
{
	struct process_key key = {
		.tgid = task->tgid,
		.package = package_of(task, account),
		.start = account->process_start,
	};

	return key;
}

/* NULL where there is no room. */
static __always_inline struct settled_sums *settled_row(__u64 cgroup, __u32 package)
{
	struct settled_key key = {.cgroup = cgroup, .package = package};
	struct settled_sums *row = lookup_or_init(&settled, &key, &nothing_settled);

	if (!row)
		count_loss(LOSS_CGROUP_ROW);
	return row;
}

static __always_inline void describe(struct task_sample *sample, struct task_struct *task,
				     struct task_account *account)
{
	sample->pid = task->pid;
	sample->tgid = task->tgid;
	sample->process_start = account->process_start;
	sample->cgroup = account->cgroup;
	sample->parent = to_be_read(task)->real_parent->tgid;
	sample->flags = task->pid == task->tgid ? SAMPLE_LEADER : 0;
	/* Without branches, each of which doubles the states of the verifier. */
	sample->flags |= !!(task->flags & PF_KTHREAD) * SAMPLE_KERNEL;
	sample->flags |= account->followed * SAMPLE_FOLLOWED;
	sample->cpu = 0;
	sample->later_than = 0;
	sample->listed = 0;
	sample->later_ns = 0;
	sample->package = package_of(task, account);
	sample->waiting_ns = 0;
	sample->block = 0;
	bpf_probe_read_kernel(sample->comm, sizeof(sample->comm), task->comm);
}

/* The carried sums of the process of the thread; NULL where there is no room. */
static __always_inline struct task_sample *carried_row(struct task_struct *task,
						       struct task_account *account)
{
	struct process_key key = process_of(task, account);
	struct task_sample *row = bpf_map_lookup_elem(&carried, &key);
	struct task_struct *leader;

	if (row)
		return row;
	/* 0: the thread was first seen after it was reaped, and its process is unknown. */
	if (key.start)
		row = lookup_or_init(&carried, &key, &no_sample);
	if (!row) {
		count_loss(LOSS_PROCESS_ROW);
		return NULL;
	}
	leader = leader_to_be_read(task);
	describe(row, leader ?: task, account);
	return row;
}

/*
 * The row is read with any thread of the process. After this thread ends none may run for long,
 * and its pointer to the leader is gone: so the leader is listed by the number of the process.
 */
static __always_inline void carry(struct task_struct *task, struct task_account *account,
				  const struct counters *used, __u64 later_ns, __u64 at)
{
	struct task_sample *row = carried_row(task, account);

	if (!row)
		return;
	add(&row->counters, used);
	if (later_ns)
		note_later_in(row, later_ns, at);
	*(volatile __u32 *)&carried_unread = 1;
	if (lists_threads && list_has_room() && !exchange(&row->listed, 1))
		list_number(task->tgid);
}

/*
 * The thread is settled while a snapshot is taken that has not read it: its counters are missing
 * among the threads, and perhaps in the row of its cgroup, because the rows are read one after the
 * other. Without this record the next snapshot has them, so it leaves room in the ring for records
 * that cannot be had later.
 */
static __always_inline void report_late(struct task_struct *task, struct task_account *account,
					const struct counters *used, __u64 cgroup, __u64 row_before,
					__u64 at)
{
	struct process_key key = process_of(task, account);
	struct task_sample *process;
	struct late_settle *late;

	if (bpf_ringbuf_query(&exits, BPF_RB_AVAIL_DATA) > exits_wakeup_bytes)
		return;
	late = bpf_ringbuf_reserve(&exits, sizeof(*late), 0);
	if (!late)
		return;
	describe(&late->sample, task, account);
	late->sample.cgroup = cgroup;
	late->sample.flags |= SAMPLE_LATE;
	__builtin_memcpy(&late->sample.counters, used, sizeof(*used));
	without_later(account, &late->sample.counters, at);
	late->at = at;
	late->row_before = row_before;
	process = bpf_map_lookup_elem(&carried, &key);
	late->process_before = process ? process->counters.v[COUNTER_CPU_TIME] : 0;
	bpf_ringbuf_submit(late, BPF_RB_NO_WAKEUP);
}

/*
 * The thread is moved, perhaps while it runs: adds what it has used until now and the kernel has
 * not counted yet. The kernel counts it at the move only where the cpu controller tells the two
 * groups apart. After a tick since the caller has read what is counted, less than a tick is missing
 * here, and the new group has it. Not inlined: the branches would multiply those of the caller.
 */
static __noinline void add_running(struct task_struct *task, struct counters *used)
{
	struct cpu_slot *slot = running_slot(task);

	if (!slot)
		return;
	add_open_softirqs(slot, used);
	used->v[COUNTER_CPU_TIME] += unaccounted(task, slot, NOW);
}

/*
 * Settles the thread with its cgroup. `used` becomes its counters since the last settlement, with
 * its wait that has not ended (`open`; NULL: it does not wait). Two CPUs can settle one thread at
 * once, when it ends while it is moved: each exchange takes the part that is left, so that the
 * parts add up to the whole in either order. The value is how much of its CPU time in `used` came
 * after the moment of the snapshot.
 */
static __always_inline __u64 settle(struct task_struct *task, struct task_account *account,
				    struct counters *used, const struct division *open, __u64 at)
{
	__u64 cgroup = account->cgroup, later_ns = 0;
	struct settled_sums *sums;
	struct counters *row;
	__u64 before;

	used_so_far(task, account, NULL, used);
	if (open)
		add_running(task, used);
	for (int i = 0; i < COUNTER_TOTALS; i++)
		used->v[i] -= exchange(&account->base.v[i], used->v[i]);
	/* Nothing is kept for later: there may be no later. */
	take_blocked(account, used, 0);
	for (int i = 0; open && i < WAIT_PARTS; i++)
		used->v[COUNTER_WAIT_THROTTLE + i] += open->parts[i];
	if (at && account->later_than == at)
		later_ns = account->later[COUNTER_CPU_TIME];
	/* A move has settled a part of the slice. */
	if (later_ns > used->v[COUNTER_CPU_TIME])
		later_ns = used->v[COUNTER_CPU_TIME];
	sums = settled_row(cgroup, package_of(task, account));
	row = sums ? &sums->counters : &overflow;
	before = fetch_and_add(&row->v[COUNTER_CPU_TIME], used->v[COUNTER_CPU_TIME]);
	for (int i = COUNTER_CPU_TIME + 1; i < COUNTER_COUNT; i++)
		__sync_fetch_and_add(&row->v[i], used->v[i]);
	/* For a running thread that is moved, its use after the moment is not recorded. */
	if (at && account->seen != at && sums && (!open || !is_on_cpu(task)))
		report_late(task, account, used, cgroup, before, at);
	if (!later_ns)
		return 0;
	if (sums)
		note_later_in(sums, later_ns, at);
	account->later_than = 0;
	return later_ns;
}

/*
 * Reports the sums of a process that ends on packages other than that of its last thread, and
 * deletes their rows.
 */
static __always_inline void report_elsewhere(struct process_key key, __u64 later_than)
{
	__u32 last = key.package;
	struct task_sample *sample, *row;

	for (__u32 i = 0; i < packages && i < MOST_PACKAGES; i++) {
		if (i == last)
			continue;
		key.package = i;
		row = bpf_map_lookup_elem(&carried, &key);
		if (!row)
			continue;
		sample = bpf_ringbuf_reserve(&exits, sizeof(*sample), 0);
		if (!sample) {
			count_loss(LOSS_EXIT_RECORD);
		} else {
			__builtin_memcpy(sample, row, sizeof(*sample));
			sample->flags = SAMPLE_ELSEWHERE;
			if (row->later_than != (__u32)later_than)
				sample->later_ns = 0;
			sample->later_than = later_than;
			bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
		}
		bpf_map_delete_elem(&carried, &key);
	}
}

/*
 * Reports the end of a process. `last`: the counters of its last thread that were not carried, with
 * `later_ns` of CPU time after the moment `at`. NULL: all were, so the process ended before that
 * moment unless its carried sums grew since. They are added and their row is deleted.
 */
static __always_inline void report_exit(struct task_struct *leader, struct task_account *account,
					const struct counters *last, __u64 later_ns, __u64 at)
{
	struct process_key key = process_of(leader, account);
	struct task_sample *row = bpf_map_lookup_elem(&carried, &key);
	struct task_sample *sample;
	__u64 wakeup, later_than = at;

	if (row && row->later_than == (__u32)at)
		later_ns += row->later_ns;
	else if (!last)
		later_than = 0;
	account->reported = 1;
	report_elsewhere(key, later_than);
	if (account->followed)
		__sync_fetch_and_add(&followed_reported, 1);
	sample = bpf_ringbuf_reserve(&exits, sizeof(*sample), 0);
	if (!sample) {
		count_loss(LOSS_EXIT_RECORD);
	} else {
		describe(sample, leader, account);
		sample->flags |= SAMPLE_EXITED;
		sample->later_than = later_than;
		sample->later_ns = later_ns;
		__builtin_memcpy(&sample->counters, last ?: &nothing, sizeof(*last));
		if (row)
			for (int i = 0; i < COUNTER_COUNT; i++)
				sample->counters.v[i] += row->counters.v[i];
		/* A wake-up costs more than the record; the reader comes by itself at each tick. */
		wakeup = bpf_ringbuf_query(&exits, BPF_RB_AVAIL_DATA) > exits_wakeup_bytes
				 ? BPF_RB_FORCE_WAKEUP
				 : BPF_RB_NO_WAKEUP;
		bpf_ringbuf_submit(sample, wakeup);
	}
	if (row)
		bpf_map_delete_elem(&carried, &key);
}

/*
 * A thread that has exited leaves its CPU, mostly for the last time. Once it is released no
 * snapshot finds it, and it can be preempted before its last switch: so each switch settles it.
 */
static __always_inline void settle_exiting(struct task_struct *task, struct task_account *account,
					   __u32 cpu)
{
	bool dead = task_state(task) & TASK_DEAD;
	__u32 scratch = SCRATCHES + cpu;
	struct task_sample *last = bpf_map_lookup_elem(&scratches, &scratch);
	__u64 later_ns, at;

	if (!last)
		return;
	account->dead = dead;
	account->total.v[COUNTER_WAIT_UNATTRIBUTED] += take_unseen(task, account);
	/* Read here: known before, it would double the states of the verifier. */
	at = sample_at;
	later_ns = settle(task, account, &last->counters, NULL, at);
	/* The common end, of a process with one thread, needs no row. */
	if (dead && task->pid == task->tgid && !account->threads)
		report_exit(task, account, &last->counters, later_ns, at);
	else
		carry(task, account, &last->counters, later_ns, at);
}

static __always_inline void leave_package(struct task_struct *task, struct task_account *account,
					  __u32 cpu)
{
	__u32 scratch = SCRATCHES + cpu;
	struct task_sample *used = bpf_map_lookup_elem(&scratches, &scratch);
	__u64 at = sample_at, later_ns;

	if (!used)
		return;
	later_ns = settle(task, account, &used->counters, NULL, at);
	carry(task, account, &used->counters, later_ns, at);
}

/*
 * The thread gets a CPU. If the CPU is on another package, its counters are settled, as when a
 * thread moves to another cgroup.
 */
static __always_inline void enter_package(struct task_struct *task, struct task_account *account,
					  __u32 cpu)
{
	__u8 here;

	if (packages < 2)
		return;
	here = package_of_cpu(cpu) + 1;
	if (account->package == here)
		return;
	if (account->package)
		leave_package(task, account, cpu);
	account->package = here;
}

/* The account of a thread that has changed its cgroup since it was settled; else NULL. */
static __always_inline struct task_account *moved_account(struct task_struct *task)
{
	struct task_account *account = find_account(task);

	if (!account || !account->ready || account->dead || cgroup_of(task) == account->cgroup)
		return NULL;
	return account;
}

/*
 * Settles a thread that has changed its cgroup, in two steps. First: its wait until now belongs to
 * the group that it leaves, and is kept in the division of `number`.
 */
static __always_inline void divide_moved(struct task_struct *task, __u32 number)
{
	struct division *it = bpf_map_lookup_elem(&divisions, &number);
	struct task_account *account = moved_account(task);

	if (it)
		__builtin_memset(it->parts, 0, sizeof(it->parts));
	if (!account)
		return;
	open_wait(task, account, number, bpf_ktime_get_ns(), 0);
	enter_queue(task, account);
}

/* Second: that wait and its counters, with the scratch record of `number`. */
static __always_inline void settle_moved(struct task_struct *task, __u32 number)
{
	struct task_sample *sample = bpf_map_lookup_elem(&scratches, &number);
	struct division *open = bpf_map_lookup_elem(&divisions, &number);
	struct task_account *account = moved_account(task);
	__u64 at = sample_at, later_ns;

	if (!account || !sample)
		return;
	divide_block(account, bpf_ktime_get_ns());
	later_ns = settle(task, account, &sample->counters, open, at);
	carry(task, account, &sample->counters, later_ns, at);
	account->cgroup = cgroup_of(task);
	/* The next snapshot reads it, and reports the new group. */
	list_thread(task, account);
}

#endif
