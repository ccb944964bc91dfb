/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: the wakers of blocked threads. The program at sched_waking notes the waker in the
 * account of the thread that it wakes.
 */
#ifndef NOCTULE_WAKER_BPF_H
#define NOCTULE_WAKER_BPF_H

#include "blocked.bpf.h"

/* Whether a signal wakes the thread, because a signal that the thread does not mask is pending. */
static __always_inline bool has_signal(struct task_struct *task, __u32 state)
{
	struct signal_struct *process = to_be_read(task)->signal;
	__u64 pending = task->pending.signal.sig[0] | process->shared_pending.signal.sig[0];

	return state & (TASK_INTERRUPTIBLE | TASK_WAKEKILL) && pending & ~task->blocked.sig[0];
}

/*
 * Whether the program runs on the stack of the current thread. `context` is the array of the
 * program's arguments, which is on the stack of the caller. The registers are at the top of the
 * stack of the thread. An interrupt in the kernel uses another stack.
 */
static __always_inline bool is_on_stack_of(struct task_struct *task, const void *context)
{
	return (__u64)context >= (__u64)task->stack && (__u64)context < (__u64)registers_of(task);
}

/*
 * Whether the current thread runs kernel code on its own behalf. An interrupt from user space and
 * its softirqs also use the stack of the thread, but then the thread is not in a system call.
 */
static __always_inline bool is_in_own_call(struct task_struct *task)
{
	return task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING) ||
	       system_call(registers_of(task)) >= 0;
}

/*
 * Whether the current thread is in a call on an IP socket. At the end of such a call, a softirq
 * delivers the data that the call sent over loopback. Without this test, the program would also
 * accept a softirq of an interrupt, whose thread is unrelated to the connection. The class may be
 * BLOCK_OTHER, because close() has already removed the descriptor, or because a UDP socket is not
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

/* The party that wakes a blocked thread: the current thread, no thread, or an unknown one. */
enum awakening { BY_WAKER, BY_NOBODY, BY_UNKNOWN };

/*
 * Determines what wakes `task`, which is blocked in `class`. Returns BY_WAKER for the current
 * thread (`waker`), BY_NOBODY for a timeout, a signal or another interrupt, and BY_UNKNOWN if the
 * program cannot distinguish these cases.
 */
static __always_inline enum awakening awakening_of(struct task_struct *waker,
						   struct task_struct *task, enum block_class class,
						   const void *context)
{
	bool on_stack = waker->pid && is_on_stack_of(waker, context);
	__u32 state = task_state(task);

	/* A child that ends also sends a signal, so a signal does not rule out the child. */
	if (class != BLOCK_CHILD && has_signal(task, state))
		return BY_NOBODY;
	if (on_stack && is_in_own_call(waker))
		return BY_WAKER;
	/* A softirq outside a transfer is a timeout, or delivers data that any thread has sent. */
	if (class == BLOCK_LOOPBACK)
		return waker->pid && is_in_transfer(waker) ? BY_WAKER : BY_UNKNOWN;
	/* This is an interrupt, or a page fault, which can only release a lock of the kernel. */
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
