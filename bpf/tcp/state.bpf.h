/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happens to a socket, from the changes of its state. Each connection ends in TCP_CLOSE,
 * whoever ended it and however: closed by its last owner, killed with it, reset, timed out.
 */
#ifndef NOCTULE_TCP_STATE_BPF_H
#define NOCTULE_TCP_STATE_BPF_H

#include "row.bpf.h"

/* Process, OOM and TCP events; the ring of the object lifecycle. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22); /* set at load */
} facts SEC(".maps");

static __always_inline void describe_socket(struct tcp_event *event, struct tcp_sock *tcp,
					    struct socket_account *account, enum event_kind kind)
{
	event->head.time = bpf_ktime_get_boot_ns();
	event->head.kind = kind;
	if (account) {
		event->head.process = account->owner;
		event->socket = account->id;
	}
	read_ends(&event->ends, tcp);
}

/* Events of a socket without an account are of interest when those of everybody are. */
static __always_inline bool is_told(struct socket_account *account, enum event_kind kind)
{
	if (!is_streamed(kind))
		return false;
	return account ? account->flags & SOCKET_WANTED : !filter_processes && !filter_cgroups;
}

static __always_inline void begin_listen(struct sock *sk, struct tcp_sock *tcp)
{
	struct socket_account *account;
	struct tcp_event event = {};

	account = account_for(sk, bpf_get_current_task_btf(), SOCKET_LISTENS);
	if (!account)
		return;
	add_to(tcp_row(account->owner.cgroup)->listens, 1);
	if (!is_told(account, EVENT_TCP_LISTEN))
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_LISTEN);
	emit(&facts, &event, sizeof(event), EVENT_TCP_LISTEN);
}

static __always_inline void end_listen(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	add_to(tcp_row(account->owner.cgroup)->listen_closes, 1);
	account->flags &= ~SOCKET_LISTENS;
	if (!is_told(account, EVENT_TCP_LISTEN_CLOSE))
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_LISTEN_CLOSE);
	emit(&facts, &event, sizeof(event), EVENT_TCP_LISTEN_CLOSE);
}

/* A connection comes in. Its account is a copy of that of the socket that listens. */
static __always_inline void inherit(struct socket_account *account)
{
	account->id = __sync_fetch_and_add(&sockets_numbered, 1) + 1;
	account->sent = 0;
	account->received = 0;
	account->flags = (account->flags & SOCKET_WANTED) | SOCKET_ACCEPTED;
}

static __always_inline void establish(struct socket_account *account, struct tcp_sock *tcp)
{
	bool connects = account->flags & SOCKET_CONNECTS;
	enum event_kind kind = connects ? EVENT_TCP_CONNECT : EVENT_TCP_ACCEPT;
	struct tcp_row *row = tcp_row(account->owner.cgroup);
	struct destination_row *destination;
	struct tcp_event event = {};

	describe_socket(&event, tcp, account, kind);
	add_to(row->opened, 1);
	if (connects) {
		/* 0: it was on its way before the agent was there. */
		if (account->since)
			event.duration_ns = event.head.time - account->since;
		add_to(row->connects, 1);
		add_to(row->connect_ns, event.duration_ns);
		if (account->since)
			add_connect_time(account->owner.cgroup, event.duration_ns);
		destination = destination_row(account, &event.ends);
		add_to(destination->connects, 1);
		add_to(destination->connect_ns, event.duration_ns);
		add_to(destination->opened, 1);
	} else {
		add_to(row->accepts, 1);
	}
	account->since = event.head.time;
	account->flags |= SOCKET_ESTABLISHED;
	if (is_told(account, kind))
		emit(&facts, &event, sizeof(event), kind);
}

static __always_inline enum connect_error reason_of(__u32 error)
{
	switch (error) {
	case 0:
		return CONNECT_ABANDONED;
	case ECONNREFUSED:
	case ECONNRESET:
		return CONNECT_REFUSED;
	case ETIMEDOUT:
		return CONNECT_TIMEOUT;
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
		return CONNECT_UNREACHABLE;
	default:
		return CONNECT_OTHER;
	}
}

static __always_inline void fail(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};
	__u32 reason;

	describe_socket(&event, tcp, account, EVENT_TCP_CONNECT_FAILED);
	event.error = ((struct sock *)tcp)->sk_err;
	/* connect(2) itself fails when there is no port left, and that is in no field. */
	if (!event.error && !event.ends.local_port)
		event.error = EADDRNOTAVAIL;
	reason = reason_of(event.error);
	event.reason = reason;
	if (account->since)
		event.duration_ns = event.head.time - account->since;
	/* Always true, which the verifier does not see and the compiler does. */
	barrier_var(reason);
	if (reason < CONNECT_ERRORS)
		add_to(tcp_row(account->owner.cgroup)->failures[reason], 1);
	add_to(destination_row(account, &event.ends)->failures, 1);
	account->flags &= ~SOCKET_CONNECTS;
	if (is_told(account, EVENT_TCP_CONNECT_FAILED))
		emit(&facts, &event, sizeof(event), EVENT_TCP_CONNECT_FAILED);
}

static __always_inline void end_connection(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	describe_socket(&event, tcp, account, EVENT_TCP_CLOSE);
	settle_bytes(account, tcp, &event.ends);
	add_to(tcp_row(account->owner.cgroup)->closed, 1);
	if (account->flags & SOCKET_CONNECTS)
		add_to(destination_row(account, &event.ends)->closed, 1);
	account->flags &= ~SOCKET_ESTABLISHED;
	if (!is_told(account, EVENT_TCP_CLOSE))
		return;
	event.sent = bytes_sent(tcp);
	event.received = bytes_received(tcp);
	event.retransmits = tcp->total_retrans;
	event.rtt_us = tcp->srtt_us >> 3;
	if (account->since)
		event.duration_ns = event.head.time - account->since;
	emit(&facts, &event, sizeof(event), EVENT_TCP_CLOSE);
}

static __always_inline void end_socket(struct sock *sk, struct tcp_sock *tcp, int from)
{
	struct socket_account *account = known_account(sk);

	if (!account)
		return;
	if (from == TCP_LISTEN) {
		if (account->flags & SOCKET_LISTENS)
			end_listen(account, tcp);
	} else if (account->flags & SOCKET_ESTABLISHED) {
		end_connection(account, tcp);
	} else if (account->flags & SOCKET_CONNECTS) {
		fail(account, tcp);
	}
}

static __always_inline void change_state(struct sock *sk, int from, int to)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct socket_account *account;

	if (!tcp)
		return;
	switch (to) {
	case TCP_SYN_SENT:
		account_for(sk, bpf_get_current_task_btf(), SOCKET_CONNECTS);
		break;
	case TCP_LISTEN:
		begin_listen(sk, tcp);
		break;
	case TCP_SYN_RECV:
		account = known_account(sk);
		if (account && account->flags & SOCKET_LISTENS)
			inherit(account);
		break;
	case TCP_ESTABLISHED:
		account = known_account(sk);
		if (account)
			establish(account, tcp);
		break;
	case TCP_CLOSE:
		end_socket(sk, tcp, from);
		break;
	}
}

#endif
