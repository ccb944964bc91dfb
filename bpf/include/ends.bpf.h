/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Both endpoints of a socket, and its network namespace.
 */
#ifndef NOCTULE_ENDS_BPF_H
#define NOCTULE_ENDS_BPF_H

#include "compat.bpf.h"
#include "abi.bpf.h"

/*
 * Both endpoints, in the kernel's representation: addresses and `peer_port` in network byte order.
 */
struct socket_ends {
	__u8 local[16];
	__u8 peer[16];
	__u16 local_port;
	__u16 peer_port;
	/* AF_INET or AF_INET6. For AF_INET only the first 4 bytes of an address are used. */
	__u16 family;
	__u16 reserved;
	/* 0 if the kernel has no cookie for the namespace. */
	__u64 netns_cookie;
};

_Static_assert(sizeof(struct socket_ends) == 48, "implicit padding");

static __always_inline __u64 netns_cookie(const struct sock_common *socket)
{
	struct net___u64 *newer;
	struct net *net;

	if (!bpf_core_field_exists(socket->skc_net.net))
		return 0;
	net = socket->skc_net.net;
	newer = (void *)net;
	if (bpf_core_field_exists(newer->net_cookie))
		return newer->net_cookie;
	if (bpf_core_field_exists(net->net_cookie.counter))
		return net->net_cookie.counter;
	return 0;
}

#endif
