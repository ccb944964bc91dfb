/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ring buffer for records of ended processes, and for other records that user space needs before
 * the next snapshot.
 */
#ifndef NOCTULE_EXITS_BPF_H
#define NOCTULE_EXITS_BPF_H

/* Ended processes: struct task_sample. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* set at load */
} exits SEC(".maps");

const volatile __u32 exits_wakeup_bytes = 1 << 19;

/* Wakes user space with an empty record, which is shorter than any other. */
static __always_inline void wake_user_space(void)
{
	__u64 nothing = 0;

	bpf_ringbuf_output(&exits, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
}

#endif
