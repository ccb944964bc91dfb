/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Handles state changes of sockets. Every connection ends in TCP_CLOSE, whichever side closed it
 * and why.
 */
#ifndef NOCTULE_TCP_STATE_BPF_H
#define NOCTULE_TCP_STATE_BPF_H

#include "retransmit.bpf.h"

/*
 * Whether the functions behind connect(2) and accept(2) are traced at return. The IPv6 function can
 * be traced only if IPv6 is built into the kernel, not a module.
 */
const volatile bool calls_are_seen = false;
const volatile bool v6_connects_are_seen = false;

/* Whether this is an IPv4-mapped IPv6 address. */
static __always_inline bool is_mapped(const __u32 address[4])
{
	return !address[0] && !address[1] && address[2] == bpf_htonl(0xffff);
}

static __always_inline bool connects_are_seen(const struct sock *sk)
{
	const struct sock_common *socket = &sk->__sk_common;
	__u32 peer[4] = {};

	if (socket->skc_family != AF_INET6 || v6_connects_are_seen)
		return calls_are_seen;
	/* The IPv6 function connects to a mapped address through the IPv4 function. */
	if (bpf_core_field_exists(socket->skc_v6_daddr))
		bpf_probe_read_kernel(peer, sizeof(peer), &socket->skc_v6_daddr);
	return calls_are_seen && is_mapped(peer);
}

static __always_inline void begin_listen(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	enlist(account, (struct sock *)tcp);
	if (!is_reported(account, EVENT_TCP_LISTEN))
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_LISTEN);
	emit(&facts, &event, sizeof(event), EVENT_TCP_LISTEN);
}

static __always_inline void end_listen(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	if (!take_flags(account, SOCKET_LISTENS, SOCKET_LISTENS))
		return;
	delist(account);
	if (!is_reported(account, EVENT_TCP_LISTEN_CLOSE))
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_LISTEN_CLOSE);
	emit(&facts, &event, sizeof(event), EVENT_TCP_LISTEN_CLOSE);
}

/*
 * The kernel can return a connection from accept before it sets the state to established. The
 * program at accept then leaves the report to this function.
 */
static __always_inline void wait_for_accept(struct socket_account *account, struct tcp_sock *tcp)
{
	if (__sync_val_compare_and_swap(&account->acceptance, ACCEPT_DONE, ACCEPT_WAITS) !=
	    ACCEPT_EARLY)
		return;
	account->acceptance = ACCEPT_DONE;
	report_accept(account, tcp);
}

/*
 * Returns false if the accept was already reported, at the end of the connection or by an iterator.
 */
static __always_inline bool begin_accept(struct socket_account *account, struct tcp_sock *tcp)
{
	struct payload now;

	if (!leave_queue(account))
		return false;
	/* Payload received while the connection waited belongs to the listener. */
	now = read_payload(tcp, account->flags, ((struct sock *)tcp)->__sk_common.skc_state);
	settle(account, settled(account), &now, NULL, false, false);
	return true;
}

/* Records that `task` has accepted the connection. */
static __always_inline void accept_by(struct task_struct *task, struct socket_account *account,
				      struct tcp_sock *tcp)
{
	if (!begin_accept(account, tcp))
		return;
	own(account, task);
	report_accept(account, tcp);
}

/*
 * Returns false for a subflow that joins an existing connection, because it is never accepted.
 * Until the existing connection is accepted, the subflow belongs to the listener.
 */
static __always_inline bool is_for_accept(struct socket_account *account, struct tcp_sock *tcp)
{
	__u64 above = socket_above(tcp);

	if (!above)
		return true;
	if (is_joining(tcp)) {
		join(account, above);
		return false;
	}
	share_owner(above, account);
	return true;
}

