// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The baseline for tracing a server: empty programs on every hook of the agent that a request with
 * its own connection passes. Any tracer of these hooks pays this cost.
 */
#define SECTION(name) __attribute__((section(name), used))

char LICENSE[] SECTION("license") = "Dual BSD/GPL";

#define EMPTY(hook)                                      \
	SECTION("tp_btf/" #hook) int hook(void *context) \
	{                                                \
		(void)context;                           \
		return 0;                                \
	}

EMPTY(sched_switch)
EMPTY(sched_migrate_task)
EMPTY(softirq_entry)
EMPTY(inet_sock_set_state)
EMPTY(tcp_destroy_sock)
