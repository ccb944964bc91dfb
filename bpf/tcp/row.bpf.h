/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is counted by cgroup and destination, whether or not the stream has room for the event.
 */
#ifndef NOCTULE_TCP_ROW_BPF_H
#define NOCTULE_TCP_ROW_BPF_H

#include "../include/row.bpf.h"
#include "socket.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct tcp_row);
} tcp_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct connect_times);
} connect_time_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* set at load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct destination_key);
	__type(value, struct destination_row);
} destinations SEC(".maps");

/* For each cgroup what found no room in `destinations`, so that the sum of a group stays whole. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct destination_row);
} other_destinations SEC(".maps");

/* What found no room. */
struct tcp_row tcp_overflow;
struct connect_times connect_time_overflow;
struct destination_row destination_overflow;

static const struct tcp_row no_sockets;
static const struct connect_times no_times;
static const struct destination_row no_destination;

#define add_to(field, amount) __sync_fetch_and_add(&(field), amount)

static __always_inline struct tcp_row *tcp_row(__u64 cgroup)
{
	struct tcp_row *row = lookup_or_init(&tcp_rows, &cgroup, &no_sockets);

	if (row)
		return row;
	count_loss(LOSS_EVENT_ROW);
	return &tcp_overflow;
}

static __always_inline void add_connect_time(__u64 cgroup, __u64 ns)
{
	struct connect_times *row = lookup_or_init(&connect_time_rows, &cgroup, &no_times);

	/* Who has no row in `tcp_rows` has none here, and that was counted. */
	histogram_add(row ? row->buckets : connect_time_overflow.buckets, ns);
}

static __always_inline struct destination_row *other_destinations_row(__u64 cgroup)
{
	struct destination_row *row = lookup_or_init(&other_destinations, &cgroup, &no_destination);

	return row ? row : &destination_overflow;
}

/* The row of the other end; of connections from this side only, ports of the others are chance. */
static __always_inline struct destination_row *destination_row(struct socket_account *account,
							       const struct socket_ends *ends)
{
	struct destination_key key = {.cgroup = account->owner.cgroup};
	struct destination_row *row;

	key.family = ends->family;
	key.port = ends->peer_port;
	__builtin_memcpy(key.address, ends->peer, sizeof(key.address));
	row = lookup_or_init(&destinations, &key, &no_destination);
	if (row)
		return row;
	count_loss(LOSS_DESTINATION);
	return other_destinations_row(account->owner.cgroup);
}

/*
 * What is not settled yet. Two can settle at once, and the one that comes late have read less than
 * the other. The last sum is exact, and can be less than one that was read while the end of the
 * stream was taken for a byte.
 */
static __always_inline __u64 unsettled_part(__u64 *settled, __u64 sum, bool last)
{
	if (last)
		return sum - __sync_lock_test_and_set(settled, sum);
	for (int i = 0; i < 3; i++) {
		__u64 before = *(volatile __u64 *)settled;

		if (sum <= before)
			return 0;
		if (__sync_val_compare_and_swap(settled, before, sum) == before)
			return sum - before;
	}
	return 0;
}

/* Settles the payload with the group: the end of the connection and the iterator can come at once.
 */
static __always_inline void settle_bytes(struct socket_account *account, const struct tcp_sock *tcp,
					 const struct socket_ends *ends, bool connects, bool last)
{
	struct tcp_row *row = tcp_row(account->owner.cgroup);
	struct destination_row *destination;
	__u64 sent = unsettled_part(&account->sent, bytes_sent(tcp), last);
	__u64 received = unsettled_part(&account->received, bytes_received(tcp), last);

	if (!sent && !received)
		return;
	add_to(row->sent, sent);
	add_to(row->received, received);
	if (!connects)
		return;
	destination = destination_row(account, ends);
	add_to(destination->sent, sent);
	add_to(destination->received, received);
}

#endif
