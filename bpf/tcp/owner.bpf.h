/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ownership of accounts. The account of an incoming connection starts as a copy of the listener's
 * account and later becomes the connection's own. Two programs can see the end of a connection at
 * the same time, but only one of them can claim it.
 */
#ifndef NOCTULE_TCP_OWNER_BPF_H
#define NOCTULE_TCP_OWNER_BPF_H

#include "multipath.bpf.h"

/*
 * Clears the flags. If several programs end a socket at the same time, only one call returns true.
 */
static __always_inline bool take_flags(struct socket_account *account, __u32 flags, __u32 deciding)
{
	return __sync_fetch_and_and(&account->flags, ~flags) & deciding;
}

/*
 * Turns the copy of the listener's account into the account of an incoming connection. If several
 * programs see the connection at the same time, only one call returns true. Changes that the other
 * programs saw are reported late.
 */
static __always_inline bool inherit(struct socket_account *account, struct sock *sk)
{
	__u64 origin = account->self;

	/* 0 means that the account is being created. */
	if (!origin || origin == SELF_TAKEN ||
	    __sync_val_compare_and_swap(&account->self, origin, SELF_TAKEN) != origin)
		return false;
	account->id = __sync_fetch_and_add(&sockets_numbered, 1) + 1;
	account->settled.sent = 0;
	account->settled.received = 0;
	account->acceptance = ACCEPT_DONE;
	account->flags = (account->flags & SOCKET_WANTED) | SOCKET_ACCEPTED;
	/*
	 * This field is stored last. Until then, a program must not use the listener's data as the
	 * data of the connection.
	 */
	__sync_lock_test_and_set(&account->self, (__u64)sk);
	return true;
}

/*
 * Whether the account belongs to this socket. A copy of the listener's account is turned into the
 * socket's own.
 */
static __always_inline bool is_own(struct socket_account *account, struct sock *sk)
{
	return !is_copy(account, sk) || inherit(account, sk);
}

/* Atomic, because the end of the connection may set flags at the same time. */
static __always_inline void mark_wanted(struct socket_account *account, bool wanted)
{
	if (wanted)
		__sync_fetch_and_or(&account->flags, SOCKET_WANTED);
	else
		__sync_fetch_and_and(&account->flags, ~SOCKET_WANTED);
}

static __always_inline void own(struct socket_account *account, struct task_struct *task)
{
	describe_process(&account->owner, task);
	mark_wanted(account, is_wanted(task));
}

/* Marks the owner as unknown. */
static __always_inline void disown(struct socket_account *account)
{
	struct event_process nobody = {};

	account->owner = nobody;
	mark_wanted(account, is_everybody_wanted());
}

/*
 * Assigns the owner of the MPTCP socket to the account. Returns false if the owner of the MPTCP
 * socket is unknown.
 */
static __always_inline bool join(struct socket_account *account, __u64 above)
{
	struct multipath_owner *owner = multipath_owner(above);

	if (!owner)
		return false;
	account->owner = owner->process;
	mark_wanted(account, owner->wanted);
	return true;
}

/*
 * Marks the connection as no longer waiting for accept(2). accept(2) and the end of the connection
 * can run at the same time, and only one of them gets true.
 */
static __always_inline bool leave_queue(struct socket_account *account)
{
	return __sync_val_compare_and_swap(&account->acceptance, ACCEPT_WAITS, ACCEPT_DONE) ==
	       ACCEPT_WAITS;
}

#endif
