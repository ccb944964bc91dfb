// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP: connections, listeners, failures with their reasons, retransmissions, and payload.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "call.bpf.h"

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

/* Since v6.10 inet_csk_accept has two arguments; before, it had four. */
const volatile bool accept_takes_struct = false;

/*
 * Tracing programs at functions and iterators over maps come first. libbpf loads programs in source
 * order. If the kernel rejects one of these, the object is loaded again without them. This order
 * avoids verifying the other programs twice.
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

/*
 * The return value follows the arguments. The value is volatile because the verifier rejects the
 * read if the compiler merges both.
 */
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
 * Reads every socket with an account. Not used on v7.0 and later (0be08389c7f2 "bpf: Switch to
 * bpf_selem_unlink_nofail in bpf_local_storage_{map_free, destroy}"). Kernels from v7.0 on can
 * detach a storage from its socket while the iterator is about to read the socket, which crashes
 * the kernel.
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
		catch_up_subflow(sk, tcp);
	if (!is_copy(account, sk))
		look_at(ctx->meta->seq, account, &account->settled, tcp, 0);
	return 0;
}

/*
 * The row that the scan read last, if it must be deleted. The next call deletes it, because the
 * iterator still needs it to continue.
 */
__u64 delisted_socket;

/* Used on v7.0 and later: reads every open socket through its row. */
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
	/* A listing stops when its buffer is full, and continues by row number. */
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

/* Runs once for each socket, when the last reference is dropped. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tcp_destroy_sock, struct sock *sk)
{
	destroy(sk);
	return 0;
}

/*
 * Since v7.0 (trace-v7.0: "tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with
 * SRCU-fast") a thread can be preempted inside a tracepoint program. Until that thread continues,
 * the kernel skips the program for all other threads on that CPU, for hundreds of changes at a
 * time. On these kernels both programs are attached twice. If the kernel skips the first program,
 * the second one handles the change. Otherwise the second one does nothing.
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
	/*
	 * The argument is volatile because it must not be read before the kernel is known to have
	 * it.
	 */
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

/* Number of files per byte that the survey writes to its reader. */
#define SURVEY_STEP (1 << 15)

__u32 surveyed_files;

/* Whether the survey found a Multipath TCP socket. */
bool surveyed_multipath;

/*
 * A process has the MPTCP socket in a file. If accept(2) is not seen, the listener remains the
 * owner.
 */
static __always_inline void survey_multipath(struct sock *sk, struct task_struct *task)
{
	struct multipath_owner *owner = multipath_owner((__u64)sk);

	surveyed_multipath = true;
	if (!owner || (calls_are_seen && !owner->owns_connection))
		own_multipath((__u64)sk, task);
}

/*
 * Visits every file of every process, at the start and rarely after that. Adopts sockets whose
 * start no program saw.
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
	/* The socket was in no file when it was adopted. */
	if (!account->owner.pid)
		own(account, task);
	catch_up(account, sk, tcp, task);
	return 0;
}

/*
 * Set if the kernel rejects iterators over maps. In that case survey_tcp does the scans after the
 * start.
 */
const volatile bool survey_looks = false;

/*
 * Visits every TCP socket of a network namespace, listeners first. This iterator runs after
 * survey_sockets at the start, for sockets that no process has in a file.
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
	/* The result is NULL for a socket in TIME_WAIT, and for a connection request. */
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp)
		return 0;
	sk = (struct sock *)tcp;
	account = known_account(sk);
	/*
	 * If sockets are read with the iterator over socket storage, look_at_storage() detects
	 * missed changes instead.
	 */
	if (catches_up && (has_open_sockets || survey_looks))
		catch_up_subflow(sk, tcp);
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
