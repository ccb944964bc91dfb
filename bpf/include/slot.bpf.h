/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is counted, and the slot of a CPU: what is known of the thread that runs there. Shared by
 * every object that counts something for the current thread.
 */
#ifndef NOCTULE_SLOT_BPF_H
#define NOCTULE_SLOT_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

enum {
	/* enum softirq_action of the kernel. */
	SOFTIRQ_VECTORS = 10,
};

/*
 * What a thread waits for that neither runs nor wants a CPU. 0 means that the thread is not
 * blocked.
 */
enum block_class {
	BLOCK_NONE,
	/* A request: epoll_wait, poll, select, accept, io_uring_enter, or a signal. */
	BLOCK_POLL,
	/* A time that the thread chose: nanosleep. */
	BLOCK_TIMER,
	/* A process that has the other end of a pipe, or a System V or POSIX message queue. */
	BLOCK_PIPE,
	/* The peer of a UNIX domain socket. */
	BLOCK_UNIX,
	/* A futex, a lock of a file, a System V semaphore, or a lock in the kernel. */
	BLOCK_LOCK,
	/* The peer of an IP socket, over the loopback interface or elsewhere. */
	BLOCK_LOOPBACK,
	BLOCK_NETWORK,
	/* Block I/O. */
	BLOCK_DISK,
	/* A file system, without block I/O of its own: a journal commit, an inode. */
	BLOCK_FILESYSTEM,
	/* Reclaim, refaults or swap, or a cgroup at its memory limit. */
	BLOCK_MEMORY,
	/* The thread dirtied pages faster than the disk takes them. */
	BLOCK_WRITEBACK,
	/* A child: wait4, waitid, vfork. */
	BLOCK_CHILD,
	/* Stopped by a signal or a tracer, or frozen. */
	BLOCK_STOPPED,
	BLOCK_OTHER,
	BLOCK_CLASSES = BLOCK_OTHER,
};

/* A block that lasts: the moment at which it began (CLOCK_MONOTONIC), and below that its class. */
enum block_layout {
	BLOCK_CLASS_BITS = 4,
	BLOCK_CLASS_MASK = (1 << BLOCK_CLASS_BITS) - 1,
};

enum counter {
	COUNTER_CPU_TIME,
	COUNTER_CYCLES,
	COUNTER_REFERENCE_CYCLES,
	COUNTER_INSTRUCTIONS,
	COUNTER_CACHE_MISSES,
	COUNTER_SIBLING_BUSY,
	COUNTER_PAGE_READS,
	COUNTER_PAGE_WRITES,
	COUNTER_SWITCHES_VOLUNTARY,
	COUNTER_SWITCHES_PREEMPTED,
	COUNTER_SWITCHES_THROTTLED,
	COUNTER_WAIT_THROTTLE,
	COUNTER_WAIT_NEIGHBOUR,
	COUNTER_WAIT_SELF,
	COUNTER_WAIT_KERNEL,
	COUNTER_WAIT_INTERRUPT,
	COUNTER_WAIT_HOST,
	COUNTER_WAIT_IDLE,
	COUNTER_WAIT_UNATTRIBUTED,
	COUNTER_PREEMPTED_NEIGHBOUR,
	COUNTER_PREEMPTED_SELF,
	COUNTER_PREEMPTED_KERNEL,
	COUNTER_SOFTIRQS,
	/* The counters of which an account keeps a total. */
	COUNTER_TOTALS = COUNTER_SOFTIRQS + SOFTIRQ_VECTORS,
	/* Time in which the thread was blocked, by class: enum block_class, from 1 on. */
	COUNTER_BLOCKED = COUNTER_TOTALS,
	COUNTER_COUNT = COUNTER_BLOCKED + BLOCK_CLASSES,
	/* The first ones are of the time on a CPU: a snapshot has them as they were at its moment.
	 */
	COUNTERS_OF_SLICES = COUNTER_SIBLING_BUSY + 1,
};

struct counters {
	__u64 v[COUNTER_COUNT];
};

/* Those that are read as the growth of a total. */
struct totals {
	__u64 v[COUNTER_TOTALS];
};

/*
 * A CPU: the running thread, and the counters of its idle task, which is in no task list. What each
 * switch takes comes first, side by side.
 */
struct cpu_slot {
	/* CLOCK_MONOTONIC of the end of the last slice; 0 before the first. */
	__u64 since;
	/* CLOCK_MONOTONIC - the scheduler's clock. */
	__u64 clock_offset;
	/* CLOCK_MONOTONIC at which it was last measured, and how often it was. */
	__u64 calibrated;
	__u64 calibrations;
	/* Time in the idle task and in all others, up to `since`. */
	__u64 idle_ns;
	__u64 busy_ns;
	/* How often the idle task left the CPU. */
	__u64 idle_switches;
	/* The thread that runs since then; 0 is the idle task, or another that keeps it idle. */
	__u32 pid;
	/*
	 * Softirqs on top of that thread, together and by vector: charged to it when it leaves the
	 * CPU, because finding its account takes longer than counting. Those on top of the idle
	 * task are in `idle`.
	 */
	__u32 all_softirqs;
	/* Address of its run queue. */
	__u64 queue;
	/* Time of interrupts and steal since boot (struct moment), up to `since`. */
	__u64 stolen;
	__u64 interrupts;
	/* What the host took up to `since`, where the kernel counts it at ticks. */
	__u64 host;
	/* The kernel's count then, less what is left for later slices. */
	__u64 host_counted;
	/* By how much that count went back, until it comes forward again. */
	__u64 host_debt;
	/* For how long its sibling was busy, up to `since`. */
	__u64 sibling_busy;
	/* `clock_offset` by the last measurement alone. */
	__u64 measured;
	__u32 softirqs[SOFTIRQ_VECTORS];
	/* `idle_ns` at the moment of a snapshot, and that moment. */
	__u64 idle_then;
	__u64 sampled_at;
	/*
	 * CLOCK_MONOTONIC since which the CPU is idle, where no program ran at the switch to its
	 * idle task and a walk noticed; else it is before `since`.
	 */
	__u64 idle_began;
	/* Last value of each hardware counter, to charge the difference at the next switch. */
	struct bpf_perf_event_value last[4];
	struct totals idle;
	__u64 reserved[4];
};

_Static_assert(sizeof(struct cpu_slot) % 64 == 0, "two CPUs share a cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct cpu_slot);
} cpus SEC(".maps");

/* The slot of the CPU of the caller. */
static __always_inline struct cpu_slot *slot_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

#endif
