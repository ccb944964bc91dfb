/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: run-queue latency, the time that threads spend runnable but not running. The scheduler
 * records when a thread was queued (sched_info.last_queued) and the sum of all its waits
 * (run_delay). A switch computes the wait of the next thread from both, without a program at
 * wake-ups. The sum charged here equals run_delay, plus the elapsed time of a wait in progress.
 */
#ifndef NOCTULE_WAIT_BPF_H
#define NOCTULE_WAIT_BPF_H

#include "../include/compat.bpf.h"
#include "blame.bpf.h"
#include "blocked.bpf.h"
#include "listed.bpf.h"
#include "slice.bpf.h"
#include "throttle.bpf.h"

const volatile bool waits_on = true;

enum {
	/*
	 * A real-time thread that waits longer than this for a thread of a lower class has used up
	 * its budget. Otherwise it would get the CPU as soon as the kernel can be preempted.
	 */
	HELD_NS = 1000000,
	/*
	 * Priority of the stopper thread, which migrates other threads. No thread has a higher
	 * priority.
	 */
	STOPPER_PRIO = 0,
	/* Maximum time between a migration and the last_queued that it sets. */
	PHANTOM_NS = 1000000,
};

/* Prepares the division of a wait that began at `from` and is charged up to `to`. */
static __always_inline struct division *begin_division(struct task_struct *task,
						       struct task_account *account, __u32 number,
						       __u32 cpu, __u64 from,
						       const struct moment *to, bool going_on)
{
	struct division *it = bpf_map_lookup_elem(&divisions, &number);
	/*
	 * If a thread of a higher class waits for a lock of this thread, the kernel raises `prio`,
	 * perhaps only for the end of this wait. `normal_prio` is not affected.
	 */
	enum rank rank = rank_of_prio(account->held ? task->prio : task->normal_prio);
	__u64 throttled = 0;

	if (!it)
		return NULL;
	it->victim = victim_of(account);
	it->runs_as = group_of(runner_of(task, it->victim));
	for (int i = 0; i < LEVELS; i++) {
		it->own[i].epoch = account->entries[i].epoch;
		it->own[i].ran = task->se.sum_exec_runtime - account->entries[i].ran;
	}
	it->cpu = cpu;
	it->to = *to;
	it->held_from = RANK_FAIR;
	it->held_below = 0;
	if (rank > RANK_FAIR) {
		if (account->held)
			it->held_from = RANK_IDLE;
		if (account->held || to->clock - from > HELD_NS)
			it->held_below = rank;
	} else {
		throttled = throttled_part(task, account, to->clock, going_on);
		if (throttled > to->clock - from)
			throttled = to->clock - from;
	}
	__builtin_memset(it->parts, 0, sizeof(it->parts));
	it->unnamed = 0;
	/*
	 * Throttled time is assumed to lie at the start of the wait, because the quota of a group
	 * runs out while the group runs.
	 */
	it->parts[PART_THROTTLE] = throttled;
	it->from = from + throttled;
	return it;
}

/* Charges `ns` of a wait while `culprit` had the CPU. Returns the counter of the cause. */
static __always_inline enum counter charge_culprit(struct task_account *account,
						   struct wait_row *own, __u64 victim,
						   __u64 culprit, __u64 ns)
{
	enum counter counter = wait_counter(victim, culprit);
	struct blame *row;

	account->total.v[counter] += ns;
	if (counter != COUNTER_WAIT_NEIGHBOUR)
		return counter;
	row = blame_row(victim, culprit);
	if (row)
		__sync_fetch_and_add(&row->wait_ns, ns);
	else
		blame_unnamed(own, ns);
	return counter;
}

/*
 * Charges the thread's wait up to now, and returns the counter of the cause. If the wait has
 * several causes, returns the counter of the longest part. The run queue of the CPU is locked.
 */
static __always_inline enum counter
charge_causes(struct task_struct *task, struct task_account *account, struct wait_row *own,
	      __u64 victim, struct past *past, __u32 cpu, __u64 from, const struct moment *now)
{
	__u32 number = DIVISIONS_ELSEWHERE + bpf_get_smp_processor_id();
	struct slice *newest = newest_slice(past);
	enum counter cause = COUNTER_WAIT_UNATTRIBUTED;
	struct division *it;
	__u64 longest = 0;

	/* The most common case: one runner had the CPU during the whole wait. */
	if (likely(past->count && newest->began.clock <= from && !account->throttle_noted &&
		   !account->held && task->normal_prio >= MAX_RT_PRIO)) {
		__u64 ns = now->clock - from;

		/*
		 * Usually no time was stolen or used by interrupts. The check avoids a division,
		 * which costs as much as the rest of this function.
		 */
		if (newest->began.stolen != now->stolen) {
			struct taken taken =
				taken_from(newest, now, ns, now->clock - newest->began.clock);

			account->total.v[COUNTER_WAIT_INTERRUPT] += taken.interrupts;
			account->total.v[COUNTER_WAIT_HOST] += taken.stolen - taken.interrupts;
			ns -= taken.stolen;
		}
		return charge_culprit(account, own, victim, group_of(newest->runner), ns);
	}
	it = begin_division(task, account, number, cpu, from, now, false);
	if (!it)
		return COUNTER_WAIT_UNATTRIBUTED;
	if (it->from < now->clock)
		divide(number);
	for (int i = 0; i < WAIT_CAUSES; i++) {
		account->total.v[COUNTER_WAIT_THROTTLE + i] += it->parts[i];
		if (it->parts[i] > longest) {
			longest = it->parts[i];
			cause = COUNTER_WAIT_THROTTLE + i;
		}
	}
	if (it->unnamed)
		blame_unnamed(own, it->unnamed);
	return cause;
}

