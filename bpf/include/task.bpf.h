/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The account of a thread: its counters, and the values of them that are already settled with its
 * cgroup and its process. Every object that counts for the current thread includes this file.
 *
 * `total` is written only while the thread's run queue is locked: by the CPU on which the thread is
 * current, or by the CPU that migrates it. Plain additions therefore lose nothing. `base` is
 * written when a snapshot reads the thread, and when the thread is settled: at its end, or when it
 * moves to another cgroup. The difference between the two is the usage since then. The kernel keeps
 * time and switches in task_struct; for these counters `total` stays 0 and only `base` is used.
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

/* When a thread first ran in an epoch of its CPU (bpf/switch/past.bpf.h). */
struct entry {
	/* Start of the epoch, by the CPU's clock. */
	__u64 epoch;
	/* CPU time of the thread before its first slice in the epoch. */
	__u64 ran;
};

/*
 * The kernel places the value of a task storage 8 bytes after the start of a cache line. A switch
 * uses the first lines, up to `before`, and the line with the waits.
 */
struct task_account {
	__u64 cgroup;
	/* One byte each, because different CPUs set them. */
	/* The process descends from the command that the agent follows. */
	__u8 followed;
	/*
	 * On a leader: the process has or had more than one thread. On another thread: this has
	 * been recorded on the leader.
	 */
	__u8 threads;
	/* The thread has left its CPU for the last time. Everything is settled. */
	__u8 dead;
	/* On a leader: the end of the process has been reported. */
	__u8 reported;
	/* Written last. Until this field is set, `cgroup` and `base` are not valid. */
	__u32 ready;
	/*
	 * Cached row with the waits of the thread's group, valid until the thread changes its
	 * group.
	 */
	__u32 wait_row;
	/* The thread was switched out because its real-time or deadline budget is used up. */
	__u8 held;
	/* The thread was asleep when it was migrated, at `phantom_at`. */
	__u8 phantom;
	/* Whether the thread waits in a queue that can be throttled, which is then in `queue`. */
	__u8 throttle_noted;
	/*
	 * The package on which the thread runs or last ran, plus 1; 0 if unknown. All growth since
	 * the last settling happened on this package.
	 */
	__u8 package;
	/* Number under which the thread is listed for the next snapshot; 0 if it is not listed. */
	__u32 listed;
	/* Low half of the start of the short epoch in which the thread last ran. */
	__u32 epoch;
	/*
	 * How much of run_delay has been charged. `charged` is written when the thread gets a CPU
	 * or migrates, `ahead` by walks during a wait. Each field has one writer, so that no time
	 * is charged twice, whatever the order.
	 */
	__u64 charged;
	__u64 ahead;
	/* run_delay at the end of the last wait. */
	__u64 before;
	/*
	 * The run queue that can be throttled (`throttle_noted`), and its total throttled time
	 * before the wait.
	 */
	__u64 queue;
	__u64 throttled_at;
	/*
	 * When the thread was migrated while it slept, by the CPU's clock. Valid while `phantom` is
	 * set. The scheduler has then set last_queued, although no wait began.
	 */
	__u64 phantom_at;
	/* Replacements for sched_info.last_queued and run_delay, on kernels without them. */
	__u64 queued;
	__u64 delay;
	struct totals total;
	struct totals base;
	/*
	 * Start time of the process, in nanoseconds since boot; 0 if the leader no longer existed.
	 */
	__u64 process_start;
	/* The page cache read in progress: its file, the current page and the last page. */
	__u64 read_mapping;
	__u64 read_index;
	__u64 read_last;
	/* Moment of the last snapshot that read the thread. */
	__u64 seen;
	/* On a leader: moment of the last snapshot that read the carried sums of the process. */
	__u64 carried_seen;
	/* Usage after the moment of a snapshot, and that moment. */
	__u64 later[COUNTERS_OF_SLICES];
	__u64 later_than;
	/* Waits after the moment by cause, in units of 16 ns: up to 68 s. */
	__u32 late_waits[WAIT_CAUSES];
	/* The short and the long epoch in which the thread last ran. */
	struct entry entries[2];
	/* Whether user space was last sent the thread as blocked. */
	__u32 shown_blocked;
	/*
	 * The releaser of the block (bpf/switch/release.bpf.h): pid and start of the process, and
	 * the process's group or a value of enum no_releaser.
	 */
	__u32 releaser_pid;
	__u64 releaser_start;
	__u64 releaser;
	/* The block in progress (bpf/switch/blocked.bpf.h); 0 if the thread is not blocked. */
	__u64 block;
	/*
	 * The portion of a block after the moment of a snapshot, kept for the next snapshot: its
	 * start with the class, its end, and the moment. `late_block` is 0 if there is none.
	 */
	__u64 late_block;
	__u64 late_block_end;
	__u64 late_block_at;
	/* Blocked time by class, of ended blocks that no snapshot has read yet. */
	__u64 blocked[BLOCK_CLASSES];
};

