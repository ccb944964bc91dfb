// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A reference for the bench: reimplements what Kepler v0.7.12 does at each context switch. This
 * program was written from a description of Kepler's steps and maps and contains none of its code.
 *
 * The program reads three hardware counters and compares them with their last values in arrays. The
 * time on the CPU is the time since a stamp in a hash of threads. Counters and time are added to a
 * row in a hash of processes, which user space empties every three seconds. Known counting errors
 * of Kepler are kept, because only the cost matters. Kepler loses the first slice of a row, adds
 * without atomics from several CPUs, and lets idle tasks share one row.
 *
 * Kepler's programs on softirqs and page-cache accesses do not run at a switch. These programs are
 * left out, so that this program costs no more than the original. The cost of the agent includes
 * its own programs for softirqs and page-cache accesses.
 */
#include "../../../bpf/include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

enum {
	MAX_ROWS = 32768,
	MAX_CPUS = 4096,
};

struct process {
	__u64 cgroup_id;
	__u64 pid;
	__u64 run_time_us;
	__u64 cycles;
	__u64 instructions;
	__u64 cache_misses;
	__u64 page_cache_hits;
	__u16 softirqs[10];
	char comm[16];
};

/* Keyed by process (tgid). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ROWS);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

/* CLOCK_MONOTONIC at which a thread got its CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_ROWS);
	__type(key, __u32);
	__type(value, __u64);
} running_since SEC(".maps");

/* libbpf sizes the array for all CPUs. */
#define COUNTER(name)                                        \
	struct {                                             \
		__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); \
		__type(key, __u32);                          \
		__type(value, __u32);                        \
	} name SEC(".maps");                                 \
	struct {                                             \
		__uint(type, BPF_MAP_TYPE_ARRAY);            \
		__uint(max_entries, MAX_CPUS);               \
		__type(key, __u32);                          \
		__type(value, __u64);                        \
	} last_##name SEC(".maps")

COUNTER(cycles);
COUNTER(instructions);
COUNTER(cache_misses);

/* Returns the growth of a counter of this CPU. Without a PMU the read fails at each switch. */
static __always_inline __u64 growth(void *counter, void *last_values, __u32 cpu)
{
	struct bpf_perf_event_value value = {};
	__u64 grown = 0, *last;

	if (bpf_perf_event_read_value(counter, cpu, &value, sizeof(value)))
		return 0;
	last = bpf_map_lookup_elem(last_values, &cpu);
	if (last && value.counter > *last)
		grown = value.counter - *last;
	bpf_map_update_elem(last_values, &cpu, &value.counter, BPF_ANY);
	return grown;
}

/* Returns the microseconds since the thread got its CPU. */
static __always_inline __u64 run_time(__u32 pid, __u64 now)
{
	__u64 *since = bpf_map_lookup_elem(&running_since, &pid);
	__u64 ns;

	if (!since)
		return 0;
	ns = now - *since;
	bpf_map_delete_elem(&running_since, &pid);
	return ns / 1000;
}

/* At sched_switch, the current thread is still the previous one. */
static __always_inline void make_row(__u32 tgid)
{
	struct process row = {};

	if (bpf_map_lookup_elem(&processes, &tgid))
		return;
	row.pid = tgid;
	row.cgroup_id = bpf_get_current_cgroup_id();
	bpf_get_current_comm(row.comm, sizeof(row.comm));
	bpf_map_update_elem(&processes, &tgid, &row, BPF_NOEXIST);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns(), used, cycles_used, instructions_used, misses;
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 prev_pid = prev->pid, prev_tgid = prev->tgid, next_pid = next->pid;
	struct process *row;

	cycles_used = growth(&cycles, &last_cycles, cpu);
	instructions_used = growth(&instructions, &last_instructions, cpu);
	misses = growth(&cache_misses, &last_cache_misses, cpu);
	used = run_time(prev_pid, now);
	if (used) {
		row = bpf_map_lookup_elem(&processes, &prev_tgid);
		if (row) {
			row->run_time_us += used;
			row->cycles += cycles_used;
			row->instructions += instructions_used;
			row->cache_misses += misses;
		}
	}
	make_row(prev_tgid);
	/* The clock is read again, so that the next thread is not charged for this program. */
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&running_since, &next_pid, &now, BPF_ANY);
	return 0;
}
