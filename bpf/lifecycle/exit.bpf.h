/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The exit of a process.
 */
#ifndef NOCTULE_LIFECYCLE_EXIT_BPF_H
#define NOCTULE_LIFECYCLE_EXIT_BPF_H

#include "../include/compat.bpf.h"
#include "../include/cpu_time.bpf.h"
#include "../include/filter.bpf.h"
#include "context.bpf.h"
#include "oom.bpf.h"
#include "peak.bpf.h"
#include "row.bpf.h"

struct ended_process {
	__u32 pid;
	__u32 reserved;
	__u64 start;
};

/*
 * Used without `group_dead`: the most recent processes whose exit was reported while another of
 * their threads was still exiting.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct ended_process);
	__type(value, __u8);
} ended SEC(".maps");

/* Whether this is the last thread of the process. */
static __always_inline bool is_last_thread(unsigned long long *ctx, struct task_struct *task)
{
	struct ended_process process = {};
	__u8 reported = 1;

	/* Volatile, because the argument must not be read before the kernel is known to pass it. */
	if (has_group_dead)
		return *(volatile unsigned long long *)&ctx[1] & 1;
	task = to_be_read(task);
	if (task->signal->live.counter)
		return false;
	/* If several threads exit at the same time, each of them can read a count of 0. */
	process.pid = task->tgid;
	process.start = task->group_leader->start_boottime;
	/* No other thread of the process exits later. */
	if (task->signal->nr_threads == 1)
		return !bpf_map_lookup_elem(&ended, &process);
	/* Before v6.4 (d7ba4cc900bf) the upper half of the return value is undefined. */
	return (int)bpf_map_update_elem(&ended, &process, &reported, BPF_NOEXIST) != -EEXIST;
}

/* Returns the status that wait(2) returns to the parent. */
static __always_inline __u32 exit_status(struct task_struct *task)
{
	task = to_be_read(task);
	if (task->signal->flags & SIGNAL_GROUP_EXIT)
		return task->signal->group_exit_code;
	return task->group_leader->exit_code;
}

/*
 * Sums the CPU time of all other threads that are not reaped yet. Without the iterator only the
 * leader can be read. Since v6.8 the walk stops at the last thread of the list, so it starts at the
 * leader. Returns false if the sum is incomplete, or if it includes a thread that is being reaped,
 * whose time is already in the sum of reaped threads.
 */
static __always_inline bool others_cpu_time(struct task_struct *task, __u64 *sum)
{
	struct task_struct *read = to_be_read(task);
	struct task_struct *leader = read->group_leader;
	struct task_struct *thread;
	struct bpf_iter_task it;
	int threads = 0;

	*sum = 0;
	if (!bpf_ksym_exists(bpf_iter_task_new)) {
		if (leader != task)
			*sum = leader->se.sum_exec_runtime;
		return read->signal->nr_threads <= (leader == task ? 1 : 2);
	}
	leader = bpf_task_acquire(task->group_leader);
	if (!leader)
		return false;
	bpf_iter_task_new(&it, leader, TASK_ITER_PROC_THREADS);
	while ((thread = bpf_iter_task_next(&it))) {
		threads++;
		if (thread->pid != task->pid)
			*sum += thread->se.sum_exec_runtime;
	}
	bpf_iter_task_destroy(&it);
	bpf_task_release(leader);
	return threads == *(volatile int *)&read->signal->nr_threads;
}

/*
 * Returns false if a thread was reaped between the two reads, which moved its time from one sum to
 * the other.
 */
static __always_inline bool try_process_cpu_time(struct task_struct *task, __u64 *sum)
{
	struct signal_struct *sums = to_be_read(task)->signal;
	__u64 gone = *(volatile __u64 *)&sums->sum_sched_runtime;
	__u64 others;

	if (!others_cpu_time(task, &others))
		return false;
	*sum = gone + others + cpu_time(task, running_slot(task), NOW);
	return gone == *(volatile __u64 *)&sums->sum_sched_runtime;
}

/*
 * Sums the CPU time of all threads: reaped threads, threads not reaped yet, and this thread up to
 * now. The rest of this thread's exit is not included. Returns false if the time is unknown. This
 * is not a loop because kernels before v6.2 reject the backward jump that clang generates.
 */
static __always_inline bool process_cpu_time(struct task_struct *task, __u64 *sum)
{
	return try_process_cpu_time(task, sum) || try_process_cpu_time(task, sum) ||
	       try_process_cpu_time(task, sum);
}

static __always_inline bool is_killed(struct task_struct *task)
{
	return (exit_status(task) & 0x7f) == SIGKILL;
}

static __always_inline void report_oom(struct task_struct *task, const struct victim *victim)
{
	struct oom_kill event = {};

	if (!is_streamed(EVENT_OOM_KILL) || !is_wanted(task))
		return;
	event.head.time = bpf_ktime_get_boot_ns();
	event.head.kind = EVENT_OOM_KILL;
	describe_process(&event.head.process, task);
	event.rss = victim->rss;
	event.limit = victim->limit;
	emit(&facts, &event, sizeof(event), EVENT_OOM_KILL);
}

/* The process has already exited and was counted as killed. */
static __always_inline void report_late_oom(struct task_struct *task, const struct victim *victim)
{
	struct process_row *row = process_row(cgroup_of(task));

	__sync_fetch_and_add(&row->oom_late, 1);
	report_oom(task, victim);
}

/* `victim` is the record of the OOM killer if it killed the process, else NULL. */
static __always_inline void report_exit(struct task_struct *task, const struct victim *victim)
{
	struct process_row *row = process_row(cgroup_of(task));
	struct process_exit event = {};
	__u32 status = exit_status(task);
	__u32 signal = status & 0x7f;

	if (victim)
		__sync_fetch_and_add(&row->oom, 1);
	else if (signal)
		__sync_fetch_and_add(&row->killed, 1);
	else if (status)
		__sync_fetch_and_add(&row->failed, 1);
	else
		__sync_fetch_and_add(&row->completed, 1);
	if (victim)
		report_oom(task, victim);
	if (!is_streamed(EVENT_PROCESS_EXIT) || !is_wanted(task))
		return;
	event.head.time = bpf_ktime_get_boot_ns();
	event.head.kind = EVENT_PROCESS_EXIT;
	describe_process(&event.head.process, task);
	event.duration_ns = event.head.time - event.head.process.start;
	describe_parent(&event.parent, task);
	if (peak_pages(task, &event.rss_peak))
		event.flags |= EXIT_RSS_PEAK;
	event.rss_peak <<= page_shift;
	event.status = status;
	if (process_cpu_time(task, &event.cpu_ns))
		event.flags |= EXIT_CPU_TIME;
	if (victim)
		event.flags |= EXIT_OOM;
	emit(&facts, &event, sizeof(event), EVENT_PROCESS_EXIT);
}

#endif
