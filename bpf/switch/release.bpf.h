/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: who ended a block. The waker of a thread that waits for a lock, a pipe, a socket on this
 * host or a child is the party that the thread waited for. The program at sched_waking notes the
 * waker in the account of the blocked thread, and the switch that ends the block charges its time.
 * It runs at each wake-up of the machine, so it is attached only on request.
 */
#ifndef NOCTULE_RELEASE_BPF_H
#define NOCTULE_RELEASE_BPF_H

#include "../include/syscall.bpf.h"
#include "blame.bpf.h"
#include "calls.bpf.h"
#include "slice.bpf.h"

const volatile bool releasers_on = false;

enum {
	/* Classes in which a thread waits for the thread that wakes it. */
	RELEASED_CLASSES = 1 << BLOCK_PIPE | 1 << BLOCK_UNIX | 1 << BLOCK_LOCK |
			   1 << BLOCK_LOOPBACK | 1 << BLOCK_CHILD,
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, struct release_key);
	__type(value, struct release);
} releases SEC(".maps");

/* `releases` was full at the last insertion. Rows are never removed. */
__u32 releases_full;

/* Blocks count from this moment (CLOCK_MONOTONIC) on: the start of the window of user space. */
__u64 releases_from;

static const struct release no_release;

/* Whether a signal wakes the thread: one that it does not block is pending. */
static __always_inline bool has_signal(struct task_struct *task, __u32 state)
{
	struct signal_struct *process = to_be_read(task)->signal;
	__u64 pending = task->pending.signal.sig[0] | process->shared_pending.signal.sig[0];

	return state & (TASK_INTERRUPTIBLE | TASK_WAKEKILL) && pending & ~task->blocked.sig[0];
}

/*
 * Whether the program runs on the stack of the current thread. `context` is the array of its
 * arguments, which is on the stack of the caller. The registers are at the top of the stack of the
 * thread. An interrupt in the kernel has a stack of its own.
 */
static __always_inline bool is_on_stack_of(struct task_struct *task, const void *context)
{
	return (__u64)context >= (__u64)task->stack && (__u64)context < (__u64)registers_of(task);
}

/*
 * Whether the current thread runs kernel code of its own. An interrupt from user space and its
 * softirqs use the stack of the thread, but the thread is not in a system call then.
 */
static __always_inline bool is_in_own_call(struct task_struct *task)
{
	return task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING) ||
	       system_call(registers_of(task)) >= 0;
}

/*
 * Whether the current thread sends or receives. Data over loopback is delivered in a softirq at the
 * end of that call. An interrupt can also run a softirq on top of a thread that has nothing to do
 * with the connection.
 */
static __always_inline bool is_in_transfer(struct task_struct *task)
{
	enum call call;

	if (task->flags & PF_KTHREAD)
		return false;
	if (task->flags & PF_EXITING)
		return true;
	call = call_of(task, registers_of(task));
	return call == CALL_DESCRIPTOR || call == CALL_WRITE;
}

/* Who wakes a blocked thread. */
enum awakening { BY_WAKER, BY_NOBODY, BY_UNKNOWN };

/*
 * Returns who wakes a thread that is blocked in this class: `waker`, the current thread; nobody,
 * because a timeout, a signal or another interrupt does; or a thread that cannot be determined.
 */
static __always_inline enum awakening awakening_of(struct task_struct *waker,
						   struct task_struct *task, enum block_class class,
						   const void *context)
{
	bool on_stack = waker->pid && is_on_stack_of(waker, context);
	__u32 state = task_state(task);

	/* The end of a child sends a signal, too. */
	if (class != BLOCK_CHILD && has_signal(task, state))
		return BY_NOBODY;
	if (on_stack && is_in_own_call(waker))
		return BY_WAKER;
	/* Another softirq is a timeout, or delivers what any thread has sent. */
	if (class == BLOCK_LOOPBACK)
		return waker->pid && is_in_transfer(waker) ? BY_WAKER : BY_UNKNOWN;
	/* An interrupt; or a page fault, which can only release a lock of the kernel. */
	return on_stack && state & TASK_UNINTERRUPTIBLE ? BY_UNKNOWN : BY_NOBODY;
}

/* Notes the current thread as the releaser of a thread that it wakes, or that nobody is. */
static __always_inline void note_releaser(struct task_struct *task, struct task_account *account,
					  const void *context)
{
	enum block_class class = *(volatile __u64 *)&account->block & BLOCK_CLASS_MASK;
	struct task_struct *waker = bpf_get_current_task_btf();
	enum awakening awakening;
	struct task_account *own;

	if (!(RELEASED_CLASSES >> class & 1))
		return;
	awakening = awakening_of(waker, task, class, context);
	if (awakening != BY_WAKER) {
		account->releaser = awakening == BY_NOBODY ? RELEASER_NONE : RELEASER_UNKNOWN;
		return;
	}
	own = find_account(waker);
	account->releaser_pid = waker->tgid;
	account->releaser_start = own ? own->process_start : 0;
	account->releaser = group_of(runner_of(waker, group_of_thread(waker, own)));
}

/* Forgets the releaser of the last block, before the next one begins. */
static __always_inline void forget_releaser(struct task_account *account)
{
	account->releaser = RELEASER_UNKNOWN;
	account->releaser_start = 0;
	account->releaser_pid = 0;
	/* A waker does not look for the releaser before it sees the block. */
	barrier();
}

/*
 * Charges a block up to `end` to the releaser, or to none yet if the thread moves. `at` is the
 * moment of the snapshot in progress, or 0. A block that spans it is divided there, as in
 * end_block(): its reader subtracts the rest.
 */
static __always_inline void charge_release(struct task_account *account, bool moves, __u64 block,
					   __u64 end, __u64 at)
{
	__u64 began = block >> BLOCK_CLASS_BITS;
	__u64 begin = began < releases_from ? releases_from : began;
	struct release_key key = {
		.victim = victim_of(account),
		.releaser = moves ? (__u64)RELEASER_LATER : account->releaser,
		.process_start = moves ? 0 : account->releaser_start,
		.pid = moves ? 0 : account->releaser_pid,
		.class = block & BLOCK_CLASS_MASK,
	};
	struct release *row;

	if (!(RELEASED_CLASSES >> key.class & 1) || key.releaser == RELEASER_UNKNOWN ||
	    end <= begin)
		return;
	row = bpf_map_lookup_elem(&releases, &key);
	if (!row && !releases_full)
		row = lookup_or_init(&releases, &key, &no_release);
	if (!row) {
		releases_full = 1;
		count_loss(LOSS_RELEASE_ROW);
		return;
	}
	/* Noted before it is added, so that a reader never counts it twice. */
	if (began < at && at < end)
		note_later_in(row, end - at, at);
	__sync_fetch_and_add(&row->blocked_ns, end - begin);
}

#endif
