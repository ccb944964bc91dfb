/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * User space scans all open sockets at each tick. The scan settles their payload and counts them by
 * group. The number of open sockets is the result of each scan, not a difference of starts and
 * ends. An end that no program saw is therefore wrong for one tick at most.
 */
#ifndef NOCTULE_TCP_LOOK_BPF_H
#define NOCTULE_TCP_LOOK_BPF_H

#include "multipath.bpf.h"
#include "open.bpf.h"
#include "row.bpf.h"

/*
 * Returns the growth that is not settled yet. Two callers can settle at the same time, and the
 * later one may have read the smaller sum. The last sum is exact, but can be smaller than an
 * earlier one, because the FIN was counted as a byte. The row keeps that byte: a row only grows,
 * and the row may belong to another group, which owned the socket before.
 */
static __always_inline __u64 unsettled_part(__u64 *settled, __u64 sum, bool last)
{
	if (last) {
		__u64 before = __sync_lock_test_and_set(settled, sum);

		return sum > before ? sum - before : 0;
	}
	for (int i = 0; i < 3; i++) {
		__u64 before = *(volatile __u64 *)settled;

		if (sum <= before)
			return 0;
		if (__sync_val_compare_and_swap(settled, before, sum) == before)
			return sum - before;
	}
	return 0;
}

/*
 * Settles the payload with the group. The end of the connection and a scan can run at the same
 * time.
 */
static __always_inline void settle(const struct socket_account *account, struct payload *settled,
				   const struct payload *now, const struct socket_ends *ends,
				   bool connects, bool last)
{
	__u64 sent = unsettled_part(&settled->sent, now->sent, last);
	__u64 received = unsettled_part(&settled->received, now->received, last);
	struct destination_row *destination;
	struct tcp_row *row;

	if (!sent && !received)
		return;
	row = tcp_row(account->owner.cgroup);
	add_to(row->sent, sent);
	add_to(row->received, received);
	if (!connects)
		return;
	destination = destination_row(account, ends);
	add_to(destination->sent, sent);
	add_to(destination->received, received);
}

/* Set by user space: number of the scan, and whether it lists the sockets. */
__u64 look;
bool list_sockets;

/* Only one reader scans at a time. */
static __always_inline void count_open(const struct socket_account *account, int state)
{
	bool connected = account->flags & SOCKET_ESTABLISHED && state != TCP_CLOSE;
	struct tcp_row *row;

	if (!connected && state != TCP_LISTEN)
		return;
	row = tcp_row(account->owner.cgroup);
	if (row->look != look) {
		row->look = look;
		row->connections = 0;
		row->listeners = 0;
	}
	if (connected)
		row->connections++;
	else
		row->listeners++;
}

static __always_inline void list(struct seq_file *answer, const struct socket_account *account,
				 const struct tcp_sock *tcp, const struct socket_ends *ends)
{
	struct socket_sample sample = {};

	sample.socket = account->id;
	sample.owner = account->owner;
	sample.ends = *ends;
	sample.flags = account->flags | (is_multipath(tcp) ? SOCKET_MULTIPATH : 0);
	/* The connection will be reported when it is accepted. */
	if (account->acceptance == ACCEPT_WAITS)
		sample.flags &= ~SOCKET_ESTABLISHED;
	bpf_seq_write(answer, &sample, sizeof(sample));
}

/*
 * Reads an open socket. Returns false if the socket no longer exists. With a `cookie`, the socket
 * may be freed and its memory reused during the reads. The values are therefore used only after the
 * cookie matches. If `cookie` is 0, the caller holds the socket.
 */
static __always_inline bool look_at(struct seq_file *answer, const struct socket_account *account,
				    struct payload *settled, struct tcp_sock *tcp, __u64 cookie)
{
	const struct sock_common *common = &((struct sock *)tcp)->__sk_common;
	int state = common->skc_state;
	struct payload now = read_payload(tcp, account->flags, state);
	struct socket_ends ends = {};
	bool grown;

	if (!(account->flags & SOCKET_UNREPORTED))
		return true;
	grown = account->flags & SOCKET_ESTABLISHED &&
		(now.sent > settled->sent || now.received > settled->received);
	if (grown || list_sockets)
		read_ends(&ends, tcp);
	if (cookie && cookie != (__u64)common->skc_cookie.counter)
		return false;
	count_open(account, state);
	if (grown)
		settle(account, settled, &now, &ends, account->flags & SOCKET_CONNECTS, false);
	if (list_sockets)
		list(answer, account, tcp, &ends);
	return true;
}

#endif
