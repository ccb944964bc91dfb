/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments that were sent again, counted as the kernel does (TcpRetransSegs).
 */
#ifndef NOCTULE_TCP_RETRANSMIT_BPF_H
#define NOCTULE_TCP_RETRANSMIT_BPF_H

#include "state.bpf.h"

/* One buffer can be several segments: the device, or the kernel right before it, cuts it. */
static __always_inline __u32 segments_of(const struct sk_buff *buffer)
{
	const struct tcp_skb_cb *block = (const void *)buffer->cb;
	__u32 segments = BPF_CORE_READ(block, tcp_gso_segs);

	return segments ? segments : 1;
}

static __always_inline void count_retransmits(struct socket_account *account,
					      const struct socket_ends *ends, __u32 segments)
{
	/* Nobody's, as far as is known: the sum of the node has them. */
	__u64 cgroup = account ? account->owner.cgroup : 0;

	add_to(tcp_row(cgroup)->retransmits, segments);
	if (account && account->flags & SOCKET_CONNECTS)
		add_to(destination_row(account, ends)->retransmits, segments);
}

static __always_inline void retransmit(struct sock *sk, __u32 segments)
{
	struct socket_account *account = known_account(sk);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct tcp_event event = {};

	if (!tcp)
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_RETRANSMIT);
	event.retransmits = segments;
	count_retransmits(account, &event.ends, segments);
	if (is_reported(account, EVENT_TCP_RETRANSMIT))
		emit(&facts, &event, sizeof(event), EVENT_TCP_RETRANSMIT);
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
	count_retransmits(account, &event.ends, 1);
	if (is_reported(account, EVENT_TCP_RETRANSMIT))
		emit(&facts, &event, sizeof(event), EVENT_TCP_RETRANSMIT);
}

#endif
