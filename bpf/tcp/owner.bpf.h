/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose an account is: a connection that comes in begins with a copy of the listener's account and
 * makes it its own. Two programs can see the same end at once; each claim here has one winner.
 */
#ifndef NOCTULE_TCP_OWNER_BPF_H
#define NOCTULE_TCP_OWNER_BPF_H

#include "multipath.bpf.h"

/* Takes the flags away. Of all who end a socket at once one gets true. */
static __always_inline bool take_flags(struct socket_account *account, __u32 flags, __u32 deciding)
{
	return __sync_fetch_and_and(&account->flags, ~flags) & deciding;
}

/*
 * A connection comes in. Its account is a copy of that of the socket that listens, until somebody
 * has seen it: of all who see it at once one gets true, and what the others saw is made up for.
 */
static __always_inline bool inherit(struct socket_account *account, struct sock *sk)
{
	__u64 origin = account->self;

	/* 0: it is about to be made. */
	if (!origin || origin == SELF_TAKEN ||
	    __sync_val_compare_and_swap(&account->self, origin, SELF_TAKEN) != origin)
		return false;
	account->id = __sync_fetch_and_add(&sockets_numbered, 1) + 1;
	account->settled.sent = 0;
	account->settled.received = 0;
	account->acceptance = ACCEPT_DONE;
	account->flags = (account->flags & SOCKET_WANTED) | SOCKET_ACCEPTED;
	/* Last: nobody must take for its own what is still that of who listens. */
	__sync_lock_test_and_set(&account->self, (__u64)sk);
	return true;
}

/* The account is that of this socket, or becomes so. */
static __always_inline bool is_own(struct socket_account *account, struct sock *sk)
{
	return !is_copy(account, sk) || inherit(account, sk);
}

/* At the same time the connection can end, and be marked so. */
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

/* Whose it is is not known. */
static __always_inline void disown(struct socket_account *account)
{
	struct event_process nobody = {};

	account->owner = nobody;
	mark_wanted(account, is_everybody_wanted());
}

/* It is of the process that has the socket of Multipath TCP above; false: that is not known. */
static __always_inline bool join(struct socket_account *account, __u64 above)
{
	struct multipath_owner *owner = multipath_owner(above);

	if (!owner)
		return false;
	account->owner = owner->process;
	mark_wanted(account, owner->wanted);
	return true;
}

/* Of accept(2) and the end of the connection, which can come at once, one gets true. */
static __always_inline bool leave_queue(struct socket_account *account)
{
	return __sync_val_compare_and_swap(&account->acceptance, ACCEPT_WAITS, ACCEPT_DONE) ==
	       ACCEPT_WAITS;
}

#endif
