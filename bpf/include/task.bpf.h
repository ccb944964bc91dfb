/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The account of a thread: its counters, and the part of them that is settled with its cgroup and
 * its process. Shared by every object that counts something for the current thread.
 *
 * `total` is written only with the run queue of the thread locked (by the CPU on which it is
 * current, or by the one that migrates it), so plain additions lose nothing; `base` where a
 * snapshot reads the thread, and by settling (at its end, or when it is moved to another cgroup).
 * The difference is the use since then. Time and switches are kept by the kernel in task_struct:
 * for them `total` stays 0 and only `base` is used.
 */
#ifndef NOCTULE_TASK_BPF_H
#define NOCTULE_TASK_BPF_H

#include "kernel.h"
#include "abi.bpf.h"
#include "cgroup.bpf.h"
#include "clock.bpf.h"
#include "compat.bpf.h"
#include "loss.bpf.h"
#include "row.bpf.h"
#include "slot.bpf.h"

/* A thread in an epoch of its CPU (bpf/switch/past.bpf.h). */
struct entry {
	/* The begin of the epoch, by the clock of the CPU. */
	__u64 epoch;
	/* What the thread had run until its first slice of the epoch. */
	__u64 ran;
};

/*
 * The kernel puts the value of a storage 8 bytes behind the beginning of a cache line. A switch
 * takes the line up to `before`, and that of the waits.
 */
struct task_account {
	__u64 cgroup;
	/* One byte each, because different CPUs set them. */
	/* Descends from the command that the agent follows. */
	__u8 followed;
	/*
	 * On a leader: the process has or had more than one thread. On another thread: that is
	 * noted with the leader.
	 */
	__u8 threads;
	/* The thread has left its CPU for the last time; everything is settled. */
	__u8 dead;
	/* On a leader: the end of the process was reported. */
	__u8 reported;
	/* Set last: before, `cgroup` and `base` mean nothing. */
	__u32 ready;
	/* The row of its group's waits, if that has not changed. */
	__u32 wait_row;
	/* Is switched out because its real-time or deadline budget is used up. */
	__u8 held;
	/* It slept when it was migrated, at `phantom_at`. */
	__u8 phantom;
	/* Waits in a queue that can be throttled: `queue`. */
	__u8 throttle_noted;
	/*
	 * The package on which it runs, or ran last, plus 1; 0: unknown. All its counters since it
	 * was settled grew there.
	 */
	__u8 package;
	/* The number under which the thread is listed for the next snapshot; 0: it is not. */
	__u32 listed;
	/* Low half of the begin of the short epoch in which it ran last. */
	__u32 epoch;
	/*
	 * The parts of run_delay that are charged: `charged` where the thread gets a CPU or
	 * migrates, `ahead` by walks, while a wait goes on. Each has one writer, so that nothing is
	 * charged twice in either order.
	 */
	__u64 charged;
	__u64 ahead;
	/* run_delay at the end of its last wait. */
	__u64 before;
	/* The queue of `throttle_noted`, and how long it was throttled before. */
	__u64 queue;
	__u64 throttled_at;
	/*
	 * The moment of a migration during which it slept, by the clock of the CPU, while `phantom`
	 * is set. The scheduler has set last_queued then: that is not the beginning of a wait.
	 */
	__u64 phantom_at;
	/* In place of sched_info.last_queued and run_delay, on a kernel without them. */
	__u64 queued;
	__u64 delay;
	struct totals total;
	struct totals base;
	/* Start of its process, in nanoseconds since boot; 0: its leader was gone. */
	__u64 process_start;
	/* The read of the page cache that goes on: its file, where it is and its last page. */
	__u64 read_mapping;
	__u64 read_index;
	__u64 read_last;
	/* The moment of the last snapshot that has read the thread. */
	__u64 seen;
	/* On a leader: the moment of the last that has read the carried sums of the process. */
	__u64 carried_seen;
	/* Its use after the moment of a snapshot, and that moment. */
	__u64 later[COUNTERS_OF_SLICES];
	__u64 later_than;
	/* The short and the long epoch in which it ran last. */
	struct entry entries[2];
	/* User space was last told that the thread is blocked. */
	__u32 shown_blocked;
	__u32 reserved;
	/* The block that lasts (bpf/switch/blocked.bpf.h); 0: the thread is not blocked. */
	__u64 block;
	/*
	 * The part of a block after the moment of a snapshot: begin and class, end, and that
	 * moment. 0: there is none.
	 */
	__u64 late_block;
	__u64 late_block_end;
	__u64 late_block_at;
	/* Blocked time by class that no snapshot has read, of blocks that have ended. */
	__u64 blocked[BLOCK_CLASSES];
};

