/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happens to a socket, from the changes of its state. Each connection ends in TCP_CLOSE,
 * whoever ended it and however: closed by its last owner, killed with it, reset, timed out.
 */
#ifndef NOCTULE_TCP_STATE_BPF_H
#define NOCTULE_TCP_STATE_BPF_H

#include "look.bpf.h"

/* Process, OOM and TCP events; the ring of the object lifecycle. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22); /* set at load */
} facts SEC(".maps");

/*
 * The functions behind connect(2) and accept(2) are watched where they return; that of IPv6 only
 * where it is a part of the kernel, not a module.
 */
const volatile bool calls_are_seen = false;
const volatile bool v6_connects_are_seen = false;

static __always_inline bool connects_are_seen(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_INET6 ? v6_connects_are_seen : calls_are_seen;
}

static __always_inline void describe_socket(struct tcp_event *event, struct tcp_sock *tcp,
					    struct socket_account *account, enum event_kind kind)
{
	event->head.time = bpf_ktime_get_boot_ns();
	event->head.kind = kind;
	if (account) {
		event->head.process = account->owner;
		event->socket = account->id;
	}
	read_ends(&event->ends, tcp);
}

/* Events of a socket without an account are of interest when those of everybody are. */
static __always_inline bool is_told(struct socket_account *account, enum event_kind kind)
{
	if (!is_streamed(kind))
		return false;
	return account ? account->flags & SOCKET_WANTED : !filter_processes && !filter_cgroups;
}

static __always_inline void begin_listen(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	enlist(account, (struct sock *)tcp);
	if (!is_told(account, EVENT_TCP_LISTEN))
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_LISTEN);
	emit(&facts, &event, sizeof(event), EVENT_TCP_LISTEN);
}

/* Takes the flags away. Of all who end a socket at once one gets true. */
static __always_inline bool take_flags(struct socket_account *account, __u32 flags, __u32 deciding)
{
	return __sync_fetch_and_and(&account->flags, ~flags) & deciding;
}

static __always_inline void end_listen(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	if (!take_flags(account, SOCKET_LISTENS, SOCKET_LISTENS))
		return;
	delist(account);
	if (!is_told(account, EVENT_TCP_LISTEN_CLOSE))
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_LISTEN_CLOSE);
	emit(&facts, &event, sizeof(event), EVENT_TCP_LISTEN_CLOSE);
}

/*
 * A connection comes in. Its account is a copy of that of the socket that listens, until somebody
 * has seen it: of all who see it at once one gets true, and what the others saw is made up for.
 */
static __always_inline bool inherit(struct socket_account *account, struct sock *sk)
{
	__u64 origin = account->self;

	/* 0: it is about to be made. */
	if (!origin || origin == SELF_TAKEN ||
	    __sync_val_compare_and_swap(&account->self, origin, SELF_TAKEN) != origin)
		return false;
	account->id = __sync_fetch_and_add(&sockets_numbered, 1) + 1;
	account->settled.sent = 0;
	account->settled.received = 0;
	account->acceptance = ACCEPT_DONE;
	account->flags = (account->flags & SOCKET_WANTED) | SOCKET_ACCEPTED;
	/* Last: nobody must take for its own what is still that of who listens. */
	__sync_lock_test_and_set(&account->self, (__u64)sk);
	return true;
}

/* The account is that of this socket, or becomes so. */
static __always_inline bool is_own(struct socket_account *account, struct sock *sk)
{
	return !is_copy(account, sk) || inherit(account, sk);
}

/* Of accept(2) and the end of the connection, which can come at once, one gets true. */
static __always_inline bool leave_queue(struct socket_account *account)
{
	return __sync_val_compare_and_swap(&account->acceptance, ACCEPT_WAITS, ACCEPT_DONE) ==
	       ACCEPT_WAITS;
}

static __always_inline void report_accept(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	if (!is_told(account, EVENT_TCP_ACCEPT))
		return;
	describe_socket(&event, tcp, account, EVENT_TCP_ACCEPT);
	emit(&facts, &event, sizeof(event), EVENT_TCP_ACCEPT);
}

/*
 * The kernel lets a connection be accepted before it makes it established: whoever took it then has
 * left it to be told here.
 */
static __always_inline void wait_for_accept(struct socket_account *account, struct tcp_sock *tcp)
{
	if (__sync_val_compare_and_swap(&account->acceptance, ACCEPT_DONE, ACCEPT_WAITS) !=
	    ACCEPT_EARLY)
		return;
	account->acceptance = ACCEPT_DONE;
	report_accept(account, tcp);
}

