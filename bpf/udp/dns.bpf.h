/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Questions to a DNS server, and their answers. A question belongs to the process that sends it;
 * the answer counts when a process takes it from its socket. Which name was asked is read by user
 * space.
 */
#ifndef NOCTULE_UDP_DNS_BPF_H
#define NOCTULE_UDP_DNS_BPF_H

#include "packet.bpf.h"

enum {
	DNS_PORT = 53,
	DNS_HEADER = 12,
	/* In the third byte of the header. */
	DNS_IS_ANSWER = 0x80,
	DNS_CODE = 0x0f,
};

/* Questions without an answer. User space takes out those that get none. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, struct dns_key);
	__type(value, struct dns_query);
} questions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct dns_query);
} query_scratch SEC(".maps");

struct dns_header {
	__u16 id;
	__u8 flags;
	__u8 code;
	__u16 questions;
	__u16 answers;
};

/* `of`: the program, each of which has its own scratch. */
static __always_inline void note_question(const struct packet *packet, struct task_struct *task,
					  __u32 of)
{
	struct dns_query *query, *before;
	struct dns_header header = {};
	struct dns_key key = {};
	__u32 length;

	if (packet->peer_port != DNS_PORT || packet->length < DNS_HEADER)
		return;
	bpf_probe_read_kernel(&header, sizeof(header), packet->data);
	if (header.flags & DNS_IS_ANSWER || !header.questions)
		return;
	key.socket = packet->socket;
	key.id = header.id;
	before = bpf_map_lookup_elem(&questions, &key);
	if (before) {
		/* Sent again, or answered in vain by a server that is not the one. */
		before->attempts++;
		before->head.time = bpf_ktime_get_boot_ns();
		return;
	}
	query = bpf_map_lookup_elem(&query_scratch, &of);
	if (!query)
		return;
	query->head.time = bpf_ktime_get_boot_ns();
	query->head.kind = EVENT_DNS_QUERY;
	query->head.reserved = 0;
	describe_process(&query->head.process, task);
	query->ends = packet->ends;
	query->asked = query->head.time;
	query->attempts = 1;
	query->code = 0;
	query->answers = 0;
	length = packet->length - DNS_HEADER;
	if (length > DNS_QUESTION)
		length = DNS_QUESTION;
	barrier_var(length);
	if (length > DNS_QUESTION)
		return;
	query->length = length;
	bpf_probe_read_kernel(query->question, length, packet->data + DNS_HEADER);
	if (bpf_map_update_elem(&questions, &key, query, BPF_ANY))
		__sync_fetch_and_add(&lost_events[EVENT_DNS_QUERY], 1);
}

static __always_inline void note_answer(const struct packet *packet)
{
	struct dns_header header = {};
	struct dns_key key = {};
	struct dns_query *query;

	if (packet->peer_port != DNS_PORT || packet->length < DNS_HEADER)
		return;
	bpf_probe_read_kernel(&header, sizeof(header), packet->data);
	if (!(header.flags & DNS_IS_ANSWER))
		return;
	key.socket = packet->socket;
	key.id = header.id;
	query = bpf_map_lookup_elem(&questions, &key);
	if (!query)
		return;
	query->head.time = bpf_ktime_get_boot_ns();
	query->code = header.code & DNS_CODE;
	query->answers = bpf_ntohs(header.answers);
	/* Where it was answered from. */
	query->ends = packet->ends;
	emit(&packets, query, sizeof(*query), EVENT_DNS_QUERY);
	bpf_map_delete_elem(&questions, &key);
}

#endif
