/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets that are older than the agent.
 */
#ifndef NOCTULE_TCP_EXISTING_BPF_H
#define NOCTULE_TCP_EXISTING_BPF_H

#include "late.bpf.h"

/* During a survey of sockets: the listener of a port in a network namespace. */
struct listener_key {
	__u64 netns;
	__u32 port;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct listener_key);
	__type(value, struct event_process);
} listeners SEC(".maps");

static __always_inline __u32 existing_flags(int state)
{
	switch (state) {
	case TCP_LISTEN:
		return SOCKET_LISTENS;
	case TCP_SYN_SENT:
		return SOCKET_CONNECTS;
	case TCP_SYN_RECV:
	case TCP_CLOSE:
		return 0;
	default:
		return SOCKET_ESTABLISHED;
	}
}

/* Starts to count the socket from its current values. */
static __always_inline void take_over(struct socket_account *account, struct sock *sk,
				      struct tcp_sock *tcp, int state)
{
	account->since = 0;
	account->retransmits = tcp->total_retrans;
	if (state != TCP_SYN_SENT && is_request_counted(tcp))
		account->flags |= SOCKET_SYN_COUNTED;
	account->settled = read_payload(tcp, account->flags, state);
	enlist(account, sk);
	/* The last state change of the socket may have found no account. */
	if (sk->__sk_common.skc_state == TCP_CLOSE && state != TCP_CLOSE) {
		delist(account);
		bpf_sk_storage_delete(&sockets, sk);
	}
}

/* The first process found with an open descriptor of the socket owns it. */
static __always_inline void adopt(struct sock *sk, struct tcp_sock *tcp, struct task_struct *owner)
{
	int state = sk->__sk_common.skc_state;
	__u32 flags = existing_flags(state);
	struct socket_account *account;

	if (!flags || known_account(sk))
		return;
	account = account_for(sk, owner, flags);
	if (account)
		take_over(account, sk, tcp, state);
}

static __always_inline struct listener_key listener_key(const struct sock *sk)
{
	struct listener_key key = {.port = sk->__sk_common.skc_num};

	if (bpf_core_field_exists(sk->__sk_common.skc_net.net))
		key.netns = (__u64)sk->__sk_common.skc_net.net;
	return key;
}

static __always_inline void note_listener(const struct sock *sk,
					  const struct socket_account *account)
{
	struct listener_key key = listener_key(sk);

	bpf_map_update_elem(&listeners, &key, &account->owner, BPF_ANY);
}

/*
 * Adopts a socket that is in no file. If such a socket waits to be accepted, it belongs to the
 * listener. If Multipath TCP uses it, it belongs to the owner of the MPTCP socket. If it is on its
 * way to another process, it has no owner.
 */
static __always_inline void adopt_without_file(struct sock *sk, struct tcp_sock *tcp)
{
	struct multipath_owner *above = multipath_owner(socket_above(tcp));
	struct listener_key key = listener_key(sk);
	int state = sk->__sk_common.skc_state;
	__u32 flags = existing_flags(state);
	struct socket_account *account;
	struct event_process *owner;

	if (!flags)
		return;
	owner = above ? &above->process : NULL;
	if (!owner && !sk->sk_socket) {
		owner = bpf_map_lookup_elem(&listeners, &key);
		/* No process to charge, or a connection that its process has already closed. */
		if (!owner || state == TCP_SYN_SENT || has_sent_end(state))
			return;
		flags |= SOCKET_ACCEPTED;
	}
	account = bpf_sk_storage_get(&sockets, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!account)
		return;
	account->self = (__u64)sk;
	account->id = __sync_fetch_and_add(&sockets_numbered, 1) + 1;
	if (above)
		flags |= above->wanted;
	else if (is_everybody_wanted())
		flags |= SOCKET_WANTED;
	account->flags = flags;
	if (owner)
		account->owner = *owner;
	if (calls_are_seen && flags & SOCKET_ACCEPTED && !is_joining(tcp))
		account->acceptance = ACCEPT_WAITS;
	take_over(account, sk, tcp, state);
	if (state == TCP_LISTEN)
		note_listener(sk, account);
}

#endif
