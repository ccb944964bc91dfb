/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State changes that no program saw. Such changes are detected when the socket is destroyed, or by
 * the iterator that reads all sockets at each tick.
 */
#ifndef NOCTULE_TCP_LATE_BPF_H
#define NOCTULE_TCP_LATE_BPF_H

#include "state.bpf.h"

/*
 * Reports a failed connect late. The time is unknown, and so is the reason if the application has
 * already read the error.
 */
static __always_inline void fail_late(struct socket_account *account, struct tcp_sock *tcp)
{
	struct tcp_event event = {};

	account->since = 0;
	describe_socket(&event, tcp, account, EVENT_TCP_CONNECT_FAILED);
	event.error = error_so_far((struct sock *)tcp);
	event.reason = event.error ? reason_of(event.error) : CONNECT_OTHER;
	report_last_attempts(account, tcp, true, true, &event, EVENT_TCP_CONNECT_FAILED);
	report_failure(account, &event);
}

static __always_inline void end_late(struct socket_account *account, struct tcp_sock *tcp)
{
	account->since = 0;
	end_listen(account, tcp);
	end_connection(account, tcp, TCP_CLOSE);
}

/*
 * Reports a missed end when the kernel frees a socket. Most missed changes happened just before
 * that: while a program is interrupted, a timer can handle hundreds of connections, and no program
 * runs for them.
 */
static __always_inline void report_missed_end(struct socket_account *account, struct sock *sk,
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

/* The kernel frees the socket. In most cases everything was reported before. */
static __always_inline void destroy(struct sock *sk)
{
	struct socket_account *account = known_account(sk);
	struct tcp_sock *tcp;

	if (!account || (!is_copy(account, sk) && !(account->flags & SOCKET_UNREPORTED)))
		return;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (tcp)
		report_missed_end(account, sk, tcp);
}

/*
 * Reports state changes that no program saw, for a socket in a file of `task`. The kernel runs the
 * program before it stores the state. If the socket's state is ahead of the state in the account,
 * the program was skipped. The account is briefly ahead of the socket only when a socket begins to
 * listen.
 */
static __always_inline void catch_up(struct socket_account *account, struct sock *sk,
				     struct tcp_sock *tcp, struct task_struct *task)
{
	int state = sk->__sk_common.skc_state;
	bool established = was_established(tcp, state);

	/* A copy has the state of the listener until the new connection is reported. */
	if ((is_copy(account, sk) && !established) || !is_own(account, sk))
		return;
	if (established && begins_late(account))
		begin_late(account, tcp);
	/*
	 * No program saw the accept. As for older sockets, the first process found with the socket
	 * owns it.
	 */
	accept_by(task, account, tcp);
	/* The connection may have ended while its start was reported. */
	if (sk->__sk_common.skc_state == TCP_CLOSE && account->flags & SOCKET_ESTABLISHED) {
		account->since = 0;
		end_connection(account, tcp, TCP_CLOSE);
	}
}

/* Set by user space for one scan of all sockets, after a scan of all files. */
bool catches_up;

/*
 * Like catch_up(), for a subflow of Multipath TCP, which is in no file. A missed end is reported
 * when the kernel frees the socket.
 */
static __always_inline void catch_up_subflow(struct sock *sk, struct tcp_sock *tcp)
{
	struct multipath_owner *above = multipath_owner(socket_above(tcp));
	struct socket_account *account = known_account(sk);

	if (!account || !is_multipath(tcp))
		return;
	if (!was_established(tcp, sk->__sk_common.skc_state) || !is_own(account, sk))
		return;
	/* The next scan of files finds the process that accepted the connection. */
	if (begins_late(account)) {
		begin_late(account, tcp);
		return;
	}
	if (!above || !above->owns_connection || !begin_accept(account, tcp))
		return;
	account->owner = above->process;
	mark_wanted(account, above->wanted);
	report_accept(account, tcp);
}

#endif
