/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Settling: when a thread ends or changes its cgroup, its counters are added to the row of that
 * cgroup and to its process. Both sums therefore stay complete. Apart from settling, a switch does
 * not write shared data.
 */
#ifndef NOCTULE_SETTLE_BPF_H
#define NOCTULE_SETTLE_BPF_H

#include "abi.h"
#include "blocked.bpf.h"
#include "exits.bpf.h"
#include "listed.bpf.h"
#include "open.bpf.h"
#include "place.bpf.h"
#include "slice.bpf.h"
#include "sums.bpf.h"
#include "wait.bpf.h"

/*
 * Adds the counters of a scratch record to a process. This is a global function, which the verifier
 * checks once instead of at each call (see charge_runner).
 */
__noinline int add_to_process(__u32 scratch, __u32 tgid, __u32 package, __u64 start)
{
	struct process_key key = {.tgid = tgid, .package = package, .start = start};
	struct task_sample *used = bpf_map_lookup_elem(&scratches, &scratch);
	struct task_sample *row = bpf_map_lookup_elem(&carried, &key);

	for (int i = 0; used && row && i < COUNTER_COUNT; i++)
		__atomic_fetch_add(&row->counters.v[i], used->counters.v[i], __ATOMIC_RELAXED);
	return 0;
}

/* Adds the counters of a scratch record, except the CPU time, to a cgroup on a package. */
__noinline int add_to_cgroup(__u32 scratch, __u64 cgroup, __u32 package)
{
	struct settled_key key = {.cgroup = cgroup, .package = package};
	struct task_sample *used = bpf_map_lookup_elem(&scratches, &scratch);
	struct settled_sums *sums = bpf_map_lookup_elem(&settled, &key);
	struct counters *row = sums ? &sums->counters : &overflow;

	for (int i = COUNTER_CPU_TIME + 1; used && i < COUNTER_COUNT; i++)
		__atomic_fetch_add(&row->v[i], used->counters.v[i], __ATOMIC_RELAXED);
	return 0;
}

/* Reads the counters of the thread since it was created. */
static __always_inline void used_so_far(struct task_struct *task, struct task_account *account,
					struct cpu_slot *slot, struct counters *c)
{
	__builtin_memcpy(c, &account->total, sizeof(account->total));
	__builtin_memset(&c->v[COUNTER_BLOCKED], 0, sizeof(account->blocked));
	add_open_softirqs(slot, c);
	kernel_counters(task, c);
	/* The kernel counts threads that are throttled by CPU quota as preempted. */
	c->v[COUNTER_SWITCHES_PREEMPTED] -= c->v[COUNTER_SWITCHES_THROTTLED];
	/*
	 * The difference can be too small: a throttled thread that is about to sleep with a pending
	 * signal counts as voluntary.
	 */
	if ((__s64)(c->v[COUNTER_SWITCHES_PREEMPTED] -
		    account->base.v[COUNTER_SWITCHES_PREEMPTED]) < 0)
		c->v[COUNTER_SWITCHES_PREEMPTED] = account->base.v[COUNTER_SWITCHES_PREEMPTED];
	c->v[COUNTER_CPU_TIME] = cpu_time(task, slot, sample_at);
}

/*
 * Subtracts the usage after the moment of the snapshot. The result is negative if the account is
 * younger than the moment, or was settled since. It is also negative if the time includes
 * interrupts and steal, which the kernel charges to no task. User space reads a negative value as
 * 0.
 */
static __always_inline void subtract_later(struct task_account *account, struct counters *c,
					   __u64 at)
{
	if (account->later_than != at)
		return;
	for (int i = 0; i < COUNTERS_OF_SLICES; i++)
		c->v[i] -= account->later[i];
	for (int i = 0; i < WAIT_CAUSES; i++)
		c->v[COUNTER_WAIT_THROTTLE + i] -= (__u64)account->late_waits[i] << LATE_WAIT_SHIFT;
}

/*
 * Takes the counters since the last settlement, up to the moment of the snapshot, for output. If
 * another CPU settles some of the counters at the same time, only the rows of that CPU contain that
 * amount.
 */
