/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Multipath TCP: the socket that a process has is none of TCP. Below it are some that are, the
 * first made by the process, others by a thread of the kernel. The owner is kept with the former
 * too.
 */
#ifndef NOCTULE_TCP_MULTIPATH_BPF_H
#define NOCTULE_TCP_MULTIPATH_BPF_H

#include "socket.bpf.h"

static __always_inline bool is_multipath(const struct tcp_sock *tcp)
{
	return bpf_core_field_exists(tcp->is_mptcp) && tcp->is_mptcp;
}

struct multipath_owner {
	struct event_process process;
	/* SOCKET_WANTED, or 0. */
	__u32 wanted;
	/* It connects, or has accepted; 0: it listens, and another one may accept. */
	__u32 has_it;
};

/*
 * By the address of the socket above. In the context of a tracepoint no storage can be got of that.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2048);
	__type(key, __u64);
	__type(value, struct multipath_owner);
} multipath_owners SEC(".maps");

/* One more way of a connection that is there, whichever end adds it. */
static __always_inline bool is_joining(struct tcp_sock *tcp)
{
	struct mptcp_subflow_context *way;

	if (!is_multipath(tcp))
		return false;
	way = BPF_CORE_READ(tcp, inet_conn.icsk_ulp_data);
	return BPF_CORE_READ_BITFIELD_PROBED(way, request_join) ||
	       BPF_CORE_READ_BITFIELD_PROBED(way, mp_join);
}

/* The address of the socket above; 0: there is none. */
static __always_inline __u64 socket_above(struct tcp_sock *tcp)
{
	struct mptcp_subflow_context *way;

	if (!is_multipath(tcp))
		return 0;
	way = BPF_CORE_READ(tcp, inet_conn.icsk_ulp_data);
	return (__u64)BPF_CORE_READ(way, conn);
}

/* The process that has the socket above; NULL: it is not known. */
static __always_inline struct multipath_owner *multipath_owner(__u64 above)
{
	return above ? bpf_map_lookup_elem(&multipath_owners, &above) : NULL;
}

static __always_inline void own_multipath(__u64 above, struct task_struct *task)
{
	struct multipath_owner owner = {
		.wanted = is_wanted(task) ? SOCKET_WANTED : 0,
		.has_it = 1,
	};

	describe_process(&owner.process, task);
	bpf_map_update_elem(&multipath_owners, &above, &owner, BPF_ANY);
}

/*
 * The socket above is of who has the account: it may be at an address where another one was before.
 */
static __always_inline void share_owner(__u64 above, const struct socket_account *account)
{
	/* First: it owns the account before it says so. */
	bool early = *(const volatile __u32 *)&account->acceptance == ACCEPT_EARLY;
	struct multipath_owner owner = {
		.process = account->owner,
		.wanted = account->flags & SOCKET_WANTED,
		.has_it = early,
	};

	bpf_map_update_elem(&multipath_owners, &above, &owner, BPF_ANY);
}

#endif
