// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * UDP traffic by process and peer, and DNS queries. Packets are seen when a process sends or
 * receives them, so the process is always known. This covers all network namespaces.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "dns.bpf.h"
#include "flow.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

static __always_inline int sends(struct sk_buff *buffer, __u32 of)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct packet packet = {};
	struct sock *sk = buffer->sk;

	if (!sk || !is_wanted(task) || !read_sent(&packet, sk, buffer))
		return 0;
	if (is_streamed(EVENT_DNS_QUERY))
		note_question(&packet, task, of);
	if (is_streamed(EVENT_UDP_FLOW))
		count_packet(&packet, task, false);
	return 0;
}

SEC("fentry/ip_send_skb")
int BPF_PROG(send_4, struct net *net, struct sk_buff *buffer)
{
	return sends(buffer, 0);
}

SEC("fentry/ip6_send_skb")
int BPF_PROG(send_6, struct sk_buff *buffer)
{
	return sends(buffer, 1);
}

/* After a peek (MSG_PEEK) the packet is still in a queue. */
SEC("fentry/skb_consume_udp")
int BPF_PROG(take_packet, struct sock *sk, struct sk_buff *buffer, int length)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct packet packet = {};

	if (length < 0 || buffer->next || !is_wanted(task) || !read_taken(&packet, sk, buffer))
		return 0;
	if (is_streamed(EVENT_DNS_QUERY))
		note_answer(&packet);
	if (is_streamed(EVENT_UDP_FLOW))
		count_packet(&packet, task, true);
	return 0;
}

static __always_inline int closes(struct sock *sk)
{
	__u64 socket = bpf_get_socket_cookie(sk), now = bpf_ktime_get_boot_ns();

	if (bpf_map_delete_elem(&with_flows, &socket))
		return 0;
	/* If the table is full, the flows of the socket end at the idle timeout. */
	bpf_map_update_elem(&closed, &socket, &now, BPF_ANY);
	return 0;
}

SEC("fentry/udp_destroy_sock")
int BPF_PROG(close_4, struct sock *sk)
{
	return closes(sk);
}

SEC("fentry/udpv6_destroy_sock")
int BPF_PROG(close_6, struct sock *sk)
{
	return closes(sk);
}
