/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: blocked time, by the kind of event that the thread waits for. A blocked thread is
 * neither running nor runnable. The class is determined when the thread leaves its CPU, because at
 * that time its state and its system call are still known. A block ends when the thread becomes
 * runnable. Run-queue latency therefore begins exactly where blocked time ends, and no program runs
 * at wake-ups.
 *
 * A sleeping thread costs nothing. A snapshot reads a block in progress once, and user space adds
 * the elapsed time until the thread is read again.
 */
#ifndef NOCTULE_BLOCKED_BPF_H
#define NOCTULE_BLOCKED_BPF_H

#include "../include/compat.bpf.h"
#include "../include/syscall.bpf.h"
#include "../include/task.bpf.h"
#include "calls.bpf.h"
#include "release.bpf.h"

enum {
	S_IFMT = 0170000,
	S_IFIFO = 0010000,
	S_IFCHR = 0020000,
	S_IFSOCK = 0140000,
	AF_UNIX = 1,
	LOOPBACK_NET = 127,
	/* balance_dirty_pages() is not called before a thread has dirtied this many pages. */
	LEAST_DIRTIED = 8,
};

_Static_assert(BLOCK_OTHER <= BLOCK_CLASS_MASK, "a class does not fit");

/* Since v5.18 (9c2136be0878) sched_switch has the state of `prev` as its last argument. */
const volatile bool has_prev_state = false;

/*
 * Returns the state in which the thread leaves its CPU; 0 if it is still runnable. `preempt` is not
 * enough, because it is set only if the kernel itself was preempted. A waker can change __state
 * after the scheduler's decision, whereas the argument has the state at the decision.
 */
static __always_inline __u32 state_at_switch(unsigned long long *ctx, bool preempt,
					     struct task_struct *prev)
{
	if (preempt)
		return 0;
	/* Volatile, because the argument must not be read before the kernel is known to pass it. */
	if (has_prev_state)
		return *(volatile unsigned long long *)&ctx[3];
	return task_state(prev);
}

/* Whether a connection stays on the host: over loopback, or to the host's own address. */
static __always_inline bool is_same_host4(__be32 here, __be32 there)
{
	/* Tests the first byte on the wire. */
	return (there & 0xff) == LOOPBACK_NET || (there && there == here);
}

/* Like is_same_host4(). Without CONFIG_IPV6 a socket has no IPv6 addresses. */
static __always_inline bool is_same_host6(const struct sock_common *sock)
{
	struct in6_addr here, there;
	const __u64 *one = (const void *)&here, *other = (const void *)&there;

	if (!bpf_core_field_exists(sock->skc_v6_daddr))
		return false;
	bpf_core_read(&here, sizeof(here), &sock->skc_v6_rcv_saddr);
	bpf_core_read(&there, sizeof(there), &sock->skc_v6_daddr);
	return (other[0] || other[1]) && one[0] == other[0] && one[1] == other[1];
}

/*
 * Returns the class of a blocked socket operation on kernels before v6.2, where a pointer cannot be
 * cast to a kernel type.
 */
static __always_inline enum block_class class_of_older_socket(struct socket *socket)
{
	struct sock *sock = BPF_CORE_READ(socket, sk);

	switch (BPF_CORE_READ(sock, __sk_common.skc_family)) {
	case AF_UNIX:
		return BLOCK_UNIX;
	case AF_INET:
		return is_same_host4(BPF_CORE_READ(sock, __sk_common.skc_rcv_saddr),
				     BPF_CORE_READ(sock, __sk_common.skc_daddr))
			       ? BLOCK_LOOPBACK
			       : BLOCK_NETWORK;
	case AF_INET6:
		return is_same_host6(&sock->__sk_common) ? BLOCK_LOOPBACK : BLOCK_NETWORK;
	default:
		return BLOCK_POLL;
	}
}

/* Returns the class of a blocked socket operation. */
static __always_inline enum block_class class_of_socket(struct file *file)
{
	struct socket *socket = read_at(file, NUMBER_FILE, private_data);
	struct sock_common *sock;

	if (!can_be_cast(NUMBER_SOCKET))
		return class_of_older_socket(socket);
	socket = cast(socket, NUMBER_SOCKET);
	sock = &socket->sk->__sk_common;
	switch (sock->skc_family) {
	case AF_UNIX:
		return BLOCK_UNIX;
	case AF_INET:
		return is_same_host4(sock->skc_rcv_saddr, sock->skc_daddr) ? BLOCK_LOOPBACK
									   : BLOCK_NETWORK;
	case AF_INET6:
		return is_same_host6(sock) ? BLOCK_LOOPBACK : BLOCK_NETWORK;
	default:
		/* Netlink and similar sockets wait for a message from the kernel. */
		return BLOCK_POLL;
	}
}

