/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: run-queue latency, the time that threads spend runnable but not running. The scheduler
 * records when a thread was queued (sched_info.last_queued) and the sum of all its waits
 * (run_delay). From both a switch computes how long the next thread waited, without a hook at
 * wake-ups. The sum that is charged here equals run_delay, plus the elapsed part of a long wait
 * that has not ended.
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
	 * A real-time thread that waits for longer than that behind a lower class has used up its
	 * budget: otherwise it gets the CPU as soon as the kernel can be preempted.
	 */
	HELD_NS = 1000000,
	/* A wait that has lasted for that long is charged while it goes on. */
	LONG_WAIT_NS = 10000000,
	/* Of the thread that each CPU has to move others: the highest of all. */
	STOPPER_PRIO = 0,
	/* A note that was made with a migration is no later than that. */
	PHANTOM_NS = 1000000,
};

/* sched_switch has the state of `prev` as its last argument: 9c2136be0878, v5.18. */
const volatile bool has_prev_state = false;

/*
 * The state in which the thread leaves its CPU; 0: it is still runnable. `preempt` alone does not
 * say so: it is set only where the kernel itself was preempted. A waker can have changed __state
 * since the scheduler decided; the argument has the state of the decision.
 */
static __always_inline __u32 state_at_switch(unsigned long long *ctx, bool preempt,
					     struct task_struct *prev)
{
	if (preempt)
		return 0;
	/* Volatile: must not be read before the kernel is known to have it. */
	if (has_prev_state)
		return *(volatile unsigned long long *)&ctx[3];
	return task_state(prev);
}

/* Prepares the division of a wait that began at `from` and is charged up to `to`. */
static __always_inline struct division *begin_division(struct task_struct *task,
						       struct task_account *account, __u32 number,
						       __u32 cpu, __u64 from,
						       const struct moment *to, bool going_on)
{
	struct division *it = bpf_map_lookup_elem(&divisions, &number);
	/* A lock that a thread of a higher class waits for lends that for the end of the wait. */
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
	 * Throttled time is taken to lie at the beginning of the wait: the quota of a group runs
	 * out while it runs.
	 */
	it->parts[PART_THROTTLE] = throttled;
	it->from = from + throttled;
	return it;
}

/* Charges the wait of the thread up to now, on a CPU whose run queue is locked. */
static __always_inline void charge_wait(struct task_struct *task, struct task_account *account,
					__u64 victim, struct past *past, __u32 cpu, __u64 from,
					const struct moment *now)
{
	__u32 number = DIVISIONS_ELSEWHERE + bpf_get_smp_processor_id();
	struct slice *newest = &past->ring[(past->count - 1) % PLACES];
	struct division *it;

	/* The most common: one runner had the CPU all the time. */
	if (likely(past->count && newest->began.clock <= from && !account->throttle_noted &&
		   !account->held && task->normal_prio >= MAX_RT_PRIO)) {
		__u64 culprit = group_of(newest->runner);
		enum counter counter = wait_counter(victim, culprit);
		__u64 ns = now->clock - from;
		struct blame *row;

		/* Mostly nothing, and a division takes as long as all the rest. */
		if (newest->began.stolen != now->stolen) {
			struct taken taken =
				taken_from(newest, now, ns, now->clock - newest->began.clock);

			account->total.v[COUNTER_WAIT_INTERRUPT] += taken.interrupts;
			account->total.v[COUNTER_WAIT_HOST] += taken.stolen - taken.interrupts;
			ns -= taken.stolen;
		}
		account->total.v[counter] += ns;
		if (counter != COUNTER_WAIT_NEIGHBOUR)
			return;
		row = blame_row(victim, culprit);
		if (row)
			__sync_fetch_and_add(&row->wait_ns, ns);
		else
			blame_unnamed(account, victim, ns);
		return;
	}
	it = begin_division(task, account, number, cpu, from, now, false);
	if (!it)
		return;
	if (it->from < now->clock)
		divide(number);
	for (int i = 0; i < WAIT_PARTS; i++)
		account->total.v[COUNTER_WAIT_THROTTLE + i] += it->parts[i];
	if (it->unnamed)
		blame_unnamed(account, it->victim, it->unnamed);
}

/* Counts everything up to `total` as charged, without attributing it. */
static __always_inline void skip_waits(struct task_account *account, __u64 total)
{
	account->charged = total - account->ahead;
	account->before = total;
}

