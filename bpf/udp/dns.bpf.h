/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * DNS questions and their responses. A question is charged to the process that sends it. A response
 * is recorded when a process reads it from the socket. User space parses the name.
 */
#ifndef NOCTULE_UDP_DNS_BPF_H
#define NOCTULE_UDP_DNS_BPF_H

#include "packet.bpf.h"

enum {
	DNS_PORT = 53,
	DNS_HEADER = 12,
	/* Bit in the third byte of the header. */
	DNS_IS_ANSWER = 0x80,
	/* Opcode; 0 for a query. Zone updates and notifications have the same format. */
	DNS_OPERATION = 0x78,
	DNS_CODE = 0x0f,
	/* The bit in which upper and lower case letters differ. */
	DNS_CASE = 0x20,
};

/*
 * Each program has its own buffer: if the kernel preempts one program, another can run on the same
 * CPU.
 */
enum dns_scratch {
	SCRATCH_SENT_4,
	SCRATCH_SENT_6,
	SCRATCH_REPLACED_4,
	SCRATCH_REPLACED_6,
	SCRATCH_TAKEN,
	SCRATCH_ANSWERED,
	DNS_SCRATCHES,
};

/* Unanswered questions. User space removes questions that time out. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, struct dns_key);
	__type(value, struct dns_query);
} questions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DNS_SCRATCHES);
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

static __always_inline struct dns_query *query_in(__u32 of)
{
	return bpf_map_lookup_elem(&query_scratch, &of);
}

/* Returns false if the packet is not a DNS query or response. */
static __always_inline bool read_header(struct dns_header *header, const struct packet *packet)
{
	if (packet->peer_port != DNS_PORT || packet->length < DNS_HEADER)
		return false;
	bpf_probe_read_kernel(header, sizeof(*header), packet->data);
	return !(header->flags & DNS_OPERATION);
}

/* Reads at most `most` bytes. Bytes of `query` beyond them are unchanged. */
static __always_inline void read_question(struct dns_query *query, const struct packet *packet,
					  __u32 most)
{
	__u32 length = packet->length - DNS_HEADER;

	if (length > most)
		length = most;
	barrier_var(length);
	if (length > DNS_QUESTION)
		return;
	query->length = length;
	bpf_probe_read_kernel(query->question, length, packet->data + DNS_HEADER);
}

/*
 * Whether two packets ask for the same name and type, ignoring case, because a server may change
 * the case in its response. The comparison stops at the first zero, even if that is a byte within a
 * label.
 */
static __always_inline bool is_same(const __u8 *a, const __u8 *b)
{
	for (int i = 0; i < DNS_QUESTION - 2; i++) {
		if ((a[i] ^ b[i]) & ~DNS_CASE)
			return false;
		if (!a[i] || !b[i])
			return a[i] == b[i] && a[i + 1] == b[i + 1] && a[i + 2] == b[i + 2];
	}
	return true;
}

/*
 * Removes a question from the table and reports it, unless another CPU already did. `ended` is a
 * copy, because another question may reuse the slot after the removal.
 */
static __always_inline void end_question(const struct dns_key *key, struct dns_query *ended)
{
	if (!bpf_map_delete_elem(&questions, key))
		emit(&packets, ended, sizeof(*ended), EVENT_DNS_QUERY);
}

/*
 * Returns true if the query repeats the pending question. If a different question is pending under
 * that key, it is reported as unanswered.
 */
static __always_inline bool is_repeated(const struct dns_key *key, const struct dns_query *query,
					__u32 of)
{
	struct dns_query *before = bpf_map_lookup_elem(&questions, key), *ended;

	if (!before)
		return false;
	if (is_same(before->question, query->question)) {
		/* A retransmission, or a second attempt after a server failed to respond. */
		__sync_fetch_and_add(&before->attempts, 1);
		before->head.time = query->head.time;
		return true;
	}
	ended = query_in(of);
	if (!ended)
		return false;
	bpf_probe_read_kernel(ended, sizeof(*ended), before);
	ended->head.time = query->head.time;
	ended->code = DNS_NO_ANSWER;
	end_question(key, ended);
	return false;
}

/* `of` selects the buffer of the program: 0 for IPv4, 1 for IPv6. */
static __always_inline void note_question(const struct packet *packet, struct task_struct *task,
					  __u32 of)
{
	struct dns_header header = {};
	struct dns_key key = {};
	struct dns_query *query;

	if (!read_header(&header, packet) || header.flags & DNS_IS_ANSWER || !header.questions)
		return;
	query = query_in(SCRATCH_SENT_4 + of);
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
	__builtin_memset(query->question, 0, DNS_QUESTION);
	read_question(query, packet, DNS_QUESTION);
	key.socket = packet->socket;
	key.id = header.id;
	if (is_repeated(&key, query, SCRATCH_REPLACED_4 + of))
		return;
	if (bpf_map_update_elem(&questions, &key, query, BPF_ANY))
		__sync_fetch_and_add(&lost_events[EVENT_DNS_QUERY], 1);
}

/*
 * Whether the packet is the response to this question. Only the linear part of a packet can be
 * read. Bytes outside the linear part, in the response or in the question, count as equal.
 */
static __always_inline bool answers(const struct packet *packet, const struct dns_query *query,
				    struct dns_query *taken)
{
	if (packet->length < packet->bytes)
		bpf_probe_read_kernel(taken->question, DNS_QUESTION, query->question);
	else
		__builtin_memset(taken->question, 0, DNS_QUESTION);
	read_question(taken, packet, query->length);
	return is_same(query->question, taken->question);
}

/*
 * Reports a response that cannot be read. Drivers that split headers and payload leave nothing in
 * the linear part, and the pages cannot be read on every kernel. User space knows which questions
 * are pending.
 */
static __always_inline void note_unread(const struct packet *packet)
{
	struct dns_query *noted = query_in(SCRATCH_ANSWERED);

	if (!noted)
		return;
	noted->head.time = bpf_ktime_get_boot_ns();
	noted->head.kind = EVENT_DNS_QUERY;
	noted->ends = packet->ends;
	noted->code = DNS_UNREAD;
	emit(&packets, noted, sizeof(*noted), EVENT_DNS_QUERY);
}

static __always_inline void note_answer(const struct packet *packet)
{
	struct dns_query *query, *taken, *ended;
	struct dns_header header = {};
	struct dns_key key = {};

	if (packet->peer_port == DNS_PORT && packet->length < DNS_HEADER &&
	    packet->bytes >= DNS_HEADER) {
		note_unread(packet);
		return;
	}
	if (!read_header(&header, packet) || !(header.flags & DNS_IS_ANSWER))
		return;
	key.socket = packet->socket;
	key.id = header.id;
	query = bpf_map_lookup_elem(&questions, &key);
	taken = query_in(SCRATCH_TAKEN);
	ended = query_in(SCRATCH_ANSWERED);
	if (!query || !taken || !ended)
		return;
	/* A server that does not understand a question may leave it out of the response. */
	if (header.questions && !answers(packet, query, taken))
		return;
	bpf_probe_read_kernel(ended, sizeof(*ended), query);
	ended->head.time = bpf_ktime_get_boot_ns();
	ended->code = header.code & DNS_CODE;
	ended->answers = bpf_ntohs(header.answers);
	/* Address of the server that responded. */
	ended->ends = packet->ends;
	end_question(&key, ended);
}

#endif