static __always_inline void take_unsettled(struct task_struct *task, struct task_account *account,
					   struct cpu_slot *slot, struct counters *c)
{
	used_so_far(task, account, slot, c);
	subtract_later(account, c, sample_at);
	/*
	 * Unrolled, because kernels before v6.2 would mistake clang's code for an infinite loop.
	 */
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

/* Returns NULL if the table is full. */
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
	/* The code avoids branches, because each branch doubles the states of the verifier. */
	sample->flags = (((__u32)(task->pid ^ task->tgid) - 1) >> 31) * SAMPLE_LEADER;
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

/* Returns the carried sums of the thread's process, or NULL if the table is full. */
static __always_inline struct task_sample *
carried_row(struct task_struct *task, struct task_account *account, const struct process_key *key)
{
	struct task_sample *row = bpf_map_lookup_elem(&carried, key);
	struct task_struct *leader;

	if (row)
		return row;
	/* 0 if the thread was first seen after it was reaped, so that its process is unknown. */
	if (key->start)
		row = lookup_or_init(&carried, key, &no_sample);
	if (!row) {
		count_loss(LOSS_PROCESS_ROW);
		return NULL;
	}
	leader = leader_to_be_read(task);
	describe(row, leader ?: task, account);
	return row;
}

/*
 * Adds to the carried sums of the process. A snapshot reads these sums together with any thread of
 * the process. After this thread ends, the other threads may not run for long, and this thread's
 * pointer to the leader no longer exists. The leader is therefore listed by the pid of the process.
 */
static __always_inline void carry(struct task_struct *task, struct task_account *account,
				  __u32 scratch, __u64 later_ns, __u64 at)
{
	struct process_key key = process_of(task, account);
	struct task_sample *row = carried_row(task, account, &key);

	if (!row)
		return;
	add_to_process(scratch, key.tgid, key.package, key.start);
	if (later_ns)
		note_later_in(row, later_ns, at);
	*(volatile __u32 *)&carried_unread = 1;
	if (lists_threads && list_has_room() && !exchange(&row->listed, 1))
		list_number(task->tgid);
}

/*
 * Reports a thread that is settled during a snapshot before the snapshot reads it. Its counters are
 * then missing from the threads, and perhaps from the row of its cgroup, because the rows are read
 * one after the other. Without this record the counters appear in the next snapshot. The record is
 * therefore skipped if the ring buffer is half full, to leave room for records that would be lost.
 */
static __always_inline void report_late(struct task_struct *task, struct task_account *account,
					const struct counters *used, __u64 cgroup, __u64 row_before,
					__u64 at)
{
	struct process_key key = process_of(task, account);
	struct task_sample *process;
	struct late_settle *late;

	if (bpf_ringbuf_query(&exits, BPF_RB_AVAIL_DATA) > 2 * exits_wakeup_bytes)
		return;
	late = bpf_ringbuf_reserve(&exits, sizeof(*late), 0);
	if (!late)
		return;
	describe(&late->sample, task, account);
	late->sample.cgroup = cgroup;
	late->sample.flags |= SAMPLE_LATE;
	__builtin_memcpy(&late->sample.counters, used, sizeof(*used));
	subtract_later(account, &late->sample.counters, at);
	late->at = at;
	late->row_before = row_before;
	process = bpf_map_lookup_elem(&carried, &key);
	late->process_before = process ? process->counters.v[COUNTER_CPU_TIME] : 0;
	bpf_ringbuf_submit(late, BPF_RB_NO_WAKEUP);
}

/*
 * Adds the usage of a running thread that the kernel has not accounted yet, before the thread
 * moves, and notes how much of its slice came after the moment `at`. The kernel accounts the usage
 * at the move only if the cpu controller separates the two groups. If a tick comes after the
 * caller's read, less than a tick is missing here and goes to the new group. Not inlined, because
 * its branches would multiply the branches of the caller.
 */
static __noinline void add_running(struct task_struct *task, struct task_account *account,
				   struct counters *used, __u64 at)
{
	struct cpu_slot *slot = running_slot(task);
	__u64 now, since;