/*
 * The first round-trip sample measures the handshake. The kernel cannot time a handshake whose SYN
 * or SYN-ACK was retransmitted, or that used a SYN cookie (tcp_synack_rtt_meas(),
 * tcp_ack_update_rtt()). The kernel uses the age of the echoed timestamp instead. The echoed
 * timestamp can be the timestamp of the first SYN or SYN-ACK. With a cookie the timestamp is up to
 * 64 ms too old. An age is in whole milliseconds. A real measurement is a whole number of
 * milliseconds only once in a thousand.
 */
static __always_inline bool is_handshake_untimed(const struct tcp_sock *tcp, bool connects)
{
	__u32 rtt_us = tcp->srtt_us >> 3;

	return rtt_us && (tcp->total_retrans || (!connects && rtt_us % 1000 == 0));
}

static __always_inline void establish(struct socket_account *account, struct tcp_sock *tcp)
{
	bool connects = account->flags & SOCKET_CONNECTS;
	enum event_kind kind = connects ? EVENT_TCP_CONNECT : EVENT_TCP_ACCEPT;
	bool is_accepted = !connects && is_for_accept(account, tcp);
	struct destination_row *destination;
	struct tcp_event event = {};
	struct tcp_row *row = tcp_row(account->owner.cgroup);
	bool reported = is_reported(account, kind);

	if (connects || reported)
		describe_socket(&event, tcp, account, kind);
	/* The process that accepts the connection may be one whose events are wanted. */
	else if (is_streamed(EVENT_TCP_CLOSE))
		event.head.time = bpf_ktime_get_boot_ns();
	enlist(account, (struct sock *)tcp);
	if (connects) {
		/* `since` is 0 if the connect began before the agent started. */
		if (account->since)
			event.duration_ns = event.head.time - account->since;
		add_to(row->connects, 1);
		add_to(row->connect_ns, event.duration_ns);
		if (account->since)
			add_connect_time(account->owner.cgroup, event.duration_ns);
		destination = destination_row(account, &event.ends);
		add_to(destination->connects, 1);
		add_to(destination->connect_ns, event.duration_ns);
	} else {
		add_to(row->accepts, 1);
		/* Retransmissions of the SYN-ACK were reported for the listener. */
		account->retransmits = tcp->total_retrans;
	}
	if (is_handshake_untimed(tcp, connects))
		__sync_fetch_and_or(&account->flags, SOCKET_RTT_UNKNOWN);
	account->since = event.head.time;
	if (calls_are_seen && is_accepted)
		wait_for_accept(account, tcp);
	else if (reported)
		emit(&facts, &event, sizeof(event), kind);
	/* Set last, because return_from_accept() then reports the connection at once. */
	__sync_fetch_and_or(&account->flags, SOCKET_ESTABLISHED);
}

static __always_inline void fail(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	describe_socket(&event, tcp, account, EVENT_TCP_CONNECT_FAILED);
	event.error = error_so_far((struct sock *)tcp);
	/* connect(2) fails if no port is left, but no field records that error. */
	if (!event.error && !event.ends.local_port)
		event.error = EADDRNOTAVAIL;
	event.reason = reason_of(event.error);
	report_last_attempts(account, tcp, true, false, &event, EVENT_TCP_CONNECT_FAILED);
	report_failure(account, &event);
}

/* Fills in why a connection ended and which side ended it. `from` is the previous state. */
static __always_inline void describe_end(struct tcp_event *event, const struct tcp_sock *tcp,
					 int from)
{
	const struct inet_connection_sock *connection = &tcp->inet_conn;

	switch (((const struct sock *)tcp)->sk_err) {
	case 0:
		/*
		 * The application closed the socket with unread data, or without waiting
		 * (SO_LINGER).
		 */
		event->reason = CLOSE_ABORTED;
		event->flags |= TCP_CLOSED_HERE;
		if (has_sent_end(from))
			event->reason = CLOSE_FIN;
		if (from == TCP_LAST_ACK)
			event->flags ^= TCP_CLOSED_HERE | TCP_CLOSED_THERE;
		break;
	case ECONNRESET:
	case EPIPE:
		event->reason = CLOSE_RESET;
		event->flags |= TCP_CLOSED_THERE;
		break;
	case ECONNABORTED:
		event->reason = CLOSE_KILLED;
		event->flags |= TCP_CLOSED_HERE;
		break;
	/*
	 * Retransmissions or probes timed out. tcp_write_err() sets the error of the last ICMP
	 * message, or ETIMEDOUT if there was none.
	 */
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EHOSTDOWN:
	case ENETDOWN:
	case ETIMEDOUT:
		/*
		 * The kernel has emptied the write queue by now. While data is unacknowledged, the
		 * kernel sends window probes instead of keepalive probes.
		 */
		event->reason = connection->icsk_probes_out && !connection->icsk_retransmits &&
						tcp->write_seq == tcp->snd_una
					? CLOSE_KEEPALIVE
					: CLOSE_TIMEOUT;
		break;
	}
}

