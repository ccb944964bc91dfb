/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a change of state does to a socket. Each connection ends in TCP_CLOSE, whichever end closed
 * it and however: closed by its last owner, killed with it, reset, timed out.
 */
#ifndef NOCTULE_TCP_STATE_BPF_H
#define NOCTULE_TCP_STATE_BPF_H

#include "retransmit.bpf.h"

/*
 * The functions behind connect(2) and accept(2) are watched where they return; that of IPv6 only
 * where it is a part of the kernel, not a module.
 */
const volatile bool calls_are_seen = false;
const volatile bool v6_connects_are_seen = false;

/* An address of IPv4 in one of IPv6. */
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
	/* To such an address the function for IPv6 connects by that for IPv4. */
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
 * The kernel lets a connection be accepted before it makes it established: the one that took it has
 * left the report to this place.
 */
static __always_inline void wait_for_accept(struct socket_account *account, struct tcp_sock *tcp)
{
	if (__sync_val_compare_and_swap(&account->acceptance, ACCEPT_DONE, ACCEPT_WAITS) !=
	    ACCEPT_EARLY)
		return;
	account->acceptance = ACCEPT_DONE;
	report_accept(account, tcp);
}

/* False: that it is accepted was reported, when it ended, or by an iterator. */
static __always_inline bool begin_accept(struct socket_account *account, struct tcp_sock *tcp)
{
	struct payload now;

	if (!leave_queue(account))
		return false;
	/* What it carried while it waited was for who listens. */
	now = read_payload(tcp, account->flags, ((struct sock *)tcp)->__sk_common.skc_state);
	settle(account, settled(account), &now, NULL, false, false);
	return true;
}

/* `task` has accepted it. */
static __always_inline void accept_by(struct task_struct *task, struct socket_account *account,
				      struct tcp_sock *tcp)
{
	if (!begin_accept(account, tcp))
		return;
	own(account, task);
	report_accept(account, tcp);
}

/*
 * A connection comes in; false: it is one more way of one that is there, and nobody accepts it. As
 * long as nobody has accepted that one it is of who listens.
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
 * The first sample of the round trip is that of the handshake. The kernel cannot time one of which
 * the request or its answer was sent again, or that came back with a SYN cookie
 * (tcp_synack_rtt_meas(), tcp_ack_update_rtt()). It takes the age of the timestamp that comes back:
 * it can be that of the first request or answer, and with a cookie it is up to 64 ms too old. Such
 * a time is in whole milliseconds; what the kernel times is so once in a thousand.
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
	/* Who accepts it can be one whose events are wanted. */
	else if (is_streamed(EVENT_TCP_CLOSE))
		event.head.time = bpf_ktime_get_boot_ns();
	enlist(account, (struct sock *)tcp);
	if (connects) {
		/* 0: it was on its way before the agent was there. */
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
		/* Those of its answer were reported for the listener. */
		account->retransmits = tcp->total_retrans;
	}
	if (is_handshake_untimed(tcp, connects))
		__sync_fetch_and_or(&account->flags, SOCKET_RTT_UNKNOWN);
	account->since = event.head.time;
	if (calls_are_seen && is_accepted)
		wait_for_accept(account, tcp);
	else if (reported)
		emit(&facts, &event, sizeof(event), kind);
	/* After that: accept(2) takes one that is established and does not wait for its report. */
	__sync_fetch_and_or(&account->flags, SOCKET_ESTABLISHED);
}

static __always_inline void fail(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	describe_socket(&event, tcp, account, EVENT_TCP_CONNECT_FAILED);
	event.error = error_so_far((struct sock *)tcp);
	/* connect(2) itself fails when there is no port left, and that is in no field. */
	if (!event.error && !event.ends.local_port)
		event.error = EADDRNOTAVAIL;
	event.reason = reason_of(event.error);
	tell_rest(account, tcp, true, false, &event, EVENT_TCP_CONNECT_FAILED);
	report_failure(account, &event);
}

