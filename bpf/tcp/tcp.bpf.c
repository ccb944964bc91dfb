// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP: who connects where, who listens, what fails and why, what is sent again, what was carried.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "call.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* inet_csk_accept has two arguments: v6.10; before it had four. */
const volatile bool accept_takes_struct = false;

/*
 * Programs at functions and iterators over maps come first: libbpf loads programs in their order
 * here, and where the kernel refuses these the object is loaded again without them. So nothing is
 * verified twice.
 */
SEC("fexit/tcp_v4_connect")
int BPF_PROG(v4_connect_ret, struct sock *sk, void *to, int length, int result)
{
	return_from_connect(sk, to, result, false);
	return 0;
}

SEC("fexit/tcp_v6_connect")
int BPF_PROG(v6_connect_ret, struct sock *sk, void *to, int length, int result)
{
	return_from_connect(sk, to, result, true);
	return 0;
}

/* The result stands behind the arguments. Volatile: one read of either would not be verified. */
SEC("fexit/inet_csk_accept")
int csk_accept_ret(unsigned long long *ctx)
{
	struct sock *sk = (struct sock *)*(volatile unsigned long long *)&ctx[2];

	if (!accept_takes_struct)
		sk = (struct sock *)*(volatile unsigned long long *)&ctx[4];
	if (sk)
		return_from_accept(sk);
	return 0;
}

/*
 * Every socket that has an account. Not where the kernel takes a storage from its socket
 * (v7.0: 0be08389c7f2 "bpf: Switch to bpf_selem_unlink_nofail in
 * bpf_local_storage_{map_free, destroy}") while the iterator is about to follow it to the socket,
 * and crashes.
 */
SEC("iter/bpf_sk_storage_map")
int look_at_storage(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct socket_account *account = ctx->value;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tcp;

	if (!sk || !account)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	if (catches_up)
		catch_up_way(sk, tcp);
	if (!is_copy(account, sk))
		look_at(ctx->meta->seq, account, &account->settled, tcp, 0);
	return 0;
}

/* The row that the look has met last, if it is to be taken out: the iterator stands on it. */
__u64 delisted_socket;

/* There instead: every open socket, by its row. */
SEC("iter/bpf_map_elem")
int look_at_table(struct bpf_iter__bpf_map_elem *ctx)
{
	struct socket_account account;
	struct open_socket *open;
	__u64 *key = ctx->key, id;
	struct tcp_sock *tcp;

	if (delisted_socket)
		bpf_map_delete_elem(&open_sockets, &delisted_socket);
	delisted_socket = 0;
	if (!key)
		return 0;
	id = *key;
	open = bpf_map_lookup_elem(&open_sockets, &id);
	if (!open)
		return 0;
	tcp = cast(open->sk, NUMBER_TCP_SOCK);
	if (open->sk && !bpf_probe_read_kernel(&account, sizeof(account), (void *)open->account) &&
	    account.id == id && account.self == open->sk &&
	    look_at(ctx->meta->seq, &account, &open->settled, tcp, open->cookie))
		return 0;
	/* A listing stops when its buffer is full, and goes on by the number of rows. */
	if (!list_sockets)
		delisted_socket = id;
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int from, int to)
{
	if (changes_account(to) && sk->sk_protocol == IPPROTO_TCP)
		change_state(sk, from, to, false);
	return 0;
}

/* Each socket, once, when nobody has it any more. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tcp_destroy_sock, struct sock *sk)
{
	destroy(sk);
	return 0;
}

/*
 * From v7.0 on (trace-v7.0: "tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with
 * SRCU-fast") who runs a program of a tracepoint can lose the CPU in it, and until it goes on the
 * kernel skips the program for everybody else there: hundreds of changes at a time. So there both
 * are attached twice. A change for which the first did not run finds the second, which does nothing
 * for all others.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(set_state_again, struct sock *sk, int from, int to)
{
	if (changes_account(to) && sk->sk_protocol == IPPROTO_TCP)
		change_state(sk, from, to, true);
	return 0;
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(destroy_again, struct sock *sk)
{
	destroy(sk);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit_skb, struct sock *sk, const struct sk_buff *buffer)
{
	/* Volatile: must not be read before the kernel is known to have it. */
	int error = has_retransmit_error ? (int)*(volatile unsigned long long *)&ctx[2] : 0;

	retransmit(sk, segments_of(buffer), error);
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(retransmit_synack, struct sock *sk, const struct request_sock *request)
{
	retransmit_answer(sk, request);
	return 0;
}

/* So many files are looked at for each byte that a reader of the survey gets. */
#define SURVEY_STEP (1 << 15)

__u32 surveyed_files;

/* Some of them are of Multipath TCP. */
bool surveyed_multipath;

/* Somebody has it in a file. Where accept(2) is not seen it stays with who listens. */
static __always_inline void survey_multipath(struct sock *sk, struct task_struct *task)
{
	struct multipath_owner *owner = multipath_owner((__u64)sk);

	surveyed_multipath = true;
	if (!owner || (calls_are_seen && !owner->has_it))
		own_multipath((__u64)sk, task);
}

/*
 * Every file of every process: at the start, and seldom after that. Sockets that nobody saw begin
 * are made known.
 */
SEC("iter/task_file")
int survey_sockets(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct socket_account *account;
	struct file *file = ctx->file;
	struct tcp_sock *tcp;
	struct socket *socket;
	struct sock *sk;
	char step = 0;

	if (!task || !file)
		return 0;
	if (++surveyed_files % SURVEY_STEP == 0)
		bpf_seq_write(ctx->meta->seq, &step, sizeof(step));
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk)
		return 0;
	if (sk->sk_protocol == IPPROTO_MPTCP)
		survey_multipath(sk, task);
	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	account = known_account(sk);
	if (!account) {
		adopt(sk, tcp, task);
		return 0;
	}
	/* When it was found it was in no file. */
	if (!account->owner.pid)
		own(account, task);
	catch_up(account, sk, tcp, task);
	return 0;
}

/* The kernel refuses iterators over maps: after the start this one looks at the sockets. */
const volatile bool survey_looks = false;

/*
 * After that every socket of TCP of a network namespace, those that listen first: at the start, for
 * those that no process has in a file.
 */
SEC("iter/tcp")
int survey_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct socket_account *account;
	struct tcp_sock *tcp;
	struct sock *sk;

	if (!common)
		return 0;
	/* NULL for one in TIME_WAIT, and for a request. */
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp)
		return 0;
	sk = (struct sock *)tcp;
	account = known_account(sk);
	/* Else the iterator of socket storage does. */
	if (catches_up && (has_open_sockets || survey_looks))
		catch_up_way(sk, tcp);
	if (survey_looks && changes_are_seen) {
		if (account && !is_copy(account, sk))
			look_at(ctx->meta->seq, account, &account->settled, tcp, 0);
	} else if (catches_up) {
		return 0;
	} else if (!account) {
		adopt_without_file(sk, tcp);
	} else if (sk->__sk_common.skc_state == TCP_LISTEN) {
		note_listener(sk, account);
	}
	return 0;
}
