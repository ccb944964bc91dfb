/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: who wakes a blocked thread. The program at sched_waking notes the waker in the account
 * of the thread.
 */
#ifndef NOCTULE_WAKER_BPF_H
#define NOCTULE_WAKER_BPF_H

#include "blocked.bpf.h"

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
 * Whether the current thread uses an IP socket. Data over loopback is delivered in a softirq at the
 * end of that call. An interrupt can also run a softirq on top of a thread that has nothing to do
 * with the connection. close() has already removed its descriptor, and a UDP socket may not be
 * connected.
 */
static __always_inline bool is_in_transfer(struct task_struct *task)
{
	const struct pt_regs *registers = registers_of(task);
	enum block_class class;
	enum call call;

	if (task->flags & PF_KTHREAD)
		return false;
	if (task->flags & PF_EXITING)
		return true;
	call = call_of(task, registers);
	if (call != CALL_DESCRIPTOR && call != CALL_WRITE)
		return false;
	class = class_of_file(task, ARGUMENT_1(registers));
	return class == BLOCK_LOOPBACK || class == BLOCK_NETWORK || class == BLOCK_OTHER;
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

/* Records who releases a thread that is woken: the current thread, nobody, or unknown. */
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

#endif
