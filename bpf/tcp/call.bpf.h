/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data that only the system calls themselves show, on kernels with fexit. A connect that fails
 * before anything is sent (no route, no free port) changes no state. The process that accepts a
 * connection is known only at accept. If the kernel skipped the program of a state change, connect
 * also shows the process that connects.
 */
#ifndef NOCTULE_TCP_CALL_BPF_H
#define NOCTULE_TCP_CALL_BPF_H

#include "existing.bpf.h"

/* struct sockaddr_in or sockaddr_in6, up to the address. */
struct socket_name {
	__u16 family;
	__u16 port;
	__u32 v4;
	__u32 v6[4];
};

/*
 * Reads the peer from the arguments of connect, because the socket does not have it, or no longer
 * has it.
 */
static __always_inline void read_target(struct socket_ends *ends, const struct socket_name *name)
{
	__u32 *peer = (__u32 *)ends->peer;

	ends->peer_port = name->port;
	if (ends->family != AF_INET6) {
		peer[0] = name->v4;
	} else if (name->family == AF_INET6) {
		__builtin_memcpy(peer, name->v6, sizeof(name->v6));
	} else {
		peer[0] = 0;
		peer[1] = 0;
		peer[2] = bpf_htonl(0xffff);
		peer[3] = name->v4;
	}
}

/* Set by user space once all programs at state changes are attached. */
bool changes_are_seen;

/*
 * Called if no program saw that the socket connects. The calling process is known here too. The
 * socket is locked.
 */
static __always_inline void connect_late(struct sock *sk, struct tcp_sock *tcp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct socket_account *account = known_account(sk);
	int state = sk->__sk_common.skc_state;

	if (!changes_are_seen || state == TCP_CLOSE || was_made(sk, SOCKET_CONNECTS))
		return;
	/* In other cases, an account belongs to an earlier connection, whose end no program saw. */
	if (state != TCP_SYN_SENT && account && account->flags & SOCKET_ESTABLISHED)
		return;
	account = make_account(sk, task, SOCKET_CONNECTS);
	if (!account)
		return;
	begin_multipath(account, tcp, task);
	account->since = 0;
	if (was_established(tcp, state))
		begin_late(account, tcp);
}

static __always_inline void fail_call(struct sock *sk, struct tcp_sock *tcp, const void *to,
				      int error, bool v6)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct socket_account *account;
	struct socket_name name = {};
	struct tcp_event event = {};

	bpf_probe_read_kernel(&name, sizeof(name), to);
	/* The IPv6 function called the IPv4 function, which has already reported the failure. */
	if (v6 && is_mapped(name.v6))
		return;
	/* The socket already has an account if it tried to send a SYN. */
	account = known_account(sk);
	if (!account || !(account->flags & SOCKET_CONNECTS)) {
		account = account_for(sk, task, SOCKET_CONNECTS);
		if (account)
			begin_multipath(account, tcp, task);
	}
	if (!account)
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_CONNECT_FAILED);
	read_target(&event.ends, &name);
	event.error = error;
	event.reason = reason_of(event.error);
	report_failure(account, &event);
}

static __always_inline void return_from_connect(struct sock *sk, const void *to, int result,
						bool v6)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!tcp)
		return;
	if (result < 0)
		fail_call(sk, tcp, to, -result, v6);
	else
		connect_late(sk, tcp);
}

/* The process that accepts a connection owns it. Another process may be the listener. */
static __always_inline void return_from_accept(struct sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct socket_account *account;
	__u64 above;

	if (!tcp)
		return;
	above = socket_above(tcp);
	if (above)
		own_multipath(above, task);
	account = known_account(sk);
	if (!account) {
		/* The connection came in before the agent started, and waited to be accepted. */
		adopt(sk, tcp, task);
		return;
	}
	if (!is_own(account, sk))
		return;
	if (!(account->flags & SOCKET_ESTABLISHED) && sk->__sk_common.skc_state != TCP_CLOSE) {
		own(account, task);
		if (__sync_val_compare_and_swap(&account->acceptance, ACCEPT_DONE, ACCEPT_EARLY) !=
		    ACCEPT_WAITS)
			return;
	}
	accept_by(task, account, tcp);
}

#endif
