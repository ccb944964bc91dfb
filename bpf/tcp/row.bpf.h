/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts by cgroup and destination. The counts are complete even if events are dropped from the
 * stream.
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

/*
 * Cgroups that use more than their share of `destinations` while others find no room. User space
 * deletes rows of these cgroups, and other cgroups can use the free rows.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u8);
} over_share SEC(".maps");

/*
 * For each cgroup, the sum over destinations that did not fit into `destinations`, so that the
 * total of a cgroup is complete.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set at load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct destination_row);
} other_destinations SEC(".maps");

/* Overflow rows. */
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

	/* A cgroup without a row in `tcp_rows` has none here, and that loss is already counted. */
	histogram_add(row ? row->buckets : connect_time_overflow.buckets, ns);
}

static __always_inline struct destination_row *other_destinations_row(__u64 cgroup)
{
	struct destination_row *row = lookup_or_init(&other_destinations, &cgroup, &no_destination);

	return row ? row : &destination_overflow;
}

/* Converts an IPv4-mapped IPv6 address to IPv4, so that a destination has one row. */
static __always_inline void unmap(struct destination_key *key)
{
	__u32 *address = (__u32 *)key->address;

	if (key->family != AF_INET6 || address[0] || address[1] || address[2] != bpf_htonl(0xffff))
		return;
	key->family = AF_INET;
	address[0] = address[3];
	address[2] = 0;
	address[3] = 0;
}

/*
 * Returns the row of the peer. For outgoing connections only: the peer's port of an incoming one is
 * arbitrary.
 */
static __always_inline struct destination_row *destination_row(const struct socket_account *account,
							       const struct socket_ends *ends)
{
	struct destination_key key = {.cgroup = account->owner.cgroup};
	struct destination_row *row;

	key.family = ends->family;
	key.port = ends->peer_port;
	__builtin_memcpy(key.address, ends->peer, sizeof(key.address));
	unmap(&key);
	row = bpf_map_lookup_elem(&destinations, &key);
	if (!row && !bpf_map_lookup_elem(&over_share, &key.cgroup))
		row = lookup_or_init(&destinations, &key, &no_destination);
	if (row)
		return row;
	count_loss(LOSS_DESTINATION_ROW);
	return other_destinations_row(account->owner.cgroup);
}

#endif
