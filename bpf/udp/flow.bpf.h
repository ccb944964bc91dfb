/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Traffic of UDP sockets with each peer. User space removes ended flows. UDP itself has no close,
 * so a flow ends when its socket is closed, or after a long idle time.
 */
#ifndef NOCTULE_UDP_FLOW_BPF_H
#define NOCTULE_UDP_FLOW_BPF_H

#include "packet.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, struct flow_key);
	__type(value, struct udp_flow);
} flows SEC(".maps");

/* Sockets that have or had a flow. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u64);
	__type(value, __u8);
} with_flows SEC(".maps");

/*
 * Sockets that had flows and were closed since user space last looked, each with the time of the
 * close.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u64);
	__type(value, __u64);
} closed SEC(".maps");

static __always_inline void count_packet(const struct packet *packet, struct task_struct *task,
					 bool comes)
{
	struct flow_key key = {.socket = packet->socket};
	struct udp_flow made = {}, *flow;
	__u8 one = 1;

	__builtin_memcpy(key.peer, packet->ends.peer, sizeof(key.peer));
	key.port = packet->ends.peer_port;
	key.family = packet->ends.family;
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow) {
		made.head.kind = EVENT_UDP_FLOW;
		describe_process(&made.head.process, task);
		made.ends = packet->ends;
		made.since = bpf_ktime_get_boot_ns();
		/* User space may remove the flow before the time of this packet is set below. */
		made.head.time = made.since;
		/*
		 * Another CPU may insert its flow first. The flow that the other CPU inserted is
		 * then used.
		 */
		bpf_map_update_elem(&with_flows, &key.socket, &one, BPF_ANY);
		bpf_map_update_elem(&flows, &key, &made, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&flows, &key);
	}
	if (!flow) {
		__sync_fetch_and_add(&lost_events[EVENT_UDP_FLOW], 1);
		return;
	}
	flow->head.time = bpf_ktime_get_boot_ns();
	if (comes) {
		__sync_fetch_and_add(&flow->received, packet->bytes);
		__sync_fetch_and_add(&flow->packets_received, packet->count);
	} else {
		__sync_fetch_and_add(&flow->sent, packet->bytes);
		__sync_fetch_and_add(&flow->packets_sent, packet->count);
	}
}

#endif
