/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Socket events: whether an event is reported, and how its record is filled.
 */
#ifndef NOCTULE_TCP_EMIT_BPF_H
#define NOCTULE_TCP_EMIT_BPF_H

#include "look.bpf.h"
#include "multipath.bpf.h"
#include "owner.bpf.h"

/* Process, OOM and TCP events. The ring buffer is shared with the object lifecycle. */
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

/* The caller has set the error and the reason of `event`. */
static __always_inline void report_failure(struct socket_account *account, struct tcp_event *event)
{
	__u32 reason = event->reason;

	if (!take_flags(account, SOCKET_CONNECTS, SOCKET_CONNECTS))
		return;
	if (account->since)
		event->duration_ns = event->head.time - account->since;
	/*
	 * The following condition always holds. The compiler can prove that and would drop the
	 * check, but the verifier needs it.
	 */
	barrier_var(reason);
	if (reason < CONNECT_ERRORS)
		add_to(tcp_row(account->owner.cgroup)->failures[reason], 1);
	/* If a failure is reported late, the kernel no longer has the peer's address. */
	if (event->ends.peer_port)
		add_to(destination_row(account, &event->ends)->failures, 1);
	else
		add_to(other_destinations_row(account->owner.cgroup)->failures, 1);
	if (is_reported(account, EVENT_TCP_CONNECT_FAILED))
		emit(&facts, event, sizeof(*event), EVENT_TCP_CONNECT_FAILED);
}

/*
 * Returns the error that the application could have read before it closed the socket. An ICMP error
 * during a call does not end the connection attempt. The error is kept until the application reads
 * it, in the error queue.
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
	/* An entry that is not an error, such as a timestamp. */
	if (BPF_CORE_READ(block, ee.ee_origin) > SO_EE_ORIGIN_ICMP6)
		return 0;
	return BPF_CORE_READ(block, ee.ee_errno);
}

#endif
