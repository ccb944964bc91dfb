/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The account of a socket: its owner, and the values that were already charged to the owner. The
 * account is kept in the socket's BPF storage. Softirqs handle most packets in the context of an
 * arbitrary thread, so the owner is recorded where it is known: at connect and at listen. An
 * incoming connection inherits the account of its listener.
 */
#ifndef NOCTULE_TCP_SOCKET_BPF_H
#define NOCTULE_TCP_SOCKET_BPF_H

#include <bpf/bpf_endian.h>
#include "../include/compat.bpf.h"
#include "../include/filter.bpf.h"
#include "../include/loss.bpf.h"
#include "abi.h"

/* accept(2) will show the owner of an incoming connection, if accept(2) is traced. */
enum acceptance {
	/* Already reported, or not expected. */
	ACCEPT_DONE,
	/* Waiting for accept(2). */
	ACCEPT_WAITS,
	/* accept(2) returned the connection before it was reported as established. */
	ACCEPT_EARLY,
};

struct payload {
	__u64 sent;
	__u64 received;
};

/* A program is about to turn a copied account into the socket's own. */
#define SELF_TAKEN 1

struct socket_account {
	__u64 id;
	/*
	 * Address of the socket that owns the account, or SELF_TAKEN. In a copy for an incoming
	 * connection this is the address of the listener.
	 */
	__u64 self;
	/* enum socket_flag. */
	__u32 flags;
	/* enum acceptance. */
	__u32 acceptance;
	/* Retransmitted segments that were already reported. */
	__u32 retransmits;
	__u32 reserved;
	/*
	 * Bytes already added to the rows of the group. For a socket in `open_sockets` the row
	 * there keeps this value instead.
	 */
	struct payload settled;
	struct event_process owner;
	/*
	 * CLOCK_BOOTTIME. Initially the time of the connect call; afterwards the time at which the
	 * connection was established or the socket began to listen.
	 */
	__u64 since;
};

_Static_assert(sizeof(struct socket_account) == 112, "implicit padding");
/*
 * The kernel puts 8 bytes in front of an account, at the start of a cache line. This cache line
 * holds the fields that each connection needs until it ends. The last of these fields is the cgroup
 * of the owner.
 */
_Static_assert(__builtin_offsetof(struct socket_account, owner.cgroup) == 48, "in the cache line");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct socket_account);
} sockets SEC(".maps");

/* Number of sockets that got a number. */
__u64 sockets_numbered;

/* A socket with any of these flags has something to report before it is freed. */
#define SOCKET_UNREPORTED (SOCKET_LISTENS | SOCKET_CONNECTS | SOCKET_ACCEPTED | SOCKET_ESTABLISHED)

static __always_inline struct socket_account *known_account(struct sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, NULL, 0);
}

static __always_inline bool is_copy(struct socket_account *account, struct sock *sk)
{
	return account->self != (__u64)sk;
}

/*
 * Returns the local port. At the end of a connection skc_num is already 0, but inet_sport still has
 * the port.
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
	/* Without CONFIG_IPV6 there are no IPv6 sockets. */
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

/* Whether the sequence numbers include the FIN in this state. */
static __always_inline bool has_sent_end(int state)
{
	__u32 states = 1 << TCP_FIN_WAIT1 | 1 << TCP_FIN_WAIT2 | 1 << TCP_CLOSING |
		       1 << TCP_LAST_ACK | 1 << TCP_TIME_WAIT;

	return states >> (state & 31) & 1;
}

/*
 * Returns the payload that the peer has acknowledged. The kernel's sums of sent bytes include
 * attempts that this host dropped itself. The kernel counts SYN and FIN as a byte each. If the
 * connection has ended, `state` is the last state before the end.
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
 * Whether the acknowledged bytes include the SYN, for a connection older than the agent. Bytes that
 * were sent and not dropped here are either acknowledged or in flight.
 */
static __always_inline bool is_request_counted(const struct tcp_sock *tcp)
{
	__u64 sent = tcp->bytes_sent, again = tcp->bytes_retrans;

	return tcp->bytes_acked + (tcp->snd_nxt - tcp->snd_una) > sent - again;
}

/* Returns the received payload. The kernel counts the FIN as a byte. */
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

/*
 * Returns the account, and creates it if needed. The new owner of the account is `owner`. Returns
 * NULL if the kernel refuses.
 */
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

/* Like make_account(), but counts a refusal as a loss. For the first attempt. */
static __always_inline struct socket_account *account_for(struct sock *sk,
							  struct task_struct *owner, __u32 flags)
{
	struct socket_account *account = make_account(sk, owner, flags);

	if (!account)
		count_loss(LOSS_SOCKET_ACCOUNT);
	return account;
}

#endif
