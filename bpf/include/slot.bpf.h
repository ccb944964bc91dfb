/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The list of counters, and the per-CPU slot with the state of the running thread. Every object
 * that counts for the current thread includes this file.
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
 * The kind of event that a blocked thread waits for. A blocked thread is neither running nor
 * runnable. 0 means not blocked.
 */
enum block_class {
	BLOCK_NONE,
	/* A request or a signal: epoll_wait, poll, select, accept, io_uring_enter. */
	BLOCK_POLL,
	/* A timer that the thread set: nanosleep. */
	BLOCK_TIMER,
	/* A process at the other end of a pipe, or a System V or POSIX message queue. */
	BLOCK_PIPE,
	/* The peer of a UNIX domain socket. */
	BLOCK_UNIX,
	/* A futex, a file lock, a System V semaphore, or a lock inside the kernel. */
	BLOCK_LOCK,
	/* The peer of an IP socket: over the loopback interface, or over the network. */
	BLOCK_LOOPBACK,
	BLOCK_NETWORK,
	/* Block I/O. */
	BLOCK_DISK,
	/* A file system, without block I/O of the thread: a journal commit, an inode. */
	BLOCK_FILESYSTEM,
	/* Reclaim, refaults, swap, or a cgroup at its memory limit. */
	BLOCK_MEMORY,
	/* Write-back throttling: the thread dirtied pages faster than the disk can write them. */
	BLOCK_WRITEBACK,
	/* A child: wait4, waitid, vfork. */
	BLOCK_CHILD,
	/* Stopped by a signal or a tracer, or frozen. */
	BLOCK_STOPPED,
	BLOCK_OTHER,
	BLOCK_CLASSES = BLOCK_OTHER,
};

/* Encoding of a block in progress: the start time (CLOCK_MONOTONIC) above the class bits. */
enum block_layout {
	BLOCK_CLASS_BITS = 4,
	BLOCK_CLASS_MASK = (1 << BLOCK_CLASS_BITS) - 1,
};

enum {
	/* Waits after the moment of a snapshot are kept in units of 1 << LATE_WAIT_SHIFT ns. */
	LATE_WAIT_SHIFT = 4,
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
	/* Counters for which an account keeps a total. */
	COUNTER_TOTALS = COUNTER_SOFTIRQS + SOFTIRQ_VECTORS,
	/* Blocked time by class, in the order of enum block_class from BLOCK_POLL. */
	COUNTER_BLOCKED = COUNTER_TOTALS,
	COUNTER_COUNT = COUNTER_BLOCKED + BLOCK_CLASSES,
	/*
	 * Counters of on-CPU time come first. For these counters, a snapshot reads the values at
	 * its own moment.
	 */
	COUNTERS_OF_SLICES = COUNTER_SIBLING_BUSY + 1,
	WAIT_CAUSES = COUNTER_WAIT_UNATTRIBUTED - COUNTER_WAIT_THROTTLE + 1,
};

struct counters {
	__u64 v[COUNTER_COUNT];
};

/* The counters for which an account keeps a total. Readers use the growth of the total. */
struct totals {
	__u64 v[COUNTER_TOTALS];
};

/*
 * A CPU: the running thread, and the counters of the idle task, which is not in any task list. The
 * fields that each switch uses are first and adjacent.
 */
struct cpu_slot {
	/* CLOCK_MONOTONIC at the end of the last slice; 0 before the first. */
	__u64 since;
	/* CLOCK_MONOTONIC minus the scheduler's clock. */
	__u64 clock_offset;
	/* CLOCK_MONOTONIC at the last measurement of the offset, and the number of measurements. */
	__u64 calibrated;
	__u64 calibrations;
	/* Time in the idle task and in all other tasks, up to `since`. */
	__u64 idle_ns;
	__u64 busy_ns;
	/* Number of times the idle task left the CPU. */
	__u64 idle_switches;
	/*
	 * The thread that has run since `since`; 0 for the idle task, or for a thread that keeps
	 * the CPU idle.
	 */
	__u32 pid;
	/*
	 * Softirqs that ran on top of that thread, in total and by vector. These softirqs are
	 * charged when the thread leaves the CPU, because finding its account takes longer than
	 * counting. Softirqs on top of the idle task go to `idle`.
	 */
	__u32 all_softirqs;
	/* Address of the CPU's run queue. */
	__u64 queue;
	/* Interrupt and steal time since boot (struct moment), up to `since`. */
	__u64 stolen;
	__u64 interrupts;
	/* Steal time up to `since`, where the kernel counts it at ticks. */
	__u64 host;
	/* The kernel's steal count at that time, minus the part that is left for later slices. */
	__u64 host_counted;
	/* By how much that count decreased; 0 when it has caught up. */
	__u64 host_debt;
	/* Time for which the SMT sibling was busy, up to `since`. */
	__u64 sibling_busy;
	/* `clock_offset` from the last measurement alone. */
	__u64 measured;
	__u32 softirqs[SOFTIRQ_VECTORS];
	/* `idle_ns` at the moment of a snapshot, and that moment. */
	__u64 idle_then;
	__u64 sampled_at;
	/*
	 * CLOCK_MONOTONIC since which the CPU has been idle, if no program ran at the switch to the
	 * idle task and a walk detected that switch. Otherwise a time before `since`.
	 */
	__u64 idle_began;
	/* Last value of each hardware counter. The next switch charges the difference. */
	struct bpf_perf_event_value last[4];
	struct totals idle;
	/* The cause in note_late_wait(). */
	__u32 late_cause;
	__u32 padding;
	__u64 reserved[3];
};

_Static_assert(sizeof(struct cpu_slot) % 64 == 0, "two CPUs share a cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct cpu_slot);
} cpus SEC(".maps");

/* Returns the slot of the current CPU. */
static __always_inline struct cpu_slot *slot_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

#endif
