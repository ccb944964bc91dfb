/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments that were sent again, counted as the kernel does (TcpRetransSegs).
 */
#ifndef NOCTULE_TCP_RETRANSMIT_BPF_H
#define NOCTULE_TCP_RETRANSMIT_BPF_H

#include "emit.bpf.h"

/* tcp_retransmit_skb reports failed attempts too, with an error as its last argument: v6.17. */
const volatile bool has_retransmit_error = false;

/* One buffer can be several segments: the device, or the kernel right before it, cuts it. */
static __always_inline __u32 segments_of(const struct sk_buff *buffer)
{
	const struct tcp_skb_cb *block = (const void *)buffer->cb;
	__u32 segments = BPF_CORE_READ(block, tcp_gso_segs);

	return segments ? segments : 1;
}

static __always_inline void count_retransmits(struct socket_account *account, bool connects,
					      const struct socket_ends *ends, __u32 segments)
{
	/* Nobody's, as far as is known: the sum of the node has them. */
	__u64 cgroup = account ? account->owner.cgroup : 0;

	add_to(tcp_row(cgroup)->retransmits, segments);
	if (account && connects)
		add_to(destination_row(account, ends)->retransmits, segments);
}

/* Segments of the socket that were sent again and are not reported. The socket is locked. */
static __always_inline __u32 unreported(struct socket_account *account, const struct tcp_sock *tcp)
{
	__u32 now = tcp->total_retrans, before = account->retransmits;

	account->retransmits = now;
	return now > before ? now - before : 0;
}

/* It is still in this host's queue, or the other end has no room: the kernel counts nothing. */
static __always_inline bool was_not_tried(int error)
{
	return error == -EBUSY || error == -EAGAIN;
}

/*
 * `error`: this host has dropped them, or not even tried. Before v6.17 that is not reported, and
 * found at the next attempt: the kernel has counted it. More can have been sent again than was
 * reported: what became of that is not known.
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
 * At the end: attempts that failed after the last that did not; if not every change was seen
 * (`late`), what became of them is not known. `event` becomes one of `kind` again.
 */
static __always_inline void tell_rest(struct socket_account *account, struct tcp_sock *tcp,
				      bool connects, bool late, struct tcp_event *event,
				      enum event_kind kind)
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

/* The answer to a connection request is sent again: `sk` listens, and the other end is known. */
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
