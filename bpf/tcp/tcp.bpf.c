// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP: who connects where, who listens, what fails and why, what is sent again, what was carried.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "retransmit.bpf.h"
#include "existing.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* tcp_retransmit_skb tells of failed attempts too, with an error as its last argument: v6.17. */
const volatile bool has_retransmit_error = false;

/* Set by user space before it reads the iterator: not only settle, but list. */
bool list_sockets;

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int from, int to)
{
	if (sk->sk_protocol == IPPROTO_TCP)
		change_state(sk, from, to);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *sk, const struct sk_buff *buffer)
{
	/* Volatile: must not be read before the kernel is known to have it. */
	if (has_retransmit_error && (int)*(volatile unsigned long long *)&ctx[2])
		return 0;
	retransmit(sk, segments_of(buffer));
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(tcp_retransmit_synack, struct sock *sk, const struct request_sock *request)
{
	retransmit_answer(sk, request);
	return 0;
}

/* Every file of every process, once after attaching. */
SEC("iter/task_file")
int adopt_sockets(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct tcp_sock *tcp;
	struct socket *socket;
	struct sock *sk;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (tcp)
		adopt(sk, tcp, task);
	return 0;
}

/* Every socket that has an account: its payload is settled, so that counters are not late. */
SEC("iter/bpf_sk_storage_map")
int sample_sockets(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct socket_account *account = ctx->value;
	struct socket_sample sample = {};
	struct sock *sk = ctx->sk;
	struct tcp_sock *tcp;

	if (!sk || !account || !(account->flags & (SOCKET_ESTABLISHED | SOCKET_LISTENS)))
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	read_ends(&sample.ends, tcp);
	if (account->flags & SOCKET_ESTABLISHED)
		settle_bytes(account, tcp, &sample.ends);
	if (!list_sockets)
		return 0;
	sample.socket = account->id;
	sample.owner = account->owner;
	sample.since = account->since;
	sample.flags = account->flags;
	bpf_seq_write(ctx->meta->seq, &sample, sizeof(sample));
	return 0;
}
