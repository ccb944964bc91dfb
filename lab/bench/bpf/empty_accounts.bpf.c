// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The baseline for tracing a server with the owner known on both sides of a connection. Like
 * empty_hooks, but each listening or connecting socket also gets an account of the agent's size in
 * its socket storage. The kernel copies the account for an incoming connection and frees both
 * accounts. Nothing is written.
 */
#include "../../../bpf/include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

enum {
	ACCOUNT_BYTES = 112,
};

struct account {
	__u8 bytes[ACCOUNT_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct account);
} accounts SEC(".maps");

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int from, int to)
{
	if (to == TCP_SYN_SENT || to == TCP_LISTEN)
		bpf_sk_storage_get(&accounts, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

#define EMPTY(hook)             \
	SEC("tp_btf/" #hook)    \
	int hook(void *context) \
	{                       \
		return 0;       \
	}

EMPTY(sched_switch)
EMPTY(sched_migrate_task)
EMPTY(softirq_entry)
EMPTY(tcp_destroy_sock)