/* Returns the open file of a descriptor, or NULL. */
static __always_inline struct file *file_of(struct task_struct *task, __u32 number)
{
	struct fdtable *table = to_be_read(task)->files->fdt;
	struct file **place = table->fd + number;
	struct file *file;

	if (number >= table->max_fds)
		return NULL;
	/* Any struct whose first field is a pointer works here. */
	if (can_be_cast(NUMBER_LIST_HEAD))
		return (void *)((struct list_head *)cast(place, NUMBER_LIST_HEAD))->next;
	return bpf_probe_read_kernel(&file, sizeof(file), place) ? NULL : file;
}

/* Returns the class of a blocked system call that reads or writes the descriptor. */
static __always_inline enum block_class class_of_file(struct task_struct *task, __u32 number)
{
	struct file *file = file_of(task, number);
	__u16 type;

	if (!file)
		return BLOCK_OTHER;
	if (can_be_cast(NUMBER_FILE))
		type = ((struct file *)cast(file, NUMBER_FILE))->f_inode->i_mode & S_IFMT;
	else
		type = BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
	if (type == S_IFIFO)
		return BLOCK_PIPE;
	/* Without CONFIG_NET there are no sockets. */
	if (type == S_IFSOCK)
		return bpf_core_type_exists(struct socket) ? class_of_socket(file) : BLOCK_OTHER;
	/* A terminal; or an eventfd, inotify or timerfd, whose inodes have no type. */
	if (type == S_IFCHR || !type)
		return BLOCK_POLL;
	return BLOCK_FILESYSTEM;
}

/*
 * Whether the thread is throttled because it dirtied too many pages. balance_dirty_pages() sleeps
 * as for block I/O, but the sleep is killable. A killable read after such writes waits for the
 * disk.
 */
static __always_inline bool is_dirty_throttled(struct task_struct *task, __u32 state,
					       enum call call)
{
	return call == CALL_WRITE && state & TASK_WAKEKILL && task->nr_dirtied >= LEAST_DIRTIED;
}

/* Returns the class of an uninterruptible sleep. */
static __always_inline enum block_class class_of_uninterruptible(struct task_struct *task,
								 __u32 state, enum call call)
{
	if (bpf_core_field_exists(task->in_memstall) && BPF_CORE_READ_BITFIELD(task, in_memstall))
		return BLOCK_MEMORY;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return is_dirty_throttled(task, state, call) ? BLOCK_WRITEBACK : BLOCK_DISK;
	if (bpf_core_field_exists(task->memcg_in_oom) && task->memcg_in_oom)
		return BLOCK_MEMORY;
	switch (call) {
	case CALL_CHILD:
		return BLOCK_CHILD;
	case CALL_FILE:
	case CALL_DESCRIPTOR:
	case CALL_WRITE:
		return BLOCK_FILESYSTEM;
	default:
		return BLOCK_LOCK;
	}
}

/* Returns the class of a thread that leaves its CPU in this state. */
static __always_inline enum block_class class_of_block(struct task_struct *task, __u32 state)
{
	const struct pt_regs *registers;
	enum call call = CALL_NONE;

	if (task->flags & PF_KTHREAD) {
		if (BPF_CORE_READ_BITFIELD(task, in_iowait))
			return BLOCK_DISK;
		return BLOCK_POLL;
	}
	if (state & (__TASK_STOPPED | __TASK_TRACED | TASK_FROZEN) || task->flags & PF_FROZEN)
		return BLOCK_STOPPED;
	/*
	 * In an uninterruptible sleep `frozen` is ambiguous: a vfork parent that waits for its
	 * child also counts as frozen.
	 */
	if (!(state & TASK_UNINTERRUPTIBLE) && bpf_core_field_exists(task->frozen) &&
	    BPF_CORE_READ_BITFIELD(task, frozen))
		return BLOCK_STOPPED;
	/* Without the registers no class can depend on the system call. */
	if (!has_task_registers())
		return state & TASK_UNINTERRUPTIBLE
			       ? class_of_uninterruptible(task, state, CALL_FILE)
			       : BLOCK_OTHER;
	registers = registers_of(task);
	/* An io_uring worker is not in a system call. */
	if (!(task->flags & PF_IO_WORKER))
		call = call_of(task, registers);
	else if (!(state & TASK_UNINTERRUPTIBLE))
		return BLOCK_POLL;
	if (state & TASK_UNINTERRUPTIBLE)
		return class_of_uninterruptible(task, state, call);
	switch (call) {
	case CALL_POLL:
		return BLOCK_POLL;
	case CALL_TIMER:
		return BLOCK_TIMER;
	case CALL_LOCK:
		return BLOCK_LOCK;
	case CALL_CHILD:
		return BLOCK_CHILD;
	case CALL_MESSAGE:
		return BLOCK_PIPE;
	case CALL_FILE:
		return BLOCK_FILESYSTEM;
	case CALL_DESCRIPTOR:
	case CALL_WRITE:
		return class_of_file(task, ARGUMENT_1(registers));
	default:
		return BLOCK_OTHER;
	}
}