static __always_inline void establish(struct socket_account *account, struct tcp_sock *tcp)
{
	bool connects = account->flags & SOCKET_CONNECTS;
	enum event_kind kind = connects ? EVENT_TCP_CONNECT : EVENT_TCP_ACCEPT;
	struct tcp_row *row = tcp_row(account->owner.cgroup);
	struct destination_row *destination;
	struct tcp_event event = {};

	describe_socket(&event, tcp, account, kind);
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
	}
	account->since = event.head.time;
	if (calls_are_seen && !connects)
		wait_for_accept(account, tcp);
	else if (is_told(account, kind))
		emit(&facts, &event, sizeof(event), kind);
	/* After that: accept(2) takes one that is established and does not wait for told. */
	__sync_fetch_and_or(&account->flags, SOCKET_ESTABLISHED);
}

static __always_inline enum connect_error reason_of(__u32 error)
{
	switch (error) {
	case 0:
		return CONNECT_ABANDONED;
	case ECONNREFUSED:
	case ECONNRESET:
		return CONNECT_REFUSED;
	case ETIMEDOUT:
		return CONNECT_TIMEOUT;
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
		return CONNECT_UNREACHABLE;
	default:
		return CONNECT_OTHER;
	}
}

/* `event` has its error and the reason already. */
static __always_inline void report_failure(struct socket_account *account, struct tcp_event *event)
{
	__u32 reason = event->reason;

	if (!take_flags(account, SOCKET_CONNECTS, SOCKET_CONNECTS))
		return;
	if (account->since)
		event->duration_ns = event->head.time - account->since;
	/* Always true, which the verifier does not see and the compiler does. */
	barrier_var(reason);
	if (reason < CONNECT_ERRORS)
		add_to(tcp_row(account->owner.cgroup)->failures[reason], 1);
	/* Of one that was told late the socket does not have the other end any more. */
	if (event->ends.peer_port)
		add_to(destination_row(account, &event->ends)->failures, 1);
	else
		add_to(other_destinations_row(account->owner.cgroup)->failures, 1);
	if (is_told(account, EVENT_TCP_CONNECT_FAILED))
		emit(&facts, event, sizeof(*event), EVENT_TCP_CONNECT_FAILED);
}

/*
 * What the application could learn before it closed the socket: an ICMP error that comes while it
 * is in a call ends nothing. It is kept until it is asked for, and it is in the queue of errors.
 */
static __always_inline __u32 error_so_far(struct sock *sk)
{
	struct sock_exterr_skb *block;
	struct sk_buff *last;

	if (sk->sk_err)
		return sk->sk_err;
	if (sk->sk_err_soft)
		return sk->sk_err_soft;
	if (!BPF_CORE_READ(sk, sk_error_queue.qlen))
		return 0;
	last = BPF_CORE_READ(sk, sk_error_queue.prev);
	block = (void *)last->cb;
	/* Not a time stamp. */
	if (BPF_CORE_READ(block, ee.ee_origin) > SO_EE_ORIGIN_ICMP6)
		return 0;
	return BPF_CORE_READ(block, ee.ee_errno);
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
	report_failure(account, &event);
}

/* When it was is not known; nor is why, if the application has asked for the error. */
static __always_inline void fail_late(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	account->since = 0;
	describe_socket(&event, tcp, account, EVENT_TCP_CONNECT_FAILED);
	event.error = error_so_far((struct sock *)tcp);
	event.reason = event.error ? reason_of(event.error) : CONNECT_OTHER;
	report_failure(account, &event);
}

static __always_inline void end_connection(struct socket_account *account, struct tcp_sock *tcp,
					   bool late)
{
	bool connects = account->flags & SOCKET_CONNECTS;
	struct payload now = read_payload(tcp), *before = settled(account);
	struct tcp_event event = {};

	/* The socket may be connected again. */
	if (!take_flags(account, SOCKET_ESTABLISHED | SOCKET_CONNECTS | SOCKET_ACCEPTED,
			SOCKET_ESTABLISHED))
		return;
	/* Nobody ever accepted it. */
	if (leave_queue(account))
		report_accept(account, tcp);
	describe_socket(&event, tcp, account, EVENT_TCP_CLOSE);
	/* Of one that ended before the kernel may have set to 0 what it carried. */
	settle(account, before, &now, &event.ends, connects, !late);
	event.sent = before->sent;
	event.received = before->received;
	delist(account);
	if (!is_told(account, EVENT_TCP_CLOSE))
		return;
	event.retransmits = tcp->total_retrans;
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
	/* Somebody has accepted it already. */
	if (((struct sock *)tcp)->sk_socket && leave_queue(account))
		report_accept(account, tcp);
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
		end_connection(account, tcp, false);
	} else if (account->flags & SOCKET_CONNECTS &&
		   (from == TCP_SYN_SENT || from == TCP_SYN_RECV) &&
		   !(connects_are_seen(sk) && is_in_connect(sk))) {
		fail(account, tcp);
	}
}

