/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_UDP_ABI_H
#define NOCTULE_UDP_ABI_H

#include "../include/ends.bpf.h"
#include "../include/event.bpf.h"

enum dns_limit {
	/* A name of 255 bytes, and its type and class. */
	DNS_QUESTION = 260,
	/* In the place of a response code: there was no answer when its number was given to
	   another. */
	DNS_NO_ANSWER = 0xffff,
	/* It is no question, but a packet that may be the answer to one: it could not be read. */
	DNS_UNREAD = 0xfffe,
};

/* A question that was sent, and what came of it. */
struct dns_query {
	/* Of a question that waits the time is that of its last attempt; else that of its end. */
	struct event_head head;
	struct socket_ends ends;
	/* When it was sent first. */
	__u64 asked;
	/* How often it was sent. */
	__u32 attempts;
	/* Response code, DNS_NO_ANSWER or DNS_UNREAD, and records in the section of answers. */
	__u16 code;
	__u16 answers;
	/* Bytes of `question` that are there. */
	__u32 length;
	/* As it stands in the packet, from the first label on; then zeros. */
	__u8 question[DNS_QUESTION];
};

_Static_assert(sizeof(struct dns_query) == 400, "implicit padding");

/* A question: the cookie of its socket, and its number. */
struct dns_key {
	__u64 socket;
	__u64 id;
};

_Static_assert(sizeof(struct dns_key) == 16, "implicit padding");

/* What a socket exchanges with one peer. */
struct flow_key {
	/* Cookie of the socket. */
	__u64 socket;
	__u8 peer[16];
	/* Network order. */
	__u16 port;
	__u16 family;
	__u32 reserved;
};

_Static_assert(sizeof(struct flow_key) == 32, "implicit padding");

struct udp_flow {
	/* The time is that of its last packet. */
	struct event_head head;
	struct socket_ends ends;
	/* Of the first packet. */
	__u64 since;
	/* Payload and packets. */
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