/* Whether last_queued is only the moment of a migration during which the thread slept. */
static __always_inline bool is_phantom(struct task_account *account, __u64 queued)
{
	return account->phantom && queued < account->phantom_at + PHANTOM_NS;
}

/*
 * A wait of the thread, which is of the group `victim`, ended at `end`: the last `here` ns of
 * `total`, which are all its waits until then. Its length is unknown if it is a phantom.
 */
static __always_inline void finish_wait(struct task_struct *task, struct task_account *account,
					__u64 victim, struct past *past, __u32 cpu,
					const struct moment *end, __u64 total, __u64 here,
					bool phantom)
{
	__u64 length = total - account->before;
	__s64 waited = total - account->charged - account->ahead;
	struct wait_row *row;

	if (unlikely(phantom)) {
		skip_waits(account, total);
		count_loss(LOSS_WAIT_START);
	} else {
		account->before = total;
		/* Not positive when a walk has charged more than this clock has reached. */
		if (likely(waited > 0)) {
			account->charged += waited;
			if ((__u64)waited < here)
				here = waited;
			/* The part of earlier waits whose end no program has seen. */
			account->total.v[COUNTER_WAIT_UNATTRIBUTED] += waited - here;
			charge_wait(task, account, victim, past, cpu, end->clock - here, end);
		}
		row = wait_row(account, victim);
		if (row)
			histogram_add(row->buckets, length);
	}
	account->held = 0;
	account->phantom = 0;
	account->throttle_noted = 0;
}

/* The thread gets the CPU: its wait ends. */
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

/* The thread is preempted: it stays runnable, and waits from now on. */
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
 * Whether the thread sleeps until the stopper thread of its CPU has moved it, which wakes it right
 * after: its wait begins with the migration. It executes a program, or has taken the CPU out of
 * those that it may use.
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