/* Why a connection ended, and the side that ended it; `from`: the state before. */
static __always_inline void describe_end(struct tcp_event *event, const struct tcp_sock *tcp,
					 int from)
{
	const struct inet_connection_sock *connection = &tcp->inet_conn;

	switch (((const struct sock *)tcp)->sk_err) {
	case 0:
		/* Closed with data that nobody had read, or without waiting (SO_LINGER). */
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
	/* What was said last about the way, while the kernel tried in vain: tcp_write_err(). */
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EHOSTDOWN:
	case ENETDOWN:
	case ETIMEDOUT:
		/*
		 * The kernel has emptied the queue of what was sent by now. While there is data
		 * that was not acknowledged it asks for a window, and not whether the other end
		 * lives.
		 */
		event->reason = connection->icsk_probes_out && !connection->icsk_retransmits &&
						tcp->write_seq == tcp->snd_una
					? CLOSE_KEEPALIVE
					: CLOSE_TIMEOUT;
		break;
	}
}

/*
 * `from`: the state before. Where that is not known, a connection that has no error has mostly sent
 * its end.
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

	/* The socket may be connected again. */
	if (!take_flags(account,
			SOCKET_ESTABLISHED | SOCKET_CONNECTS | SOCKET_ACCEPTED | SOCKET_RTT_UNKNOWN,
			SOCKET_ESTABLISHED))
		return;
	/* Nobody ever accepted it. */
	if (leave_queue(account))
		report_accept(account, tcp);
	reported = is_reported(account, EVENT_TCP_CLOSE);
	/* Where no end is streamed the addresses are enough: they name the destination. */
	if (is_streamed(EVENT_TCP_CLOSE)) {
		if (connects || reported)
			describe_socket(&event, tcp, account, EVENT_TCP_CLOSE);
	} else if (connects) {
		read_addresses(&event.ends, &((struct sock *)tcp)->__sk_common);
	}
	/* Of one that ended before the kernel may have set to 0 what it carried. */
	settle(account, before, &now, &event.ends, connects, !late);
	event.sent = before->sent;
	event.received = before->received;
	delist(account);
	tell_rest(account, tcp, connects, late, &event, EVENT_TCP_CLOSE);
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

/* connect(2) has not returned from its protocol: there its error is known. */
static __always_inline bool is_in_connect(struct sock *sk)
{
	struct socket *socket = sk->sk_socket;

	return socket && socket->state == SS_UNCONNECTED;
}

/*
 * A connection in this state is, or was, established. With TCP fast open it can be closed before:
 * then nothing of it was delivered, not even the answer to its request.
 */
static __always_inline bool was_established(const struct tcp_sock *tcp, int state)
{
	return state != TCP_CLOSE && state != TCP_LISTEN && state != TCP_SYN_SENT &&
	       state != TCP_SYN_RECV && tcp->delivered;
}

/* No program has seen that it is established. */
static __always_inline bool begins_late(const struct socket_account *account)
{
	return !(account->flags & SOCKET_ESTABLISHED) &&
	       account->flags & (SOCKET_CONNECTS | SOCKET_ACCEPTED);
}

/* Who ends a connection and an iterator can find at once that its begin was not seen. */
static __always_inline void begin_late(struct socket_account *account, struct tcp_sock *tcp)
{
	if (__sync_fetch_and_or(&account->flags, SOCKET_BEGUN_LATE) & SOCKET_BEGUN_LATE)
		return;
	/* When it was is not known. */
	account->since = 0;
	establish(account, tcp);
	account->since = 0;
}

static __always_inline void end_socket(struct sock *sk, struct tcp_sock *tcp, int from)
{
	struct socket_account *account = known_account(sk);
	bool established = was_established(tcp, from);

	/* Of one that no program has seen begin there is nothing to end. */
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
 * Of both ends of a connection five of ten changes have no report. That one comes in (SYN_RECV) is
 * reported when it is established.
 */
static __always_inline bool changes_account(int to)
{
	__u32 states = 1 << TCP_SYN_SENT | 1 << TCP_LISTEN | 1 << TCP_ESTABLISHED | 1 << TCP_CLOSE;

	return states >> (to & 31) & 1;
}

/* The first of two programs has made the account that it has on this way. */
static __always_inline bool was_made(struct sock *sk, __u32 way)
{
	struct socket_account *account = known_account(sk);

	return account && !is_copy(account, sk) && account->flags & way &&
	       !(account->flags & SOCKET_ESTABLISHED);
}

/*
 * The first way is made by who has the connection. Others are made by a thread of the kernel, or by
 * who adds an address to the host.
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

/* The account of a socket that begins to listen or to connect. */
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

/* `again`: by the second of two programs. What else there is to do is done once by itself. */
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
