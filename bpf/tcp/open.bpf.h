/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The open sockets in a table of our own, where the kernel's iterator of socket storage must not be
 * used: the iterator of a table is safe.
 */
#ifndef NOCTULE_TCP_OPEN_BPF_H
#define NOCTULE_TCP_OPEN_BPF_H

#include "socket.bpf.h"

const volatile bool has_open_sockets = false;

struct open_socket {
	/* Address of the socket; 0: it is not open any more. */
	__u64 sk;
	/* The kernel's number of the socket, by which a reader finds out that the memory at `sk` is
	   another socket's by now. */
	__u64 cookie;
	/* Address of its account. */
	__u64 account;
	struct payload settled;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct open_socket);
} open_sockets SEC(".maps");

static __always_inline struct open_socket *open_socket(const struct socket_account *account)
{
	return has_open_sockets ? bpf_map_lookup_elem(&open_sockets, &account->id) : NULL;
}

static __always_inline void enlist(struct socket_account *account, struct sock *sk)
{
	struct open_socket open = {.sk = (__u64)sk, .account = (__u64)account};

	if (!has_open_sockets)
		return;
	open.cookie = bpf_get_socket_cookie(sk);
	open.settled = account->settled;
	if (bpf_map_update_elem(&open_sockets, &account->id, &open, BPF_NOEXIST))
		count_loss(LOSS_SOCKET);
}

/* Only the look takes rows out: nobody else may use the memory of a row that it looks at. */
static __always_inline void delist(struct socket_account *account)
{
	struct open_socket *open = open_socket(account);

	if (open)
		open->sk = 0;
}

static __always_inline struct payload *settled(struct socket_account *account)
{
	struct open_socket *open = open_socket(account);

	return open ? &open->settled : &account->settled;
}

#endif
