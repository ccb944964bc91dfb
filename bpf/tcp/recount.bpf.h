/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many sockets are there is what began less what ended. Of a socket whose end no program saw
 * (the kernel skips a program that interrupts itself) it would stay one too many for ever: its
 * account has gone with it. A recount finds those: user space turns the parity, the iterator takes
 * what is there over to the new one, and what is left under the old one is not there any more.
 * Nothing has to stand still for it.
 */
#ifndef NOCTULE_TCP_RECOUNT_BPF_H
#define NOCTULE_TCP_RECOUNT_BPF_H

#include "row.bpf.h"

/* In `counted_in`, beside the id of a cgroup; those count up from 1 and stay below. */
/* The recount was an odd one. */
#define COUNTED_ODD (1ULL << 63)
/* Among those that listen. */
#define COUNTED_LISTENS (1ULL << 62)
#define COUNTED_CGROUP (COUNTED_LISTENS - 1)

/* Set by user space: sockets are taken over to the new parity. */
bool recount_sockets;
/* Parity of the last recount: 0 or 1. */
__u32 recount_parity;

static __always_inline struct presence *presence(__u64 counted_in)
{
	struct tcp_row *row = tcp_row(counted_in & COUNTED_CGROUP);

	return counted_in & COUNTED_LISTENS ? &row->listeners : &row->connections;
}

static __always_inline __u64 current_parity(void)
{
	return recount_parity & 1 ? COUNTED_ODD : 0;
}

/* It is there from now on, in the row of its owner. */
static __always_inline void count_begin(struct socket_account *account)
{
	__u64 counted_in = account->owner.cgroup | current_parity();

	if (account->flags & SOCKET_LISTENS)
		counted_in |= COUNTED_LISTENS;
	account->counted_in = counted_in;
	add_to(presence(counted_in)->begun[counted_in >> 63], 1);
}

/* It is gone. Whatever comes at once with it: what began in a row ends in that row, and once. */
static __always_inline void count_end(struct socket_account *account)
{
	__u64 counted_in = __sync_lock_test_and_set(&account->counted_in, 0);

	if (counted_in)
		add_to(presence(counted_in)->ended[counted_in >> 63], 1);
}

static __always_inline bool count_elsewhere(struct socket_account *account, __u64 before, __u64 now)
{
	if (__sync_val_compare_and_swap(&account->counted_in, before, now) != before)
		return false;
	add_to(presence(before)->ended[before >> 63], 1);
	add_to(presence(now)->begun[now >> 63], 1);
	return true;
}

/*
 * It counts in the row of its owner from now on, unless it has ended meanwhile. A recount can be
 * first once: it turns no parity twice while this runs.
 */
static __always_inline void count_for_owner(struct socket_account *account)
{
	for (int i = 0; i < 2; i++) {
		__u64 before = account->counted_in;
		__u64 now = account->owner.cgroup | (before & ~COUNTED_CGROUP);

		if (!before || before == now || count_elsewhere(account, before, now))
			return;
	}
}

/* The recount has seen it. */
static __always_inline void count_again(struct socket_account *account)
{
	__u64 before = account->counted_in;
	__u64 now = (before & ~COUNTED_ODD) | current_parity();

	if (before && before != now)
		count_elsewhere(account, before, now);
}

/* The account, made when there is none; it belongs to `owner` from now on. NULL: it is refused. */
static __always_inline struct socket_account *make_account(struct sock *sk,
							   struct task_struct *owner, __u32 flags)
{
	struct socket_account *account;

	account = bpf_sk_storage_get(&sockets, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!account)
		return NULL;
	/* The end of what it was before was not seen. */
	if (!is_copy(account, sk))
		count_end(account);
	account->self = (__u64)sk;
	account->id = __sync_fetch_and_add(&sockets_numbered, 1) + 1;
	account->since = bpf_ktime_get_boot_ns();
	account->counted_in = 0;
	account->sent = 0;
	account->received = 0;
	account->acceptance = ACCEPT_DONE;
	account->flags = flags | (is_wanted(owner) ? SOCKET_WANTED : 0);
	describe_process(&account->owner, owner);
	return account;
}

/* The same where it was not tried before: that it is refused is a loss. */
static __always_inline struct socket_account *account_for(struct sock *sk,
							  struct task_struct *owner, __u32 flags)
{
	struct socket_account *account = make_account(sk, owner, flags);

	if (!account)
		count_loss(LOSS_SOCKET);
	return account;
}

#endif