/* Between its first packet and the end of a connection four of ten changes tell nothing. */
static __always_inline bool changes_account(int to)
{
	__u32 states = 1 << TCP_SYN_SENT | 1 << TCP_LISTEN | 1 << TCP_SYN_RECV |
		       1 << TCP_ESTABLISHED | 1 << TCP_CLOSE;

	return states >> (to & 31) & 1;
}

/* The first of two programs has made the account that it has on this way. */
static __always_inline bool was_made(struct sock *sk, __u32 way)
{
	struct socket_account *account = known_account(sk);

	return account && !is_copy(account, sk) && account->flags & way &&
	       !(account->flags & SOCKET_ESTABLISHED);
}

/* The account of a socket that begins to listen or to connect. */
static __always_inline struct socket_account *begin(struct sock *sk, __u32 way, bool again)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!again)
		return account_for(sk, task, way);
	return was_made(sk, way) ? NULL : make_account(sk, task, way);
}

/* `again`: by the second of two programs. What else there is to do is done once by itself. */
static __always_inline void change_state(struct sock *sk, int from, int to, bool again)
{
	struct socket_account *account;
	struct tcp_sock *tcp;

	if (!changes_account(to))
		return;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return;
	switch (to) {
	case TCP_SYN_SENT:
		begin(sk, SOCKET_CONNECTS, again);
		break;
	case TCP_LISTEN:
		account = begin(sk, SOCKET_LISTENS, again);
		if (account)
			begin_listen(account, tcp);
		break;
	case TCP_SYN_RECV:
		account = known_account(sk);
		if (account && is_copy(account, sk))
			inherit(account, sk);
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

static __always_inline void end_late(struct socket_account *account, struct tcp_sock *tcp)
{
	account->since = 0;
	end_listen(account, tcp);
	end_connection(account, tcp, true);
}

/*
 * Whatever a socket is that is given back, it has ended; what is untold of it now was
 * skipped, and most often just now: a timer that interrupts a program answers hundreds of
 * connections before the program goes on.
 */
static __always_inline void give_back(struct socket_account *account, struct sock *sk,
				      struct tcp_sock *tcp)
{
	bool established = tcp->delivered;

	if ((is_copy(account, sk) && !established) || !is_own(account, sk))
		return;
	if (begins_late(account)) {
		if (established)
			begin_late(account, tcp);
		else if (account->flags & SOCKET_CONNECTS)
			fail_late(account, tcp);
	}
	end_late(account, tcp);
}

/* The kernel gives the socket back. Most have told everything before. */
static __always_inline void destroy(struct sock *sk)
{
	struct socket_account *account = known_account(sk);
	struct tcp_sock *tcp;

	if (!account || (!is_copy(account, sk) && !(account->flags & SOCKET_UNTOLD)))
		return;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (tcp)
		give_back(account, sk, tcp);
}

/*
 * Makes up for changes of state of a socket in a file that no program saw. The kernel calls the
 * hook before it stores the state: where the state says more than the account, the hook was
 * skipped. Only of a socket that begins to listen does the account say more for a moment.
 */
static __always_inline void catch_up(struct socket_account *account, struct sock *sk,
				     struct tcp_sock *tcp)
{
	int state = sk->__sk_common.skc_state;
	bool established = was_established(tcp, state);

	/* A copy has the state of who listens until its birth is told. */
	if ((is_copy(account, sk) && !established) || !is_own(account, sk))
		return;
	if (established && begins_late(account))
		begin_late(account, tcp);
	/* Somebody has accepted it, and was not seen. */
	if (leave_queue(account))
		report_accept(account, tcp);
	/* It may have ended while it was made to begin. */
	if (sk->__sk_common.skc_state == TCP_CLOSE && account->flags & SOCKET_ESTABLISHED) {
		account->since = 0;
		end_connection(account, tcp, true);
	}
}

#endif