/* Records that the thread goes to sleep in this state. */
static __always_inline void begin_block(struct task_struct *task, struct task_account *account,
					__u32 state, __u64 now)
{
	if (releasers_on)
		forget_releaser(account);
	account->block = now << BLOCK_CLASS_BITS | class_of_block(task, state);
}

/* Adds the time from the start of the block to `end`. */
static __always_inline void charge_block(struct task_account *account, __u64 block, __u64 end)
{
	__u32 place = (block & BLOCK_CLASS_MASK) - 1;
	__s64 ns = end - (block >> BLOCK_CLASS_BITS);

	if (place < BLOCK_CLASSES && ns > 0)
		__sync_fetch_and_add(&account->blocked[place], ns);
}

/* Charges block time that was kept during an earlier snapshot than the one at `at`. */
static __always_inline void charge_late_block(struct task_account *account, __u64 at)
{
	if (account->late_block && account->late_block_at != at)
		charge_block(account, exchange(&account->late_block, 0),
			     *(volatile __u64 *)&account->late_block_end);
}

/*
 * Ends the block of a thread that got a CPU and has been runnable since `end`. During a snapshot,
 * the time of the block after the snapshot's moment is kept for the next snapshot.
 */
static __always_inline void end_block(struct task_account *account, __u64 end)
{
	__u64 at = sample_at, block;

	if (!account->block)
		return;
	/*
	 * Another CPU may be moving the thread to another cgroup and dividing the block between the
	 * two cgroups.
	 */
	block = exchange(&account->block, 0);
	if (unlikely(at) && end > at && block >> BLOCK_CLASS_BITS < at) {
		charge_late_block(account, at);
		charge_block(account, block, at);
		account->late_block_end = end;
		account->late_block_at = at;
		account->late_block = at << BLOCK_CLASS_BITS | (block & BLOCK_CLASS_MASK);
	} else {
		charge_block(account, block, end);
	}
	if (releasers_on)
		charge_release(account, false, block, end, at);
}

/*
 * Divides a block when the thread moves to another cgroup: the time up to now belongs to the old
 * group.
 */
static __always_inline void divide_block(struct task_account *account, __u64 now)
{
	__u64 block = *(volatile __u64 *)&account->block;
	__u64 rest = now << BLOCK_CLASS_BITS | (block & BLOCK_CLASS_MASK);

	if (!block || compare_and_swap(&account->block, block, rest) != block)
		return;
	charge_block(account, block, now);
	if (releasers_on)
		charge_release(account, true, block, now, 0);
}

/*
 * Whether the thread is running or runnable. With delayed dequeue a sleeping thread stays in its
 * queue.
 */
static __always_inline bool is_queued(struct task_struct *task)
{
	return task->on_rq &&
	       !(bpf_core_field_exists(task->se.sched_delayed) && task->se.sched_delayed);
}

/*
 * Detects a block that began before the agent started, on the first visit of a walk. The run queue
 * is not locked. If the thread has been woken meanwhile, its next switch determines whether it is
 * blocked.
 */
static __always_inline void find_block(struct task_struct *task, struct task_account *account)
{
	__u32 state = task_state(task);
	__u64 block;

	if (!state || state & TASK_DEAD || is_queued(task) || account->block ||
	    task->start_time >= started_at)
		return;
	block = started_at << BLOCK_CLASS_BITS | class_of_block(task, state);
	if (compare_and_swap(&account->block, 0, block))
		return;
	if (task_state(task) != state || is_queued(task))
		compare_and_swap(&account->block, block, 0);
}

/* Returns the block in progress for user space, and records that user space has seen it. */
static __always_inline __u64 show_block(struct task_account *account)
{
	__u64 block = *(volatile __u64 *)&account->block;

	account->shown_blocked = !!block;
	return block;
}

/* Moves the time of ended blocks to `c`. */
static __always_inline void take_blocked(struct task_account *account, struct counters *c, __u64 at)
{
	charge_late_block(account, at);
#pragma clang loop unroll(full)
	for (int i = 0; i < BLOCK_CLASSES; i++) {
		c->v[COUNTER_BLOCKED + i] = 0;
		if (account->blocked[i])
			c->v[COUNTER_BLOCKED + i] = exchange(&account->blocked[i], 0);
	}
}

#endif
