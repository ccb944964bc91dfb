/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets that were there before the agent.
 */
#ifndef NOCTULE_TCP_EXISTING_BPF_H
#define NOCTULE_TCP_EXISTING_BPF_H

#include "late.bpf.h"

static __always_inline __u32 existing_flags(int state)
{
	switch (state) {
	case TCP_LISTEN:
		return SOCKET_LISTENS;
	case TCP_SYN_SENT:
		return SOCKET_CONNECTS;
	case TCP_SYN_RECV:
	case TCP_CLOSE:
		return 0;
	default:
		return SOCKET_ESTABLISHED;
	}
}

/* The first process that has it open owns it. */
static __always_inline void adopt(struct sock *sk, struct tcp_sock *tcp, struct task_struct *owner)
{
	int state = sk->__sk_common.skc_state;
	__u32 flags = existing_flags(state);
	struct socket_account *account;

	if (!flags || known_account(sk))
		return;
	account = account_for(sk, owner, flags);
	if (!account)
		return;
	account->since = 0;
	account->retransmits = tcp->total_retrans;
	if (state != TCP_SYN_SENT && is_request_counted(tcp))
		account->flags |= SOCKET_SYN_COUNTED;
	account->settled = read_payload(tcp, account->flags, state);
	enlist(account, sk);
	/* Its last change of state may have found no account. */
	if (sk->__sk_common.skc_state == TCP_CLOSE && state != TCP_CLOSE) {
		delist(account);
		bpf_sk_storage_delete(&sockets, sk);
	}
}

#endif
