/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every loss is counted where it happens, by kind.
 */
#ifndef NOCTULE_LOSS_BPF_H
#define NOCTULE_LOSS_BPF_H

#include "kernel.h"

enum loss {
	/* A thread's account could not be made: one addition to it was lost. */
	LOSS_ACCOUNT,
	/* The ring of ended processes was full. The sums have them, the list does not. */
	LOSS_EXIT_RECORD,
	/* The table of cgroups was full: figures went to the overflow row. */
	LOSS_CGROUP_ROW,
	/* A hardware counter could not be read, or did not run, during a slice. */
	LOSS_COUNTER_READ,
	/* The ring of cgroup events was full: a name is found by the next walk. */
	LOSS_CGROUP_EVENT,
	/* The table of processes was full: the row of the process lacks what its ended threads
	   used. */
	LOSS_PROCESS_ROW,
	/* The table of waits was full: the distribution went to the overflow row. */
	LOSS_WAIT_ROW,
	/* The table of victims and culprits was full: the culprit is not named. */
	LOSS_BLAME_ROW,
	/* A table of what happened, by cgroup, was full: counts went to the overflow row. */
	LOSS_EVENT_ROW,
	/* The table of followed processes was full: one, and what it starts, is not followed. */
	LOSS_FOLLOWED,
	/* The table of victims was full: the end of one does not say that it was the OOM killer. */
	LOSS_VICTIM,
	/* A socket's account could not be made: what happens to the socket is not known. */
	LOSS_SOCKET,
	/* The table of destinations was full: figures went to the row of the others. */
	LOSS_DESTINATION,
	/* The scheduler has noted a wrong begin of a wait: the wait is not counted. */
	LOSS_WAIT_START,
	LOSS_COUNT,
};

__u64 losses[LOSS_COUNT];

/* Relaxed: else newer compilers ask for what was before, which 5.10 cannot. */
static __always_inline void count_loss(enum loss kind)
{
	__atomic_fetch_add(&losses[kind], 1, __ATOMIC_RELAXED);
}

#endif
