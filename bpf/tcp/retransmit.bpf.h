/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Retransmitted segments, counted as in the kernel (TcpRetransSegs).
 */
#ifndef NOCTULE_TCP_RETRANSMIT_BPF_H
#define NOCTULE_TCP_RETRANSMIT_BPF_H

#include "emit.bpf.h"

/*
 * Since v6.17 tcp_retransmit_skb also reports failed attempts, with the error as its last argument.
 */
const volatile bool has_retransmit_error = false;

/*
 * A buffer can hold several segments. The device splits them, or the kernel does so just before it
 * passes the buffer to the device.
 */
static __always_inline __u32 segments_of(const struct sk_buff *buffer)
{
	const struct tcp_skb_cb *block = (const void *)buffer->cb;
	__u32 segments = BPF_CORE_READ(block, tcp_gso_segs);

	return segments ? segments : 1;
}

static __always_inline void count_retransmits(struct socket_account *account, bool connects,
					      const struct socket_ends *ends, __u32 segments)
{
	/* Without a known owner, only the sum of the node counts them. */
	__u64 cgroup = account ? account->owner.cgroup : 0;

	add_to(tcp_row(cgroup)->retransmits, segments);
	if (account && connects)
		add_to(destination_row(account, ends)->retransmits, segments);
}

/* Returns retransmitted segments that are not reported yet. The socket is locked. */
static __always_inline __u32 unreported(struct socket_account *account, const struct tcp_sock *tcp)
{
	__u32 now = tcp->total_retrans, before = account->retransmits;

	account->retransmits = now;
	return now > before ? now - before : 0;
}

/*
 * Whether the kernel did not try to send: the segment is still in this host's queue, or the peer's
 * window is full. The kernel does not count this as a retransmission.
 */
static __always_inline bool was_not_tried(int error)
{
	return error == -EBUSY || error == -EAGAIN;
}

/*
 * `error` is set if this host dropped the segments, or did not try to send them. Before v6.17 such
 * failures are not reported, and are detected at the next attempt, because the kernel counted them.
 * If more segments were retransmitted than reported, it is unknown whether this host dropped the
 * others.
 */
static __always_inline void retransmit(struct sock *sk, __u32 segments, int error)
{
	struct socket_account *account = known_account(sk);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct tcp_event event = {};
	__u32 all = was_not_tried(error) ? 0 : segments;

	if (!tcp)
		return;
	if (account && !is_copy(account, sk))
		all = unreported(account, tcp);
	if (!all)
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_RETRANSMIT);
	event.retransmits = all;
	if (error && !was_not_tried(error))
		event.failed = all < segments ? 0 : segments;
	else if (!has_retransmit_error && all > segments)
		event.failed = all - segments;
	count_retransmits(account, account && account->flags & SOCKET_CONNECTS, &event.ends, all);
	if (is_reported(account, EVENT_TCP_RETRANSMIT))
		emit(&facts, &event, sizeof(event), EVENT_TCP_RETRANSMIT);
}

/*
 * Reports the failed attempts after the last successful one, at the end of a connection. If the
 * programs did not see every change (`late`), the fate of these attempts is unknown. `event` is
 * reused for the report, then restored to `kind`.
 */
static __always_inline void report_last_attempts(struct socket_account *account,
						 struct tcp_sock *tcp, bool connects, bool late,
						 struct tcp_event *event, enum event_kind kind)
{
	__u32 rest = unreported(account, tcp);

	if (!rest)
		return;
	count_retransmits(account, connects, &event->ends, rest);
	if (!is_reported(account, EVENT_TCP_RETRANSMIT))
		return;
	event->head.kind = EVENT_TCP_RETRANSMIT;
	event->retransmits = rest;
	event->failed = has_retransmit_error || late ? 0 : rest;
	emit(&facts, event, sizeof(*event), EVENT_TCP_RETRANSMIT);
	event->head.kind = kind;
	event->retransmits = 0;
	event->failed = 0;
}

/* A SYN-ACK is retransmitted. `sk` is the listener. */
static __always_inline void retransmit_answer(struct sock *sk, const struct request_sock *request)
{
	struct socket_account *account = known_account(sk);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct tcp_event event = {};

	if (!tcp)
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_RETRANSMIT);
	read_addresses(&event.ends, &request->__req_common);
	event.retransmits = 1;
	count_retransmits(account, false, &event.ends, 1);
	if (is_reported(account, EVENT_TCP_RETRANSMIT))
		emit(&facts, &event, sizeof(event), EVENT_TCP_RETRANSMIT);
}

#endif
