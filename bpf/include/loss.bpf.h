/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters of lost data, by kind, incremented where the loss happens.
 */
#ifndef NOCTULE_LOSS_BPF_H
#define NOCTULE_LOSS_BPF_H

#include "kernel.h"

enum loss {
	/* The account of a thread could not be created: one addition to the account was lost. */
	LOSS_THREAD_ACCOUNT,
	/*
	 * The ring buffer of ended processes was full. The sums include the process, but the list
	 * does not.
	 */
	LOSS_EXIT_RECORD,
	/* The table of cgroups was full: the counters went to the overflow row. */
	LOSS_CGROUP_ROW,
	/* A hardware counter could not be read, or did not run, during a slice. */
	LOSS_COUNTER_READ,
	/* The ring buffer of cgroup events was full: the next walk finds the name. */
	LOSS_CGROUP_EVENT,
	/*
	 * The table of processes was full: the row of the process lacks the usage of its ended
	 * threads.
	 */
	LOSS_PROCESS_ROW,
	/* The table of waits was full: the histogram went to the overflow row. */
	LOSS_WAIT_ROW,
	/* The table of victims and culprits was full: the culprit is not recorded. */
	LOSS_BLAME_ROW,
	/* A per-cgroup table of event counts was full: the counts went to the overflow row. */
	LOSS_EVENT_ROW,
	/*
	 * The table of followed processes was full: a process and its descendants are not followed.
	 */
	LOSS_FOLLOWED_PROCESS,
	/*
	 * The table of OOM victims was full: the exit of a victim does not mention the OOM killer.
	 */
	LOSS_OOM_VICTIM,
	/* The account of a socket could not be created: the socket is not tracked. */
	LOSS_SOCKET_ACCOUNT,
	/* The table of destinations was full: the counters went to the overflow row. */
	LOSS_DESTINATION_ROW,
	/* The scheduler recorded a wrong start time of a wait: the wait is not counted. */
	LOSS_WAIT_START,
	/* The table of releasers was full: the process that ended a block is not recorded. */
	LOSS_RELEASE_ROW,
	LOSS_COUNT,
};

__u64 losses[LOSS_COUNT];

/*
 * Relaxed ordering. With any other ordering, newer compilers emit an atomic operation that fetches
 * the old value. Linux 5.10 lacks that operation.
 */
static __always_inline void count_loss(enum loss kind)
{
	__atomic_fetch_add(&losses[kind], 1, __ATOMIC_RELAXED);
}

#endif