_Static_assert(sizeof(struct task_account) == 240 + 4 * WAIT_CAUSES + 8 * COUNTERS_OF_SLICES +
						      2 * 8 * COUNTER_TOTALS + 8 * BLOCK_CLASSES,
	       "implicit padding");
/*
 * The size includes the 72 bytes that the kernel puts in front. A larger account would take twice
 * the memory.
 */
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

/*
 * Replaces `tasks` on kernels without task storage: accounts by task address, until the task is
 * freed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct task_account);
} accounts SEC(".maps");

/* CLOCK_MONOTONIC when counting began. Set when the programs are attached; 0 before. */
__u64 started_at;

/*
 * Whether the kernel records waits by a clock that programs can read (CONFIG_FAIR_GROUP_SCHED).
 * Otherwise the programs at wake-ups and migrations record them.
 */
const volatile bool scheduler_notes = true;

/*
 * Whether the task is asleep. The entity of a sleeping task can still be queued (v6.12:
 * 152e11f6df29, "sched/fair: Implement delayed dequeue").
 */
static __always_inline bool is_asleep(struct task_struct *task)
{
	return task_state(task) & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE);
}

/* Returns the time since which the thread waits, by its CPU's clock; 0 if it does not wait. */
static __always_inline __u64 queued_since(struct task_struct *task, struct task_account *account)
{
	return scheduler_notes ? task->sched_info.last_queued : account->queued;
}

/* Returns the thread's total run delay, up to the last time that it got a CPU or was migrated. */
static __always_inline __u64 run_delay(struct task_struct *task, struct task_account *account)
{
	return scheduler_notes ? task->sched_info.run_delay : account->delay;
}

/* Records that the thread was queued. */
static __always_inline void note_queued(struct task_account *account, __u64 clock)
{
	if (!scheduler_notes && !account->queued)
		account->queued = clock;
}

/*
 * Records that the thread got a CPU or was dequeued. Callers read queued_since() and run_delay()
 * before this call.
 */
static __always_inline void note_dequeued(struct task_account *account, __u64 clock)
{
	if (scheduler_notes || !account->queued)
		return;
	if (account->queued < clock)
		account->delay += clock - account->queued;
	account->queued = 0;
}

/* Reads the counters that the kernel keeps for each thread: time and switches. */
static __always_inline void kernel_counters(struct task_struct *task, struct counters *c)
{
	c->v[COUNTER_CPU_TIME] = task->se.sum_exec_runtime;
	c->v[COUNTER_SWITCHES_VOLUNTARY] = task->nvcsw;
	c->v[COUNTER_SWITCHES_PREEMPTED] = task->nivcsw;
}

static const struct task_account no_account;

/*
 * Returns the leader of the thread's process, or NULL if the thread was reaped. A leader is reaped
 * after its threads and freed a grace period later. The pointer therefore stays valid while the
 * program runs.
 */
