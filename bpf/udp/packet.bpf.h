/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A UDP packet, at the moment when a process sends or receives it.
 */
#ifndef NOCTULE_UDP_PACKET_BPF_H
#define NOCTULE_UDP_PACKET_BPF_H

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../include/filter.bpf.h"
#include "abi.h"

enum {
	IPPROTO_UDP = 17,
	UDP_HEADER = 8,
	/* Offsets of the source address in the IPv4 and the IPv6 header. */
	SOURCE_4 = 12,
	SOURCE_6 = 8,
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* set at load */
} packets SEC(".maps");

struct packet {
	__u64 socket;
	/*
	 * The payload in the linear part of the packet, and its length. The remaining payload is in
	 * pages.
	 */
	const void *data;
	__u32 length;
	/* Length of the whole payload. */
	__u32 bytes;
	/* More than one with segmentation or receive offload. */
	__u32 count;
	/* The peer's port, in host byte order. */
	__u16 peer_port;
	struct socket_ends ends;
};

static __always_inline void read_address(__u8 to[16], const void *header, bool v6, bool second)
{
	if (v6)
		bpf_probe_read_kernel(to, 16, header + SOURCE_6 + (second ? 16 : 0));
	else
		bpf_probe_read_kernel(to, 4, header + SOURCE_4 + (second ? 4 : 0));
}

/*
 * Reads both endpoints from the headers, which are present in both directions. `comes` is set for a
 * received packet.
 */
static __always_inline void read_ends_of(struct packet *packet, const struct sock *sk,
					 const struct sk_buff *buffer, bool comes)
{
	const void *head = BPF_CORE_READ(buffer, head);
	const void *ip = head + BPF_CORE_READ(buffer, network_header);
	const void *udp = head + BPF_CORE_READ(buffer, transport_header);
	__u16 ports[2] = {};
	__u8 version = 0;
	bool v6;

	bpf_probe_read_kernel(&version, sizeof(version), ip);
	bpf_probe_read_kernel(ports, sizeof(ports), udp);
	v6 = version >> 4 == 6;
	packet->ends.family = v6 ? AF_INET6 : AF_INET;
	read_address(packet->ends.local, ip, v6, comes);
	read_address(packet->ends.peer, ip, v6, !comes);
	packet->ends.peer_port = ports[comes ? 0 : 1];
	packet->ends.local_port = bpf_ntohs(ports[comes ? 1 : 0]);
	packet->ends.netns_cookie = netns_cookie(&sk->__sk_common);
	packet->peer_port = bpf_ntohs(packet->ends.peer_port);
}

/* Returns the number of packets on the wire. */
static __always_inline __u32 packets_of(const struct sk_buff *buffer)
{
	const void *head = BPF_CORE_READ(buffer, head);
	const struct skb_shared_info *shared = head + BPF_CORE_READ(buffer, end);
	__u16 count = BPF_CORE_READ(shared, gso_segs);

	return count ? count : 1;
}

/* Returns false if the packet is not UDP. */
static __always_inline bool read_sent(struct packet *packet, struct sock *sk,
				      const struct sk_buff *buffer)
{
	__u32 at = BPF_CORE_READ(buffer, transport_header) + UDP_HEADER;
	const void *head = BPF_CORE_READ(buffer, head);
	__u32 before, length = BPF_CORE_READ(buffer, len);

	if (sk->sk_protocol != IPPROTO_UDP)
		return false;
	/* Length of the headers in front of the payload, which `len` includes. */
	before = head + at - (const void *)BPF_CORE_READ(buffer, data);
	if (before > length)
		return false;
	packet->data = head + at;
	packet->bytes = length - before;
	packet->length = packet->bytes - BPF_CORE_READ(buffer, data_len);
	packet->count = packets_of(buffer);
	packet->socket = bpf_get_socket_cookie(sk);
	read_ends_of(packet, sk, buffer, false);
	return true;
}

static __always_inline bool read_taken(struct packet *packet, struct sock *sk,
				       const struct sk_buff *buffer)
{
	if (sk->sk_protocol != IPPROTO_UDP)
		return false;
	packet->data = BPF_CORE_READ(buffer, data);
	packet->bytes = BPF_CORE_READ(buffer, len);
	packet->length = packet->bytes - BPF_CORE_READ(buffer, data_len);
	packet->count = packets_of(buffer);
	packet->socket = bpf_get_socket_cookie(sk);
	read_ends_of(packet, sk, buffer, true);
	return true;
}

#endif
