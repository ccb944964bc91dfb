/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Open sockets in our own table, for kernels where the iterator over socket storage is not safe.
 * Iterating over a table is safe.
 */
#ifndef NOCTULE_TCP_OPEN_BPF_H
#define NOCTULE_TCP_OPEN_BPF_H

#include "socket.bpf.h"

const volatile bool has_open_sockets = false;

struct open_socket {
	/* Address of the socket, or 0 once it is closed. */
	__u64 sk;
	/*
	 * The kernel's socket cookie. If the cookie differs, the memory at `sk` belongs to another
	 * socket.
	 */
	__u64 cookie;
	/* Address of the socket's account. */
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
		count_loss(LOSS_SOCKET_ACCOUNT);
}

/* Only the scan deletes rows, so that the row it reads is not reused. */
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