static __always_inline struct task_struct *leader_of(struct task_struct *task)
{
	if (task->pid == task->tgid)
		return task;
	return to_be_read(task)->thread_pid ? task->group_leader : NULL;
}

/* Like leader_of(), but returns a read-only pointer. */
static __always_inline struct task_struct *leader_to_be_read(struct task_struct *task)
{
	task = to_be_read(task);
	if (task->pid == task->tgid)
		return task;
	return task->thread_pid ? task->group_leader : NULL;
}

/* Returns the thread's account, or NULL if it does not have one. */
static __always_inline struct task_account *find_account(struct task_struct *task)
{
	__u64 address = (__u64)task;

	if (!has_task_storage)
		return bpf_map_lookup_elem(&accounts, &address);
	return bpf_task_storage_get(&tasks, task, NULL, 0);
}

/* Deletes the account of a thread that is being freed. */
static __always_inline void drop_account(struct task_struct *task)
{
	__u64 address = (__u64)task;

	if (!has_task_storage)
		bpf_map_delete_elem(&accounts, &address);
}

/* Excludes all waits up to now, including the elapsed time of a wait in progress. */
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
 * Initializes an account so that usage before the agent started is excluded. The program that
 * created the account can be preempted before it gets here, and the thread can run and end
 * meanwhile. The first program that finds the account initializes it, and the preempted one changes
 * nothing.
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
	/*
	 * An exchange orders the earlier stores on every architecture. A plain store does so only
	 * on x86.
	 */
	exchange(&account->ready, 1);
}

/*
 * Returns the storage of the thread's account and creates it if needed. Returns NULL if the kernel
 * refuses.
 */
static __always_inline struct task_account *account_storage(struct task_struct *task)
{
	struct task_account *account = find_account(task);
	__u64 address = (__u64)task;

	if (!has_task_storage) {
		/*
		 * A reaped thread may already be freed. Nothing would delete a new account of a
		 * freed thread.
		 */
		if (account || (task_state(task) & TASK_DEAD && !task->thread_pid))
			return account;
		return lookup_or_init(&accounts, &address, &no_account);
	}
	/*
	 * The kernel refuses to create storage if another CPU creates storage for this thread at
	 * the same moment, for the task iterator or for another agent. The kernel also refuses if
	 * such a creation was preempted on this CPU. At the next attempt the storage exists or can
	 * be created. The kernel also refuses many creations in a row on one CPU, until an
	 * interrupt has refilled the allocator.
	 */
	for (int i = 0; i < 3 && unlikely(!account); i++)
		account = bpf_task_storage_get(&tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return account;
}

/*
 * Returns the thread's account and initializes it if needed. NULL if the kernel refuses the
 * storage.
 */
static __always_inline struct task_account *account_of(struct task_struct *task)
{
	struct task_account *account = account_storage(task);

	if (account && unlikely(!account->ready))
		begin_account(task, account);
	return account;
}

/* Like account_of(), but counts a loss if there is no account. */
static __always_inline struct task_account *account_to_charge(struct task_struct *task)
{
	struct task_account *account = account_of(task);

	if (!account)
		count_loss(LOSS_THREAD_ACCOUNT);
	return account;
}

/*
 * Returns the account of the current thread, also on kernels without bpf_get_current_task_btf().
 * NULL if there is none.
 */
static __always_inline struct task_account *find_current_account(void)
{
	__u64 address;

	if (has_task_storage)
		return find_account(bpf_get_current_task_btf());
	address = bpf_get_current_task();
	return bpf_map_lookup_elem(&accounts, &address);
}

/*
 * Like account_to_charge(), for the current thread. Without task storage only the scheduler's
 * programs create accounts.
 */
static __always_inline struct task_account *current_account_to_charge(void)
{
	struct task_account *account;

	if (has_task_storage)
		return account_to_charge(bpf_get_current_task_btf());
	account = find_current_account();
	if (!account)
		count_loss(LOSS_THREAD_ACCOUNT);
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