/*
 * Records how much of a charged wait came after the moment of the snapshot in progress. The wait
 * lasted from `from` to `to`, by the clock of the CPU.
 */
static __always_inline void note_late_wait(struct task_account *account, enum counter cause,
					   __u32 cpu, __u64 from, __u64 to)
{
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	__u64 at = sample_at;
	__u32 place;

	if (!slot)
		return;
	/* Read back from the map, so that the verifier merges the states of all causes. */
	*(volatile __u32 *)&slot->late_cause = cause - COUNTER_WAIT_THROTTLE;
	place = *(volatile __u32 *)&slot->late_cause;
	if (place >= WAIT_CAUSES)
		return;
	from += slot->clock_offset;
	to += slot->clock_offset;
	if (from < at)
		from = at;
	if (to <= from)
		return;
	begin_later(account, at);
	account->late_waits[place] += (to - from) >> LATE_WAIT_SHIFT;
}

/* Charges the wait of the thread up to now. The run queue of the CPU is locked. */
static __always_inline void charge_wait(struct task_struct *task, struct task_account *account,
					struct wait_row *own, __u64 victim, struct past *past,
					__u32 cpu, __u64 from, const struct moment *now)
{
	enum counter cause = charge_causes(task, account, own, victim, past, cpu, from, now);

	if (unlikely(sample_at))
		note_late_wait(account, cause, cpu, from, now->clock);
}

/* Counts everything up to `total` as charged, without attributing it. */
static __always_inline void skip_waits(struct task_account *account, __u64 total)
{
	account->charged = total - account->ahead;
	account->before = total;
}

/* Whether last_queued was set by a migration during sleep, when no wait began. */
static __always_inline bool is_phantom(struct task_account *account, __u64 queued)
{
	return account->phantom && queued < account->phantom_at + PHANTOM_NS;
}

/*
 * Ends a wait of the thread in the group `victim`. `total` is the sum of the thread's waits up to
 * `end`. `here` is the time since the thread was queued on this CPU. The length of a phantom wait
 * is unknown.
 */
static __always_inline void finish_wait(struct task_struct *task, struct task_account *account,
					__u64 victim, struct past *past, __u32 cpu,
					const struct moment *end, __u64 total, __u64 here,
					bool phantom)
{
	__u64 length = total - account->before;
	__s64 waited = total - account->charged - account->ahead;
	struct wait_row *row = wait_row(account, victim);

	if (!row)
		return;
	if (unlikely(phantom)) {
		skip_waits(account, total);
		count_loss(LOSS_WAIT_START);
	} else {
		account->before = total;
		/* `waited` is not positive if a walk has charged more than this clock shows. */
		if (likely(waited > 0)) {
			account->charged += waited;
			if ((__u64)waited < here)
				here = waited;
			/* Earlier waits whose end no program saw. */
			account->total.v[COUNTER_WAIT_UNATTRIBUTED] += waited - here;
			charge_wait(task, account, row, victim, past, cpu, end->clock - here, end);
		}
		histogram_add(row->buckets, length);
	}
	account->held = 0;
	account->phantom = 0;
	account->throttle_noted = 0;
}

/* The thread gets the CPU, so its wait ends. */
static __always_inline void end_wait(struct task_struct *task, struct task_account *account,
				     __u64 victim, struct past *past, __u32 cpu,
				     const struct moment *now)
{
	__u64 queued = queued_since(task, account);
	__u64 here = queued && queued < now->clock ? now->clock - queued : 0;
	__u64 total = run_delay(task, account) + here;

	note_dequeued(account, now->clock);
	finish_wait(task, account, victim, past, cpu, now, total, here,
		    is_phantom(account, queued));
}

/* The thread is preempted: it stays runnable and starts to wait. */
static __always_inline void begin_wait(struct task_struct *task, struct task_account *account,
				       runner next, __u64 clock)
{
	enum rank rank = task_rank(task);
	bool throttled = false;

	note_queued(account, clock);
	if (rank > RANK_FAIR) {
		throttled = rank_of(next) < rank;
		account->held = throttled;
	} else {
		throttled = is_throttled(task);
		if (throttled && !throttles_threads() && !quotas_in_use)
			find_quota();
		if (throttled || (!throttles_threads() && quotas_in_use))
			begin_throttle(task, account, clock);
	}
	if (throttled)
		account->total.v[COUNTER_SWITCHES_THROTTLED]++;
	else
		count_preemption(account, group_of(next));
}

