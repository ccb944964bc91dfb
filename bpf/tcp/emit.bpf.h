/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events of sockets: when one is reported, and how it is filled in.
 */
#ifndef NOCTULE_TCP_EMIT_BPF_H
#define NOCTULE_TCP_EMIT_BPF_H

#include "look.bpf.h"
#include "multipath.bpf.h"
#include "owner.bpf.h"

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
	if (is_multipath(tcp))
		event->flags |= TCP_MULTIPATH;
	read_ends(&event->ends, tcp);
}

static __always_inline bool is_reported(struct socket_account *account, enum event_kind kind)
{
	if (!is_streamed(kind))
		return false;
	return account ? account->flags & SOCKET_WANTED : is_everybody_wanted();
}

static __always_inline void report_accept(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	if (!is_reported(account, EVENT_TCP_ACCEPT))
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_ACCEPT);
	emit(&facts, &event, sizeof(event), EVENT_TCP_ACCEPT);
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

/* `event` has its error and the reason already. */
static __always_inline void report_failure(struct socket_account *account, struct tcp_event *event)
{
	__u32 reason = event->reason;

	if (!take_flags(account, SOCKET_CONNECTS, SOCKET_CONNECTS))
		return;
	if (account->since)
		event->duration_ns = event->head.time - account->since;
	/* Always true, which the verifier does not see and the compiler does. */
	barrier_var(reason);
	if (reason < CONNECT_ERRORS)
		add_to(tcp_row(account->owner.cgroup)->failures[reason], 1);
	/* Of one that is reported late the socket does not have the other end any more. */
	if (event->ends.peer_port)
		add_to(destination_row(account, &event->ends)->failures, 1);
	else
		add_to(other_destinations_row(account->owner.cgroup)->failures, 1);
	if (is_reported(account, EVENT_TCP_CONNECT_FAILED))
		emit(&facts, event, sizeof(*event), EVENT_TCP_CONNECT_FAILED);
}

/*
 * What the application could learn before it closed the socket: an ICMP error that comes while it
 * is in a call ends nothing. It is kept until it is asked for, and it is in the queue of errors.
 */
static __always_inline __u32 error_so_far(struct sock *sk)
{
	struct sock_exterr_skb *block;
	struct sk_buff *last;

	if (sk->sk_err)
		return sk->sk_err;
	if (sk->sk_err_soft)
		return sk->sk_err_soft;
	if (!BPF_CORE_READ(sk, sk_error_queue.qlen))
		return 0;
	last = BPF_CORE_READ(sk, sk_error_queue.prev);
	block = (void *)last->cb;
	/* Not a time stamp. */
	if (BPF_CORE_READ(block, ee.ee_origin) > SO_EE_ORIGIN_ICMP6)
		return 0;
	return BPF_CORE_READ(block, ee.ee_errno);
}

#endif