/*
 * `from` is the previous state. TCP_CLOSE means that the previous state is unknown. If the socket
 * then has no error, TCP_LAST_ACK is assumed, because the connection has usually sent its FIN.
 */
static __always_inline void end_connection(struct socket_account *account, struct tcp_sock *tcp,
					   int from)
{
	bool late = from == TCP_CLOSE, connects = account->flags & SOCKET_CONNECTS;
	bool is_rtt_known = !(account->flags & SOCKET_RTT_UNKNOWN);
	int state = late && !((struct sock *)tcp)->sk_err ? TCP_LAST_ACK : from;
	struct payload now = read_payload(tcp, account->flags, state), *before = settled(account);
	struct tcp_event event = {};
	bool reported;

	/* Later, the same socket may connect again. */
	if (!take_flags(account,
			SOCKET_ESTABLISHED | SOCKET_CONNECTS | SOCKET_ACCEPTED | SOCKET_RTT_UNKNOWN,
			SOCKET_ESTABLISHED))
		return;
	/* The connection was never accepted. */
	if (leave_queue(account))
		report_accept(account, tcp);
	reported = is_reported(account, EVENT_TCP_CLOSE);
	/*
	 * If close events are not streamed, the addresses are enough: they identify the
	 * destination.
	 */
	if (is_streamed(EVENT_TCP_CLOSE)) {
		if (connects || reported)
			describe_socket(&event, tcp, account, EVENT_TCP_CLOSE);
	} else if (connects) {
		read_addresses(&event.ends, &((struct sock *)tcp)->__sk_common);
	}
	/* If the connection ended earlier, the kernel may already have reset its byte counts. */
	settle(account, before, &now, &event.ends, connects, !late);
	event.sent = before->sent;
	event.received = before->received;
	delist(account);
	report_last_attempts(account, tcp, connects, late, &event, EVENT_TCP_CLOSE);
	if (!reported)
		return;
	if (!late)
		describe_end(&event, tcp, from);
	event.retransmits = tcp->total_retrans;
	if (is_rtt_known)
		event.rtt_us = tcp->srtt_us >> 3;
	if (account->since)
		event.duration_ns = event.head.time - account->since;
	emit(&facts, &event, sizeof(event), EVENT_TCP_CLOSE);
}

/*
 * Whether connect(2) is still inside the protocol function. The program at the return of that
 * function reports the error.
 */
static __always_inline bool is_in_connect(struct sock *sk)
{
	struct socket *socket = sk->sk_socket;

	return socket && socket->state == SS_UNCONNECTED;
}

/*
 * Whether a connection in this state is or was established. With TCP Fast Open a connection can be
 * closed before it is established. The peer of such a connection has acknowledged nothing, not even
 * the SYN-ACK.
 */
static __always_inline bool was_established(const struct tcp_sock *tcp, int state)
{
	return state != TCP_CLOSE && state != TCP_LISTEN && state != TCP_SYN_SENT &&
	       state != TCP_SYN_RECV && tcp->delivered;
}

/* Whether no program has seen that the connection was established. */
static __always_inline bool begins_late(const struct socket_account *account)
{
	return !(account->flags & SOCKET_ESTABLISHED) &&
	       account->flags & (SOCKET_CONNECTS | SOCKET_ACCEPTED);
}