_Static_assert(sizeof(struct task_account) ==
		       224 + 8 * COUNTERS_OF_SLICES + 2 * 8 * COUNTER_TOTALS + 8 * BLOCK_CLASSES,
	       "implicit padding");
/* With the 72 bytes that the kernel puts in front of it: else it takes twice the memory. */
_Static_assert(sizeof(struct task_account) <= 1024 - 72, "an account takes more than 1 KiB");
_Static_assert((8 + __builtin_offsetof(struct task_account, total.v[COUNTER_WAIT_THROTTLE])) % 64 ==
			       0 &&
		       COUNTER_WAIT_UNATTRIBUTED - COUNTER_WAIT_THROTTLE < 8,
	       "the waits take two cache lines");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_account);
} tasks SEC(".maps");

/* Where there is no task storage: accounts by the address of the thread, until it is freed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct task_account);
} accounts SEC(".maps");

/* CLOCK_MONOTONIC when counting began: set when the programs are attached, 0 before. */
__u64 started_at;

/*
 * The kernel keeps the notes, by a clock that can be read (CONFIG_FAIR_GROUP_SCHED). Else the
 * programs at wake-ups and migrations keep them.
 */
const volatile bool scheduler_notes = true;

/*
 * It sleeps, though it can still be in its queue (v6.12: 152e11f6df29, "sched/fair: Implement
 * delayed dequeue").
 */
static __always_inline bool is_asleep(struct task_struct *task)
{
	return task_state(task) & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE);
}

/* Since when the thread waits, by the clock of its CPU; 0 while it does not. */
static __always_inline __u64 queued_since(struct task_struct *task, struct task_account *account)
{
	return scheduler_notes ? task->sched_info.last_queued : account->queued;
}

/* How long it has waited, ever, up to the last time that it got a CPU or was moved to another. */
static __always_inline __u64 run_delay(struct task_struct *task, struct task_account *account)
{
	return scheduler_notes ? task->sched_info.run_delay : account->delay;
}

/* The thread is queued. */
static __always_inline void note_queued(struct task_account *account, __u64 clock)
{
	if (!scheduler_notes && !account->queued)
		account->queued = clock;
}

/* It gets its CPU, or is dequeued. Callers read queued_since() and run_delay() before. */
static __always_inline void note_dequeued(struct task_account *account, __u64 clock)
{
	if (scheduler_notes || !account->queued)
		return;
	if (account->queued < clock)
		account->delay += clock - account->queued;
	account->queued = 0;
}

/* The counters that the kernel itself keeps for each thread: time and switches. */
static __always_inline void kernel_counters(struct task_struct *task, struct counters *c)
{
	c->v[COUNTER_CPU_TIME] = task->se.sum_exec_runtime;
	c->v[COUNTER_SWITCHES_VOLUNTARY] = task->nvcsw;
	c->v[COUNTER_SWITCHES_PREEMPTED] = task->nivcsw;
}

static const struct task_account no_account;

/*
 * The leader of the thread's process; NULL when the thread was reaped. A leader is reaped after its
 * threads and freed a grace period later, so one that is found here stays for as long as the
 * program runs.
 */
static __always_inline struct task_struct *leader_of(struct task_struct *task)
{
	if (task->pid == task->tgid)
		return task;
	return to_be_read(task)->thread_pid ? task->group_leader : NULL;
}

/* The same, only to be read. */
static __always_inline struct task_struct *leader_to_be_read(struct task_struct *task)
{
	task = to_be_read(task);
	if (task->pid == task->tgid)
		return task;
	return task->thread_pid ? task->group_leader : NULL;
}

/* The thread's account; NULL when it has none. */
static __always_inline struct task_account *find_account(struct task_struct *task)
{
	__u64 address = (__u64)task;

	if (!has_task_storage)
		return bpf_map_lookup_elem(&accounts, &address);
	return bpf_task_storage_get(&tasks, task, NULL, 0);
}

/* The thread is freed. */
static __always_inline void drop_account(struct task_struct *task)
{
	__u64 address = (__u64)task;

	if (!has_task_storage)
		bpf_map_delete_elem(&accounts, &address);
}

