/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_TCP_ABI_H
#define NOCTULE_TCP_ABI_H

#include "../include/ends.bpf.h"
#include "../include/event.bpf.h"
#include "../include/hist.bpf.h"

/* Why a connection could not be established. */
enum connect_error {
	CONNECT_REFUSED,
	CONNECT_TIMEOUT,
	CONNECT_ABANDONED,
	CONNECT_UNREACHABLE,
	CONNECT_OTHER,
	CONNECT_ERRORS,
};

/* Why a connection ended. */
enum close_reason {
	CLOSE_UNKNOWN,
	CLOSE_FIN,
	CLOSE_RESET,
	CLOSE_ABORTED,
	CLOSE_TIMEOUT,
	CLOSE_KEEPALIVE,
	CLOSE_KILLED,
	CLOSE_REASONS,
};

enum tcp_flag {
	/* A connection of Multipath TCP has it as one of its ways. */
	TCP_MULTIPATH = 1 << 0,
	/* The side that ended the connection, where one did. */
	TCP_CLOSED_HERE = 1 << 1,
	TCP_CLOSED_THERE = 1 << 2,
};

struct tcp_event {
	struct event_head head;
	/* Number of the socket; 0: it has no account. */
	__u64 socket;
	struct socket_ends ends;
	/* Of the connecting, or of the connection; 0: not known. */
	__u64 duration_ns;
	/* Payload, each byte once: what the other end has acknowledged, and what came. */
	__u64 sent;
	__u64 received;
	/* Segments that were sent again: at a retransmit those of now, at the end all. */
	__u32 retransmits;
	/* Those of them that this host dropped itself: a queue was full. */
	__u32 failed;
	/* Smoothed round-trip time; 0: none was measured. */
	__u32 rtt_us;
	/* errno that the application gets; 0: none. */
	__u32 error;
	/* enum connect_error; at the end of a connection enum close_reason. */
	__u32 reason;
	/* enum tcp_flag. */
	__u32 flags;
};

_Static_assert(sizeof(struct tcp_event) == 176, "implicit padding");

/* What happened to the sockets of a cgroup. */
struct tcp_row {
	__u64 connects;
	__u64 failures[CONNECT_ERRORS];
	/* Sum over `connects`. */
	__u64 connect_ns;
	__u64 accepts;
	__u64 retransmits;
	__u64 sent;
	__u64 received;
	/* Number of the last look at all open sockets that has met one; what it has met. */
	__u64 look;
	/* Connections that are established. */
	__u64 connections;
	/* Sockets that listen. */
	__u64 listeners;
};

/* How long connecting took. */
struct connect_times {
	__u32 buckets[HISTOGRAM_BUCKETS];
};

/* Whereto a cgroup connects. */
struct destination_key {
	__u64 cgroup;
	__u8 address[16];
	/* Network order. */
	__u16 port;
	__u16 family;
	__u32 reserved;
};

_Static_assert(sizeof(struct destination_key) == 32, "implicit padding");

struct destination_row {
	__u64 connects;
	__u64 failures;
	__u64 connect_ns;
	__u64 retransmits;
	__u64 sent;
	__u64 received;
};

/* A socket that is there, as a look lists it. */
enum socket_flag {
	SOCKET_LISTENS = 1 << 0,
	/* Connected from this side. */
	SOCKET_CONNECTS = 1 << 1,
	/* Connected from the other side. */
	SOCKET_ACCEPTED = 1 << 2,
	SOCKET_ESTABLISHED = 1 << 3,
	/* Its events are wanted. */
	SOCKET_WANTED = 1 << 4,
	/* That it is established was not seen, and is made up for. */
	SOCKET_BEGUN_LATE = 1 << 5,
	/* Its request (SYN) is counted in the kernel's sum of acknowledged bytes. */
	SOCKET_SYN_COUNTED = 1 << 6,
	/* A connection of Multipath TCP has it as one of its ways. */
	SOCKET_MULTIPATH = 1 << 7,
	/* The kernel could not time the handshake: what it has instead stays in the average. */
	SOCKET_RTT_UNKNOWN = 1 << 8,
};

struct socket_sample {
	__u64 socket;
	struct event_process owner;
	struct socket_ends ends;
	/* enum socket_flag. */
	__u32 flags;
	__u32 reserved;
};

_Static_assert(sizeof(struct socket_sample) == 120, "implicit padding");

ABI_EXPORT(struct, tcp_event);
ABI_EXPORT(struct, tcp_row);
ABI_EXPORT(struct, connect_times);
ABI_EXPORT(struct, destination_key);
ABI_EXPORT(struct, destination_row);
ABI_EXPORT(struct, socket_sample);
ABI_EXPORT(enum, address_family);
ABI_EXPORT(enum, connect_error);
ABI_EXPORT(enum, close_reason);
ABI_EXPORT(enum, socket_flag);
ABI_EXPORT(enum, tcp_flag);
ABI_EXPORT(enum, histogram);

#endif
