/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: the list of threads that have run or changed since the last snapshot. A snapshot reads
 * only these threads, so a sleeping thread costs nothing. Walking all threads of a node costs about
 * 0.4 us per thread.
 */
#ifndef NOCTULE_LISTED_BPF_H
#define NOCTULE_LISTED_BPF_H

#include "../include/task.bpf.h"

enum {
	LISTED_ENTRIES = 1 << 17,
	/* Reserved entries for CPUs that check for room at the same moment. */
	LISTED_SPARE = 1 << 12,
};

/* Whether threads can be looked up by pid (v6.2). If not, every snapshot walks all threads. */
const volatile bool lists_threads = true;

/* A ring of pids. The reader clears each entry after reading it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LISTED_ENTRIES); /* 1 if there is no list, set at load */
	__type(key, __u32);
	__type(value, __u32);
} listed SEC(".maps");

/* Number of entries written, number read, and the limit of the current snapshot. */
__u64 listed_end;
__u64 listed_next;
__u64 listed_until;

/* The list was full, so some threads have run that are not listed. Cleared by user space. */
__u32 listed_full;

static __always_inline bool list_has_room(void)
{
	if (listed_end - listed_next < LISTED_ENTRIES - LISTED_SPARE)
		return true;
	listed_full = 1;
	return false;
}

static __always_inline void list_number(__u32 pid)
{
	__u32 index = fetch_and_add(&listed_end, 1) % LISTED_ENTRIES;
	__u32 *entry = bpf_map_lookup_elem(&listed, &index);

	if (entry)
		*(volatile __u32 *)entry = pid;
}

/* Flag in an entry: user space last saw the thread as blocked. */
#define LISTED_BLOCKED (1U << 31)

/* Lists the thread for the next snapshot. */
static __always_inline void list_thread(struct task_struct *task, struct task_account *account)
{
	__u32 pid = task->pid;

	/*
	 * If a listed thread then takes the pid of its leader (exec), it cannot be found by the old
	 * pid.
	 */
	if (!lists_threads || likely(account->listed == pid) || !list_has_room())
		return;
	if (exchange(&account->listed, pid) != pid)
		list_number(pid | exchange(&account->shown_blocked, 0) * LISTED_BLOCKED);
}

#endif
