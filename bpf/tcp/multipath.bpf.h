/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Multipath TCP: the process has an MPTCP socket. Below that socket are TCP subflows. The process
 * creates the first subflow, and a kernel thread creates further subflows. The owner is also
 * recorded for the MPTCP socket.
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
	/*
	 * Whether the process connected or accepted. If 0, the process listens, and another process
	 * may accept.
	 */
	__u32 owns_connection;
};

/*
 * The key is the address of the MPTCP socket. A tracepoint program cannot get the storage of that
 * socket.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2048);
	__type(key, __u64);
	__type(value, struct multipath_owner);
} multipath_owners SEC(".maps");

/* Whether the subflow joins an existing connection, whichever end adds it. */
static __always_inline bool is_joining(struct tcp_sock *tcp)
{
	struct mptcp_subflow_context *way;

	if (!is_multipath(tcp))
		return false;
	way = BPF_CORE_READ(tcp, inet_conn.icsk_ulp_data);
	return BPF_CORE_READ_BITFIELD_PROBED(way, request_join) ||
	       BPF_CORE_READ_BITFIELD_PROBED(way, mp_join);
}

/* Returns the address of the MPTCP socket, or 0. */
static __always_inline __u64 socket_above(struct tcp_sock *tcp)
{
	struct mptcp_subflow_context *way;

	if (!is_multipath(tcp))
		return 0;
	way = BPF_CORE_READ(tcp, inet_conn.icsk_ulp_data);
	return (__u64)BPF_CORE_READ(way, conn);
}

/* Returns the owner of the MPTCP socket, or NULL if unknown. */
static __always_inline struct multipath_owner *multipath_owner(__u64 above)
{
	return above ? bpf_map_lookup_elem(&multipath_owners, &above) : NULL;
}

static __always_inline void own_multipath(__u64 above, struct task_struct *task)
{
	struct multipath_owner owner = {
		.wanted = is_wanted(task) ? SOCKET_WANTED : 0,
		.owns_connection = 1,
	};

	describe_process(&owner.process, task);
	bpf_map_update_elem(&multipath_owners, &above, &owner, BPF_ANY);
}

/*
 * Records the owner of the account as the owner of the MPTCP socket. The address of that socket may
 * have belonged to another socket before.
 */
static __always_inline void share_owner(__u64 above, const struct socket_account *account)
{
	/* Read first: the process owns the account before it sets ACCEPT_EARLY. */
	bool early = *(const volatile __u32 *)&account->acceptance == ACCEPT_EARLY;
	struct multipath_owner owner = {
		.process = account->owner,
		.wanted = account->flags & SOCKET_WANTED,
		.owns_connection = early,
	};

	bpf_map_update_elem(&multipath_owners, &above, &owner, BPF_ANY);
}

#endif
