/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_UDP_ABI_H
#define NOCTULE_UDP_ABI_H

#include "../include/ends.bpf.h"
#include "../include/event.bpf.h"

enum dns_limit {
	/* A name of up to 255 bytes, its type and its class. */
	DNS_QUESTION = 260,
	/*
	 * Used instead of a response code if no response came before another question reused the
	 * id.
	 */
	DNS_NO_ANSWER = 0xffff,
	/* Used for a received packet that may be a response but could not be read. */
	DNS_UNREAD = 0xfffe,
};

/* A DNS question, and its result. */
struct dns_query {
	/*
	 * While the question is pending, the time of the last attempt; afterwards the time at which
	 * it ended.
	 */
	struct event_head head;
	struct socket_ends ends;
	/* Time of the first attempt. */
	__u64 asked;
	/* Number of attempts. */
	__u32 attempts;
	/*
	 * Response code, DNS_NO_ANSWER or DNS_UNREAD. `answers` is the number of records in the
	 * answer section.
	 */
	__u16 code;
	__u16 answers;
	/* Valid bytes in `question`. */
	__u32 length;
	/* The question as in the packet, from the first label, padded with zeros. */
	__u8 question[DNS_QUESTION];
};

_Static_assert(sizeof(struct dns_query) == 400, "implicit padding");

/* Key of a question: the cookie of its socket, and its DNS id. */
struct dns_key {
	__u64 socket;
	__u64 id;
};

_Static_assert(sizeof(struct dns_key) == 16, "implicit padding");

/* Key of the traffic of a socket with one peer. */
struct flow_key {
	/* Cookie of the socket. */
	__u64 socket;
	__u8 peer[16];
	/* Network byte order. */
	__u16 port;
	__u16 family;
	__u32 reserved;
};

_Static_assert(sizeof(struct flow_key) == 32, "implicit padding");

struct udp_flow {
	/* The time in `head` is the time of the last packet. */
	struct event_head head;
	struct socket_ends ends;
	/* Time of the first packet. */
	__u64 since;
	/* Payload bytes and packets. */
	__u64 sent;
	__u64 received;
	__u64 packets_sent;
	__u64 packets_received;
};

_Static_assert(sizeof(struct udp_flow) == 160, "implicit padding");

ABI_EXPORT(enum, address_family);
ABI_EXPORT(enum, dns_limit);
ABI_EXPORT(struct, dns_query);
ABI_EXPORT(struct, dns_key);
ABI_EXPORT(struct, flow_key);
ABI_EXPORT(struct, udp_flow);

#endif