/* A queued thread migrates to another CPU: charges its wait on the old one. */
static __always_inline void move_wait(struct task_struct *task, struct task_account *account,
				      __u32 to)
{
	struct moment now;
	struct past *past;
	struct rq *rq;
	__u64 total;
	__s64 part;
	__u32 from;

	if (!bpf_core_field_exists(task->se.cfs_rq))
		return;
	rq = queue_of(task)->rq;
	moment_of(rq, &now);
	/* The scheduler has dequeued it, and added its wait to run_delay. */
	note_dequeued(account, now.clock);
	total = run_delay(task, account);
	from = cpu_of(rq);
	/*
	 * It sleeps with delayed dequeue, and last_queued is set all the same. A wake-up does not
	 * set it anew, and is not always seen: the length of its next wait is unknown.
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
		charge_wait(task, account, victim_of(account), past, from, now.clock - part, &now);
	}
	note_queued(account, now.clock);
	change_queue(task, account, now.clock, to);
}

/* A wait that has not ended. */
struct open {
	struct rq *rq;
	/* When it began in this queue, by the clock of that. */
	__u64 queued;
	/* How long it has been in this queue. */
	__u64 here;
	/* The waits that the thread had before it came into this queue, together. */
	__u64 delay;
	struct moment now;
	__u32 cpu;
};

/* Whether the thread waits at `at` (CLOCK_MONOTONIC), and since when. The run queue is not locked.
 */
static __always_inline bool read_open(struct task_struct *task, struct task_account *account,
				      __u64 at, struct open *it)
{
	struct cpu_slot *slot;

	if (!waits_on || !bpf_core_field_exists(task->se.cfs_rq) || account->dead)
		return false;
	it->queued = queued_since(task, account);
	if (!it->queued || account->phantom || is_on_cpu(task) || is_asleep(task))
		return false;
	it->rq = queue_of(task)->rq;
	it->cpu = cpu_of(it->rq);
	slot = bpf_map_lookup_elem(&cpus, &it->cpu);
	if (!slot || !slot->calibrations)
		return false;
	moment_of(it->rq, &it->now);
	if (host_is_apart())
		add_host(slot, it->rq, &it->now);
	it->now.clock = at - offset_of(slot, at);
	it->here = it->now.clock - it->queued;
	it->delay = run_delay(task, account);
	return (__s64)it->here > 0;
}

/*
 * How long the thread has been runnable without running, also before the agent started (then since
 * it came to its CPU).
 */
static __always_inline __u64 length_of(const struct open *it, const struct task_account *account)
{
	/* The waits since its last end, on other CPUs too. */
	__s64 whole = it->delay + it->here - account->before;

	return whole > (__s64)it->here ? whole : it->here;
}

/*
 * Divides the elapsed part of a wait that has not ended, up to the moment of `open`, if it is at
 * least `least`; the caller adds the parts to the sums of the group and the process. Returns NULL
 * where there is nothing to charge.
 *
 * The run queue is not locked: the thread can get its CPU meanwhile. Then the claim is given back.
 * Within some nanoseconds between two instructions of the hook the part is charged twice; the next
 * waits of the thread are charged less by the same amount.
 */
static __always_inline struct division *divide_open(struct task_struct *task,
						    struct task_account *account, __u32 number,
						    struct open *open, __u64 least)
{
	struct division *it;
	__u64 ahead;
	__s64 part;

	ahead = account->ahead;
	part = open->delay + open->here - account->charged - ahead;
	if (part < (__s64)least || (__u64)part > open->delay + open->here)
		return NULL;
	if (compare_and_swap(&account->ahead, ahead, ahead + part) != ahead)
		return NULL;
	if (queued_since(task, account) != open->queued || is_on_cpu(task) ||
	    run_delay(task, account) != open->delay) {
		__sync_fetch_and_add(&account->ahead, -part);
		return NULL;
	}
	if ((__u64)part < open->here)
		open->here = part;
	it = begin_division(task, account, number, open->cpu, open->now.clock - open->here,
			    &open->now, true);
	if (!it)
		return NULL;
	it->parts[PART_UNATTRIBUTED] += part - open->here;
	divide(number);
	if (it->unnamed)
		blame_unnamed(account, it->victim, it->unnamed);
	return it;
}

/* The same of a thread of which it is not known whether it waits. */
static __always_inline struct division *open_wait(struct task_struct *task,
						  struct task_account *account, __u32 number,
						  __u64 at, __u64 least)
{
	struct open open;

	if (!read_open(task, account, at, &open))
		return NULL;
	return divide_open(task, account, number, &open, least);
}

/*
 * Returns the waits that nobody has charged, of a thread that does not wait now: the kernel skipped
 * the program at the end of a wait. They count as charged from here on. A switch charges before the
 * scheduler counts, so this reads in the other order.
 */
static __always_inline __u64 take_unseen(struct task_struct *task, struct task_account *account)
{
	__u64 total, ahead;
	__s64 part;

	if (!waits_on || !scheduler_notes || account->phantom || queued_since(task, account))
		return 0;
	total = *(volatile unsigned long long *)&task->sched_info.run_delay;
	ahead = account->ahead;
	part = total - account->charged - ahead;
	if (part <= 0 || compare_and_swap(&account->ahead, ahead, ahead + part) != ahead)
		return 0;
	return part;
}

/*
 * No program ran at the switch to `prev`: it was before the programs were attached, or the kernel
 * has skipped one. The scheduler has recorded the moment of the switch (last_arrival), but not for
 * the idle task. The wait that ended with it is the growth of run_delay since the end before.
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
	begin_slice(past, cpu, runner_of(prev, group), &then);
}

/*
 * A thread gets the CPU, or the idle task. `account`: of the thread, NULL if it has none.
 * `offset`: CLOCK_MONOTONIC - the clock of the CPU.
 */
static __always_inline runner account_next(struct task_struct *prev, struct task_struct *next,
					   struct task_account *account, __u32 cpu,
					   const struct moment *now, __u64 offset)
{
	struct past *past = bpf_map_lookup_elem(&pasts, &cpu);
	runner runner = make_runner(GROUP_IDLE, RANK_IDLE);

	if (!past)
		return runner;
	if (unlikely(past->pid != (__u32)prev->pid))
		note_unseen(past, prev, cpu, now, offset);
	if (next->pid) {
		__u64 group = group_of_thread(next, account);

		/* Else the next end of a wait charges this one too. */
		if (likely(account)) {
			__u64 before = account->before;

			end_wait(next, account, group, past, cpu, now);
			end_block(account, now->clock + offset - (account->before - before));
		}
		runner = runner_of(next, group);
	}
	begin_slice(past, cpu, runner, now);
	if (likely(account))
		enter_epoch(past, next, account);
	past->pid = next->pid;
	return runner;
}

#endif