/* Waits until now do not count, including the elapsed part of one that has not ended. */
static __always_inline void begin_waits(struct task_struct *task, struct task_account *account)
{
	__u64 waited = run_delay(task, account);
	__u64 queued = queued_since(task, account);
	__u64 clock;

	if (queued && is_asleep(task)) {
		account->phantom_at = queued;
		account->phantom = 1;
	} else if (queued) {
		clock = scheduler_clock(task);
		if (queued < clock)
			waited += clock - queued;
	}
	set_once(&account->charged, waited);
	set_once(&account->before, waited);
}

/*
 * The past of a thread before the agent started does not count. The program that made an account
 * can lose its CPU before it comes here, and the thread can run and end meanwhile: then the program
 * that finds the account first begins it, and the late one changes nothing.
 */
static __always_inline void begin_account(struct task_struct *task, struct task_account *account)
{
	struct totals *base = &account->base;
	struct task_struct *leader = leader_to_be_read(task);

	set_once(&account->cgroup, cgroup_of(task));
	if (leader)
		set_once(&account->process_start, leader->start_boottime);
	if (!started_at || task->start_time < started_at) {
		set_once(&base->v[COUNTER_CPU_TIME], task->se.sum_exec_runtime);
		set_once(&base->v[COUNTER_SWITCHES_VOLUNTARY], task->nvcsw);
		set_once(&base->v[COUNTER_SWITCHES_PREEMPTED], task->nivcsw);
		begin_waits(task, account);
	}
	/* An exchange orders the stores before it on every architecture, a plain store on x86. */
	exchange(&account->ready, 1);
}

/* The storage of the thread's account, made when there is none; NULL when that is refused. */
static __always_inline struct task_account *account_storage(struct task_struct *task)
{
	struct task_account *account = find_account(task);
	__u64 address = (__u64)task;

	if (!has_task_storage) {
		/* One that was reaped may be freed already: nobody would take its account out. */
		if (account || (task_state(task) & TASK_DEAD && !task->thread_pid))
			return account;
		return lookup_or_init(&accounts, &address, &no_account);
	}
	/*
	 * Refused when somebody makes storage for the same thread on another CPU at the same
	 * moment (the task iterator, another agent), or was preempted on this one while it did.
	 * Then it is made, or can be, at the next try. Refused, too, where several are made on one
	 * CPU at once: the kernel brings it more memory by an interrupt.
	 */
	for (int i = 0; i < 3 && unlikely(!account); i++)
		account = bpf_task_storage_get(&tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return account;
}

/* The thread's account, begun when it is not yet; NULL when its storage is refused. */
static __always_inline struct task_account *account_of(struct task_struct *task)
{
	struct task_account *account = account_storage(task);

	if (account && unlikely(!account->ready))
		begin_account(task, account);
	return account;
}

/* The same where something is lost when there is none. */
static __always_inline struct task_account *account_to_charge(struct task_struct *task)
{
	struct task_account *account = account_of(task);

	if (!account)
		count_loss(LOSS_ACCOUNT);
	return account;
}

/* The current thread's, also on a kernel that does not give its type; NULL when it has none. */
static __always_inline struct task_account *find_current_account(void)
{
	__u64 address;

	if (has_task_storage)
		return find_account(bpf_get_current_task_btf());
	address = bpf_get_current_task();
	return bpf_map_lookup_elem(&accounts, &address);
}

/* The same, to charge. Without task storage only the scheduler's hooks make one. */
static __always_inline struct task_account *current_account_to_charge(void)
{
	struct task_account *account;

	if (has_task_storage)
		return account_to_charge(bpf_get_current_task_btf());
	account = find_current_account();
	if (!account)
		count_loss(LOSS_ACCOUNT);
	return account;
}

/* Adds to a counter of the current thread, or of the CPU's idle task. */
static __always_inline void charge_current(enum counter counter, __u64 amount)
{
	struct task_account *account;
	struct cpu_slot *slot;

	if ((__u32)bpf_get_current_pid_tgid() == 0) {
		slot = slot_here();
		if (slot && counter < COUNTER_TOTALS)
			slot->idle.v[counter] += amount;
		return;
	}
	account = current_account_to_charge();
	if (account && counter < COUNTER_TOTALS)
		account->total.v[counter] += amount;
}

#endif
