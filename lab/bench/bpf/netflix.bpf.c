// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A reference for the bench: reimplements the structure that Netflix describes in "Noisy Neighbor
 * Detection with eBPF" (September 2024). This program was written from that description and
 * contains none of Netflix's code.
 *
 * A wake-up stamps its thread in a hash, and the switch removes the stamp. The program sends the
 * wait to user space through a ring buffer. In RATE_LIMIT_NS, it sends at most one event for each
 * cgroup and CPU. As in the article, a preempted thread gets no stamp, so its wait is missed.
 * Therefore this program can only be cheaper than the agent's accounting.
 *
 * The article gives no values for RATE_LIMIT_NS, MAX_TASK_ENTRIES and the ring size, so the values
 * below were chosen for the bench. At high switch rates almost no switch makes an event, so the
 * maps cause the cost. At low rates the cost includes waking the reader.
 */
#include "../../../bpf/include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license")
= "Dual BSD/GPL";

enum {
	MAP_TYPE_PERCPU_HASH = 5,
	RATE_LIMIT_NS = 1000 * 1000,
	MAX_TASK_ENTRIES = 10240,
	RING_BYTES = 256 * 1024,
};

/* v6.2: 9bb00b2895cb ("bpf: Add kfunc bpf_rcu_read_lock/unlock()"). */
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

/* CLOCK_MONOTONIC of the wake-up, keyed by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TASK_ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} woken SEC(".maps");

/* CLOCK_MONOTONIC of the last event, keyed by cgroup. */
struct {
	__uint(type, MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_TASK_ENTRIES);
	__type(key, __u64);
	__type(value, __u64);
} last_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} events SEC(".maps");

struct event {
	__u64 prev_cgroup_id;
	__u64 cgroup_id;
	__u64 runq_lat;
	__u64 ts;
};

_Static_assert(sizeof(struct event) == 32, "the reader takes four numbers");

static __always_inline void stamp(struct task_struct *task)
{
	__u32 pid = task->pid;
	__u64 now = bpf_ktime_get_ns();

	bpf_map_update_elem(&woken, &pid, &now, BPF_NOEXIST);
}

static __always_inline __u64 cgroup_id(struct task_struct *task)
{
	__u64 id;

	bpf_rcu_read_lock();
	id = task->cgroups->dfl_cgrp->kn->id;
	bpf_rcu_read_unlock();
	return id;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(wakeup, struct task_struct *task)
{
	stamp(task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(wakeup_new, struct task_struct *task)
{
	stamp(task);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 pid = next->pid;
	__u64 now, waited, group, prev_group, last = 0, *stamped, *last_event;
	struct event *event;

	/* Skips the idle task at the same point as the article. */
	if (!pid)
		return 0;
	stamped = bpf_map_lookup_elem(&woken, &pid);
	if (!stamped)
		return 0;
	now = bpf_ktime_get_ns();
	waited = now - *stamped;
	bpf_map_delete_elem(&woken, &pid);

	prev_group = cgroup_id(prev);
	group = cgroup_id(next);
	last_event = bpf_map_lookup_elem(&last_events, &group);
	if (last_event)
		last = *last_event;
	if (now - last < RATE_LIMIT_NS)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return 0;
	event->prev_cgroup_id = prev_group;
	event->cgroup_id = group;
	event->runq_lat = waited;
	event->ts = now;
	bpf_ringbuf_submit(event, 0);
	bpf_map_update_elem(&last_events, &group, &now, BPF_ANY);
	return 0;
}
