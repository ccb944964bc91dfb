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
	/* The socket is a subflow of a Multipath TCP connection. */
	TCP_MULTIPATH = 1 << 0,
	/* Which side ended the connection, if either did. */
	TCP_CLOSED_HERE = 1 << 1,
	TCP_CLOSED_THERE = 1 << 2,
};

struct tcp_event {
	struct event_head head;
	/* Number of the socket, or 0 if the socket has no account. */
	__u64 socket;
	struct socket_ends ends;
	/* Duration of the connection attempt, or of the connection. 0 if unknown. */
	__u64 duration_ns;
	/*
	 * Payload bytes that the peer acknowledged, and payload bytes received. Neither includes
	 * retransmissions.
	 */
	__u64 sent;
	__u64 received;
	/*
	 * Retransmitted segments. A retransmit event counts its own segments; a close event counts
	 * all segments of the connection.
	 */
	__u32 retransmits;
	/* Retransmitted segments that this host dropped itself, because a queue was full. */
	__u32 failed;
	/* Smoothed round-trip time; 0 if it was not measured. */
	__u32 rtt_us;
	/* errno that the application receives, or 0. */
	__u32 error;
	/* A value of enum connect_error, or of enum close_reason at the end of a connection. */
	__u32 reason;
	/* enum tcp_flag. */
	__u32 flags;
};

_Static_assert(sizeof(struct tcp_event) == 176, "implicit padding");

/* TCP counts of a cgroup. */
struct tcp_row {
	__u64 connects;
	__u64 failures[CONNECT_ERRORS];
	/* Sum over `connects`. */
	__u64 connect_ns;
	__u64 accepts;
	__u64 retransmits;
	__u64 sent;
	__u64 received;
	/*
	 * Number of the last scan of all open sockets that found a socket of the cgroup. The next
	 * two fields are results of that scan.
	 */
	__u64 look;
	/* Established connections. */
	__u64 connections;
	/* Listening sockets. */
	__u64 listeners;
};

/* Histogram of the time to connect. */
struct connect_times {
	__u32 buckets[HISTOGRAM_BUCKETS];
};

/* A destination to which a cgroup connects. */
struct destination_key {
	__u64 cgroup;
	__u8 address[16];
	/* Network byte order. */
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

/* Flags of an open socket, as listed by a scan. */
enum socket_flag {
	SOCKET_LISTENS = 1 << 0,
	/* Connected by this side. */
	SOCKET_CONNECTS = 1 << 1,
	/* Connected by the peer. */
	SOCKET_ACCEPTED = 1 << 2,
	SOCKET_ESTABLISHED = 1 << 3,
	/* The events of the socket are reported. */
	SOCKET_WANTED = 1 << 4,
	/* No program saw that the connection was established, so it was reported late. */
	SOCKET_BEGUN_LATE = 1 << 5,
	/* The kernel's sum of acknowledged bytes includes the SYN. */
	SOCKET_SYN_COUNTED = 1 << 6,
	/* The socket is a subflow of a Multipath TCP connection. */
	SOCKET_MULTIPATH = 1 << 7,
	/*
	 * The kernel could not time the handshake, and its substitute for that time remains in the
	 * smoothed average.
	 */
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
