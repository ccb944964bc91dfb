/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Changes of state that no program saw: found when the socket is destroyed, or by the iterator that
 * reads all sockets at each tick.
 */
#ifndef NOCTULE_TCP_LATE_BPF_H
#define NOCTULE_TCP_LATE_BPF_H

#include "state.bpf.h"

/* When it was is not known; nor is why, if the application has asked for the error. */
static __always_inline void fail_late(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	account->since = 0;
	describe_socket(&event, tcp, account, EVENT_TCP_CONNECT_FAILED);
	event.error = error_so_far((struct sock *)tcp);
	event.reason = event.error ? reason_of(event.error) : CONNECT_OTHER;
	tell_rest(account, tcp, true, true, &event, EVENT_TCP_CONNECT_FAILED);
	report_failure(account, &event);
}

static __always_inline void end_late(struct socket_account *account, struct tcp_sock *tcp)
{
	account->since = 0;
	end_listen(account, tcp);
	end_connection(account, tcp, TCP_CLOSE);
}

/*
 * Whatever a socket is that is given back, it has ended; what is not reported of it by now was
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

/* The kernel gives the socket back. Of most everything was reported before. */
static __always_inline void destroy(struct sock *sk)
{
	struct socket_account *account = known_account(sk);
	struct tcp_sock *tcp;

	if (!account || (!is_copy(account, sk) && !(account->flags & SOCKET_UNREPORTED)))
		return;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (tcp)
		give_back(account, sk, tcp);
}

/*
 * Replaces changes of state of a socket in a file of `task` that no program saw. The kernel calls
 * the hook before it stores the state: where the state says more than the account, the hook was
 * skipped. Only of a socket that begins to listen does the account say more for a moment.
 */
static __always_inline void catch_up(struct socket_account *account, struct sock *sk,
				     struct tcp_sock *tcp, struct task_struct *task)
{
	int state = sk->__sk_common.skc_state;
	bool established = was_established(tcp, state);

	/* A copy has the state of the listener until its birth is reported. */
	if ((is_copy(account, sk) && !established) || !is_own(account, sk))
		return;
	if (established && begins_late(account))
		begin_late(account, tcp);
	/* Who accepted it was not seen: as of one that is older, the first that has it open. */
	accept_by(task, account, tcp);
	/* It may have ended while it was made to begin. */
	if (sk->__sk_common.skc_state == TCP_CLOSE && account->flags & SOCKET_ESTABLISHED) {
		account->since = 0;
		end_connection(account, tcp, TCP_CLOSE);
	}
}

/* Set by user space for one look at all sockets, after one at all files. */
bool catches_up;

/*
 * The same for a socket that Multipath TCP uses: it is in no file. What was skipped of its end is
 * reported when the kernel gives it back.
 */
static __always_inline void catch_up_way(struct sock *sk, struct tcp_sock *tcp)
{
	struct multipath_owner *above = multipath_owner(socket_above(tcp));
	struct socket_account *account = known_account(sk);

	if (!account || !is_multipath(tcp))
		return;
	if (!was_established(tcp, sk->__sk_common.skc_state) || !is_own(account, sk))
		return;
	/* Who has accepted it is known after the next look at files. */
	if (begins_late(account)) {
		begin_late(account, tcp);
		return;
	}
	if (!above || !above->has_it || !begin_accept(account, tcp))
		return;
	account->owner = above->process;
	mark_wanted(account, above->wanted);
	report_accept(account, tcp);
}

#endif
