/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * User space looks through all open sockets at each tick: their payload is settled, and they are
 * counted by group. What is open is a result of each look and no difference of begins and ends, so
 * an end that no program saw is in it for a tick at most.
 */
#ifndef NOCTULE_TCP_LOOK_BPF_H
#define NOCTULE_TCP_LOOK_BPF_H

#include "row.bpf.h"

/* Set by user space: number of the look, and whether it lists the sockets. */
__u64 look;
bool list_sockets;

/* One reader looks at a time. */
static __always_inline void count_open(const struct socket_account *account, int state)
{
	bool connected = account->flags & SOCKET_ESTABLISHED && state != TCP_CLOSE;
	struct tcp_row *row;

	if (!connected && state != TCP_LISTEN)
		return;
	row = tcp_row(account->owner.cgroup);
	if (row->look != look) {
		row->look = look;
		row->connections = 0;
		row->listeners = 0;
	}
	if (connected)
		row->connections++;
	else
		row->listeners++;
}

#endif