	if (!slot)
		return;
	add_open_softirqs(slot, used);
	used->v[COUNTER_CPU_TIME] += unaccounted(task, slot, NOW);
	now = bpf_ktime_get_ns();
	since = slot->since > at ? slot->since : at;
	if (at && now > since)
		note_later(account, COUNTER_CPU_TIME, now - since, at);
}

/*
 * Settles the thread with its cgroup. The counters of record number `scratch` (`used`) receive its
 * counters since the last settlement, including a wait in progress (`open`; NULL if the thread does
 * not wait). Two CPUs can settle one thread at the same time, when it ends while it is moved. Each
 * exchange takes what remains, so that the amounts add up in either order. Returns how much of the
 * CPU time in `used` came after the moment of the snapshot.
 */
static __always_inline __u64 settle(struct task_struct *task, struct task_account *account,
				    __u32 scratch, struct counters *used,
				    const struct division *open, __u64 at)
{
	__u64 cgroup = account->cgroup, later_ns = 0;
	__u32 package = package_of(task, account);
	struct settled_sums *sums;
	struct counters *row;
	__u64 before;

	used_so_far(task, account, NULL, used);
	if (open)
		add_running(task, account, used, at);
	for (int i = 0; i < COUNTER_TOTALS; i++)
		used->v[i] -= exchange(&account->base.v[i], used->v[i]);
	/* Nothing is kept for a later read, because the thread may not be read again. */
	take_blocked(account, used, 0);
	for (int i = 0; open && i < WAIT_CAUSES; i++)
		used->v[COUNTER_WAIT_THROTTLE + i] += open->parts[i];
	if (at && account->later_than == at)
		later_ns = account->later[COUNTER_CPU_TIME];
	/* A move has already settled some of the slice. */
	if (later_ns > used->v[COUNTER_CPU_TIME])
		later_ns = used->v[COUNTER_CPU_TIME];
	sums = settled_row(cgroup, package);
	row = sums ? &sums->counters : &overflow;
	before = fetch_and_add(&row->v[COUNTER_CPU_TIME], used->v[COUNTER_CPU_TIME]);
	add_to_cgroup(scratch, cgroup, package);
	if (at && account->seen != at && sums)
		report_late(task, account, used, cgroup, before, at);
	if (!later_ns)
		return 0;
	if (sums)
		note_later_in(sums, later_ns, at);
	account->later_than = 0;
	return later_ns;
}

/*
 * Reports the sums of an ending process on packages other than the package of its last thread, and
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
 * Reports the end of a process, and adds and deletes its carried sums. `last` contains the counters
 * of its last thread that were not carried, with `later_ns` of CPU time after the moment `at`. It
 * is NULL if all counters were carried. In that case the process ended before the moment, unless
 * its carried sums have grown since.
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
		/* A wake-up costs more than the record, and the reader runs at each tick anyway. */
		wakeup = bpf_ringbuf_query(&exits, BPF_RB_AVAIL_DATA) > exits_wakeup_bytes
				 ? BPF_RB_FORCE_WAKEUP
				 : BPF_RB_NO_WAKEUP;
		bpf_ringbuf_submit(sample, wakeup);
	}
	if (row)
		bpf_map_delete_elem(&carried, &key);
}

/*
 * Settles an exited thread that leaves its CPU, usually for the last time. Once the thread is
 * released, no snapshot finds it, and it can be preempted before its last switch. Therefore each
 * switch settles it.
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
	/* Read late on purpose, because an earlier read would double the states of the verifier. */
	at = sample_at;
	later_ns = settle(task, account, scratch, &last->counters, NULL, at);
	/*
	 * The common case, a single-threaded process, needs no row. The leader of a process that is
	 * older than the agent may not be marked yet.
	 */
	if (dead && task->pid == task->tgid && !account->threads && task->signal->nr_threads < 2)
		report_exit(task, account, &last->counters, later_ns, at);
	else
		carry(task, account, scratch, later_ns, at);
}

static __always_inline void leave_package(struct task_struct *task, struct task_account *account,
					  __u32 cpu)
{
	__u32 scratch = SCRATCHES + cpu;
	struct task_sample *used = bpf_map_lookup_elem(&scratches, &scratch);
	__u64 at = sample_at, later_ns;

	if (!used)
		return;
	later_ns = settle(task, account, scratch, &used->counters, NULL, at);
	carry(task, account, scratch, later_ns, at);
}

/*
 * Called when the thread gets a CPU. If the CPU is on another package, the thread is settled, as
 * for a move to another cgroup.
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

/* Returns the account of a thread whose cgroup has changed since it was settled, or NULL. */
static __always_inline struct task_account *moved_account(struct task_struct *task)
{
	struct task_account *account = find_account(task);

	if (!account || !account->ready || account->dead || cgroup_of(task) == account->cgroup)
		return NULL;
	return account;
}

/*
 * First step of settling a moved thread. The wait of the thread up to now belongs to the old group,
 * and is kept in the division slot `number`.
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

/*
 * Second step of settling a moved thread: settles the wait that divide_moved() kept, and the
 * counters. `number` is the record slot.
 */
static __always_inline void settle_moved(struct task_struct *task, __u32 number)
{
	struct task_sample *sample = bpf_map_lookup_elem(&scratches, &number);
	struct division *open = bpf_map_lookup_elem(&divisions, &number);
	struct task_account *account = moved_account(task);
	__u64 at = sample_at, later_ns;

	if (!account || !sample)
		return;
	divide_block(account, bpf_ktime_get_ns());
	later_ns = settle(task, account, number, &sample->counters, open, at);
	carry(task, account, number, later_ns, at);
	account->cgroup = cgroup_of(task);
	/* The next snapshot reads the thread and reports the new group. */
	list_thread(task, account);
}

#endif