/*
 * Reports a missed start. The end of a connection and an iterator can detect it at the same time.
 */
static __always_inline void begin_late(struct socket_account *account, struct tcp_sock *tcp)
{
	if (__sync_fetch_and_or(&account->flags, SOCKET_BEGUN_LATE) & SOCKET_BEGUN_LATE)
		return;
	/* The time of the start is unknown. */
	account->since = 0;
	establish(account, tcp);
	account->since = 0;
}

static __always_inline void end_socket(struct sock *sk, struct tcp_sock *tcp, int from)
{
	struct socket_account *account = known_account(sk);
	bool established = was_established(tcp, from);

	/* No program saw the start of this connection, so there is nothing to end. */
	if (!account || (is_copy(account, sk) && !established) || !is_own(account, sk))
		return;
	if (from == TCP_LISTEN) {
		end_listen(account, tcp);
		return;
	}
	if (established && begins_late(account))
		begin_late(account, tcp);
	if (account->flags & SOCKET_ESTABLISHED) {
		end_connection(account, tcp, from);
	} else if (account->flags & SOCKET_CONNECTS &&
		   (from == TCP_SYN_SENT || from == TCP_SYN_RECV) &&
		   !(connects_are_seen(sk) && is_in_connect(sk))) {
		fail(account, tcp);
	}
}

/*
 * Whether the programs handle a change to this state. Five of the ten changes at the two ends of a
 * connection need no handling. An incoming connection (SYN_RECV) is reported when it is
 * established.
 */
static __always_inline bool changes_account(int to)
{
	__u32 states = 1 << TCP_SYN_SENT | 1 << TCP_LISTEN | 1 << TCP_ESTABLISHED | 1 << TCP_CLOSE;

	return states >> (to & 31) & 1;
}

/*
 * Whether the socket already has an account for this connect or listen (`way`), because the first
 * of the two programs has created it.
 */
static __always_inline bool was_made(struct sock *sk, __u32 way)
{
	struct socket_account *account = known_account(sk);

	return account && !is_copy(account, sk) && account->flags & way &&
	       !(account->flags & SOCKET_ESTABLISHED);
}

/*
 * The process that connects creates the first subflow. Further subflows are created by a kernel
 * thread, or by a process that adds an address to the host.
 */
static __always_inline void begin_multipath(struct socket_account *account, struct tcp_sock *tcp,
					    struct task_struct *task)
{
	__u64 above = socket_above(tcp);

	if (!above)
		return;
	if (!is_joining(tcp))
		own_multipath(above, task);
	else if (!join(account, above))
		disown(account);
}

/* Returns the account of a socket that begins to listen or to connect. */
static __always_inline struct socket_account *begin(struct sock *sk, struct tcp_sock *tcp,
						    __u32 way, bool again)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct socket_account *account;

	if (!again)
		account = account_for(sk, task, way);
	else
		account = was_made(sk, way) ? NULL : make_account(sk, task, way);
	if (account && is_multipath(tcp))
		begin_multipath(account, tcp, task);
	return account;
}

/*
 * `again` is set by the second program, which runs in case the kernel skipped the first one.
 * Everything that does not depend on `again` is idempotent.
 */
static __always_inline void change_state(struct sock *sk, int from, int to, bool again)
{
	struct socket_account *account;
	struct tcp_sock *tcp;

	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return;
	switch (to) {
	case TCP_SYN_SENT:
		begin(sk, tcp, SOCKET_CONNECTS, again);
		break;
	case TCP_LISTEN:
		account = begin(sk, tcp, SOCKET_LISTENS, again);
		if (account)
			begin_listen(account, tcp);
		break;
	case TCP_ESTABLISHED:
		account = known_account(sk);
		if (account && is_own(account, sk) && begins_late(account))
			establish(account, tcp);
		break;
	case TCP_CLOSE:
		end_socket(sk, tcp, from);
		break;
	}
}

#endif