/*
 * Whether the thread sleeps until the stopper thread of its CPU has migrated it. The stopper then
 * wakes the thread at once, so the wait of the thread begins with the migration. The cause of such
 * a migration is an exec, or a new affinity that excludes the CPU.
 */
static __always_inline bool awaits_migration(struct task_struct *task, __u32 cpu)
{
	struct task_struct *mover = (void *)bpf_get_current_task();
	const void *allowed = BPF_CORE_READ(task, cpus_ptr);
	__u64 bits;

	if (!(task_state(task) & TASK_UNINTERRUPTIBLE) ||
	    BPF_CORE_READ(mover, prio) != STOPPER_PRIO)
		return false;
	if (bpf_core_field_exists(task->in_execve) &&
	    BPF_CORE_READ_BITFIELD_PROBED(task, in_execve))
		return true;
	if (bpf_probe_read_kernel(&bits, sizeof(bits), allowed + cpu / 64 * sizeof(bits)))
		return false;
	return !(bits >> cpu % 64 & 1);
}

/* A queued thread migrates to another CPU: charges its wait on the old CPU. */
static __always_inline void move_wait(struct task_struct *task, struct task_account *account,
				      __u32 to)
{
	struct moment now;
	struct wait_row *row;
	struct past *past;
	struct rq *rq;
	__u64 total;
	__s64 part;
	__u32 from;

	if (!bpf_core_field_exists(task->se.cfs_rq))
		return;
	rq = queue_of(task)->rq;
	moment_of(rq, &now);
	/* The scheduler has dequeued the thread, and added its wait to run_delay. */
	note_dequeued(account, now.clock);
	total = run_delay(task, account);
	from = cpu_of(rq);
	/*
	 * The thread is asleep with delayed dequeue, but last_queued is set. A wake-up does not set
	 * last_queued again, and programs do not see every wake-up. The length of the next wait is
	 * therefore unknown.
	 */
	if (scheduler_notes && bpf_core_field_exists(task->se.sched_delayed) &&
	    task->se.sched_delayed && !awaits_migration(task, from)) {
		skip_waits(account, total);
		account->phantom_at = now.clock;
		account->phantom = 1;
		return;
	}
	if (account->phantom) {
		skip_waits(account, total);
		account->phantom = 0;
		count_loss(LOSS_WAIT_START);
	}
	part = total - account->charged - account->ahead;
	past = bpf_map_lookup_elem(&pasts, &from);
	if (past && part > 0 && (__u64)part < now.clock) {
		if (host_is_apart()) {
			struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &from);

			if (slot)
				add_host(slot, rq, &now);
		}
		account->charged += part;
		row = wait_row(account, victim_of(account));
		if (row)
			charge_wait(task, account, row, victim_of(account), past, from,
				    now.clock - part, &now);
	}
	note_queued(account, now.clock);
	change_queue(task, account, now.clock, to);
}

/*
 * Called if no program ran at the switch to `prev`: the switch was before the programs were
 * attached, or the kernel skipped a program. The scheduler recorded the time of the switch
 * (last_arrival), but not for the idle task. The length of the wait is the growth of run_delay
 * since the end of the previous wait.
 */
static __always_inline void note_unseen(struct past *past, struct task_struct *prev, __u32 cpu,
					const struct moment *now, __u64 offset)
{
	struct task_account *account;
	struct moment then = *now;
	__u64 group, total;

	if (!prev->pid || !scheduler_notes)
		return;
	then.clock = prev->sched_info.last_arrival;
	if (then.clock >= now->clock)
		return;
	account = find_account(prev);
	group = group_of_thread(prev, account);
	if (account) {
		total = run_delay(prev, account);
		end_block(account, then.clock + offset - (total - account->before));
		list_thread(prev, account);
		if (account->ready && total != account->before)
			finish_wait(prev, account, group, past, cpu, &then, total,
				    total - account->before, account->phantom);
	}
	begin_unseen_slice(cpu, runner_of(prev, group), then.clock, then.stolen, then.interrupts);
}

/*
 * A thread or the idle task gets the CPU. `account` is the account of `next`, or NULL. `offset` is
 * CLOCK_MONOTONIC minus the clock of the CPU.
 */
static __always_inline runner account_next(struct task_struct *prev, struct task_struct *next,
					   struct task_account *account, __u32 cpu,
					   const struct moment *now, __u64 offset)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);
	runner comes = make_runner(GROUP_IDLE, RANK_IDLE);

	if (!past)
		return comes;
	if (unlikely(past->pid != (__u32)prev->pid))
		note_unseen(past, prev, cpu, now, offset);
	if (next->pid) {
		__u64 group = group_of_thread(next, account);

		/* Without an account, the next end of a wait also charges this one. */
		if (likely(account)) {
			__u64 before = account->before;

			end_wait(next, account, group, past, cpu, now);
			end_block(account, now->clock + offset - (account->before - before));
		}
		comes = runner_of(next, group);
	}
	begin_slice(past, cpu, comes, now);
	if (likely(account))
		enter_epoch(past, next, account);
	past->pid = next->pid;
	/* Read back from the map, so that the verifier merges the states of all runners. */
	return *(volatile runner *)&newest_slice(past)->runner;
}

#endif
