/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account: the list of threads that have run since the last snapshot, or have changed otherwise. A
 * snapshot reads those alone, so that a sleeping thread costs nothing: a walk over all threads of a
 * node takes some 0.4 us for each.
 */
#ifndef NOCTULE_LISTED_BPF_H
#define NOCTULE_LISTED_BPF_H

#include "../include/task.bpf.h"

enum {
	LISTED_ENTRIES = 1 << 17,
	/* More than can be at the same place between the look and the entry. */
	LISTED_SPARE = 1 << 12,
};

/* A listed thread can be found by its number (v6.2). Else every snapshot walks over all threads. */
const volatile bool lists_threads = true;

/* A ring of pids. The reader sets each entry to 0 after it has read it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LISTED_ENTRIES); /* 1 where there is no list, set at load */
	__type(key, __u32);
	__type(value, __u32);
} listed SEC(".maps");

/* Entries that were ever made, that were read, and up to which this snapshot reads. */
__u64 listed_end;
__u64 listed_next;
__u64 listed_until;

/* There was no room: some threads have run that are not listed. Cleared by user space. */
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

/* In an entry: user space was last told that the thread is blocked. */
#define LISTED_BLOCKED (1U << 31)

/* The thread is to be read by the next snapshot. */
static __always_inline void list_thread(struct task_struct *task, struct task_account *account)
{
	__u32 pid = task->pid;

	/* One that was listed before it took the number of its leader (exec) is not found. */
	if (!lists_threads || likely(account->listed == pid) || !list_has_room())
		return;
	if (exchange(&account->listed, pid) != pid)
		list_number(pid | exchange(&account->shown_blocked, 0) * LISTED_BLOCKED);
}

#endif
