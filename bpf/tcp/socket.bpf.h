/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The account of a socket: whose it is, and what was settled of it. It lives in the socket's own
 * storage. Softirqs handle most of what happens to a socket in the context of the thread that runs
 * there, so its owner is remembered from where that is known: connect, and listen. A connection
 * that comes in inherits the account of the socket that listens.
 */
#ifndef NOCTULE_TCP_SOCKET_BPF_H
#define NOCTULE_TCP_SOCKET_BPF_H

#include <bpf/bpf_endian.h>
#include "../include/compat.bpf.h"
#include "../include/filter.bpf.h"
#include "../include/loss.bpf.h"
#include "abi.h"

/* Accepting shows the owner of a connection that comes in, where it is seen. */
enum acceptance {
	/* It is reported, or nothing is to come. */
	ACCEPT_DONE,
	/* It waits for accept(2). */
	ACCEPT_WAITS,
	/* accept(2) has taken it, before it was reported as established. */
	ACCEPT_EARLY,
};

struct payload {
	__u64 sent;
	__u64 received;
};

/* Somebody makes a copy the socket's own, and is about to be done. */
#define SELF_TAKEN 1

struct socket_account {
	__u64 id;
	/* The socket that it is of: a socket that comes in is born with a copy of another's; or
	   SELF_TAKEN. */
	__u64 self;
	/* enum socket_flag. */
	__u32 flags;
	/* enum acceptance. */
	__u32 acceptance;
	/* Segments that were sent again, as far as they were reported. */
	__u32 retransmits;
	__u32 reserved;
	/* What is in the rows already; of one in `open_sockets` it is there. */
	struct payload settled;
	struct event_process owner;
	/* CLOCK_BOOTTIME: of the call of connect; then since it is established or listens. */
	__u64 since;
};

_Static_assert(sizeof(struct socket_account) == 112, "implicit padding");
/*
 * The kernel puts 8 bytes before an account, at the begin of a cache line. What each connection
 * needs until it ends is in that line, with the group of its owner as the last.
 */
_Static_assert(__builtin_offsetof(struct socket_account, owner.cgroup) == 48, "in the cache line");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct socket_account);
} sockets SEC(".maps");

/* How many sockets got a number. */
__u64 sockets_numbered;

/* Of these something must be reported before the socket is gone. */
#define SOCKET_UNREPORTED (SOCKET_LISTENS | SOCKET_CONNECTS | SOCKET_ACCEPTED | SOCKET_ESTABLISHED)

static __always_inline struct socket_account *known_account(struct sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, NULL, 0);
}

static __always_inline bool is_copy(struct socket_account *account, struct sock *sk)
{
	return account->self != (__u64)sk;
}

/* At the end of a connection the port was given back (skc_num is 0), and inet_sport still has it.
 */
static __always_inline __u16 local_port(const struct sock_common *socket,
					const struct tcp_sock *tcp)
{
	__u16 port = socket->skc_num;

	return port ? port : bpf_ntohs(tcp->inet_conn.icsk_inet.inet_sport);
}

static __always_inline void read_addresses(struct socket_ends *ends,
					   const struct sock_common *socket)
{
	ends->family = socket->skc_family;
	ends->peer_port = socket->skc_dport;
	/* Without CONFIG_IPV6 there are no such sockets. */
	if (ends->family == AF_INET6 && bpf_core_field_exists(socket->skc_v6_daddr)) {
		bpf_probe_read_kernel(ends->local, sizeof(ends->local), &socket->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(ends->peer, sizeof(ends->peer), &socket->skc_v6_daddr);
	} else {
		*(__u32 *)ends->local = socket->skc_rcv_saddr;
		*(__u32 *)ends->peer = socket->skc_daddr;
	}
}

static __always_inline void read_ends(struct socket_ends *ends, const struct tcp_sock *tcp)
{
	const struct sock *sk = (const struct sock *)tcp;

	read_addresses(ends, &sk->__sk_common);
	ends->local_port = local_port(&sk->__sk_common, tcp);
	ends->netns_cookie = netns_cookie(&sk->__sk_common);
}

/* In these states the end of the stream (FIN) is in its sequence. */
static __always_inline bool has_sent_end(int state)
{
	__u32 states = 1 << TCP_FIN_WAIT1 | 1 << TCP_FIN_WAIT2 | 1 << TCP_CLOSING |
		       1 << TCP_LAST_ACK | 1 << TCP_TIME_WAIT;

	return states >> (state & 31) & 1;
}

/*
 * Payload that the other end has acknowledged. The kernel's sums of what was sent have attempts
 * that this host dropped itself. It counts the request and the end of the stream as a byte each.
 * `state`: the last one of a connection that has ended.
 */
static __always_inline __u64 bytes_acknowledged(const struct tcp_sock *tcp, __u32 flags, int state)
{
	__u64 bytes = tcp->bytes_acked;
	__u32 others = 0;

	if (flags & SOCKET_SYN_COUNTED)
		others++;
	if (has_sent_end(state) && tcp->snd_una == tcp->write_seq)
		others++;
	return bytes > others ? bytes - others : 0;
}

/*
 * Whether that counts the request, of a connection that is older than the agent: what was sent, and
 * was not dropped here, is acknowledged or on its way.
 */
static __always_inline bool is_request_counted(const struct tcp_sock *tcp)
{
	__u64 sent = tcp->bytes_sent, again = tcp->bytes_retrans;

	return tcp->bytes_acked + (tcp->snd_nxt - tcp->snd_una) > sent - again;
}

/* The kernel counts the end of the stream (FIN) as a byte. */
static __always_inline __u64 bytes_received(const struct tcp_sock *tcp)
{
	unsigned long flags = ((const struct sock *)tcp)->__sk_common.skc_flags;
	unsigned long done = 1UL << bpf_core_enum_value(enum sock_flags, SOCK_DONE);
	__u64 bytes = tcp->bytes_received;

	return bytes && flags & done ? bytes - 1 : bytes;
}

static __always_inline struct payload read_payload(const struct tcp_sock *tcp, __u32 flags,
						   int state)
{
	struct payload payload = {
		.sent = bytes_acknowledged(tcp, flags, state),
		.received = bytes_received(tcp),
	};

	return payload;
}

/* The account, made when there is none; it belongs to `owner` from now on. NULL: it is refused. */
static __always_inline struct socket_account *make_account(struct sock *sk,
							   struct task_struct *owner, __u32 flags)
{
	struct socket_account *account;

	account = bpf_sk_storage_get(&sockets, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!account)
		return NULL;
	account->self = (__u64)sk;
	account->id = __sync_fetch_and_add(&sockets_numbered, 1) + 1;
	account->since = bpf_ktime_get_boot_ns();
	account->settled.sent = 0;
	account->settled.received = 0;
	account->acceptance = ACCEPT_DONE;
	account->retransmits = 0;
	if (flags & SOCKET_CONNECTS)
		flags |= SOCKET_SYN_COUNTED;
	account->flags = flags | (is_wanted(owner) ? SOCKET_WANTED : 0);
	describe_process(&account->owner, owner);
	return account;
}

/* The same where it was not tried before: that it is refused is a loss. */
static __always_inline struct socket_account *account_for(struct sock *sk,
							  struct task_struct *owner, __u32 flags)
{
	struct socket_account *account = make_account(sk, owner, flags);

	if (!account)
		count_loss(LOSS_SOCKET);
	return account;
}

#endif
