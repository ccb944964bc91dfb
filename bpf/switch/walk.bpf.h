/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reading of threads for a snapshot: those on the list, or all threads where there is no list.
 */
#ifndef NOCTULE_WALK_BPF_H
#define NOCTULE_WALK_BPF_H

#include "settle.bpf.h"

enum {
	/* Threads that are read by one reading of the iterator, at most. */
	TURNS = 512,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TURNS);
	__type(key, __u32);
	__type(value, __u32);
} turns SEC(".maps");

/*
 * Notes with its leader that the thread is there: the end of the process is then not that of the
 * leader. On another account than a leader's, `threads` says that it was noted.
 */
static __always_inline struct task_account *mark_threads(struct task_struct *thread,
							 struct task_account *account)
{
	struct task_struct *process = leader_of(thread);
	struct task_account *leader = process ? account_of(process) : NULL;

	if (leader && !account->threads) {
		leader->threads = 1;
		account->threads = 1;
	}
	return leader;
}

/*
 * The next number of the list; 0 where it is just being written: then the next snapshot reads it,
 * and all that follow.
 */
static __always_inline __u32 next_listed(void)
{
	__u32 index = listed_next % LISTED_ENTRIES, pid;
	__u32 *entry = bpf_map_lookup_elem(&listed, &index);

	if (!entry)
		return 0;
	pid = *(volatile __u32 *)entry;
	if (!pid) {
		listed_until = listed_next;
		return 0;
	}
	*(volatile __u32 *)entry = 0;
	listed_next++;
	return pid;
}

/* A thread of which user space was told that it is blocked has gone. */
static __always_inline void report_gone(struct seq_file *seq, __u32 pid)
{
	__u32 scratch = SCRATCH_WALK;
	struct task_sample *sample = bpf_map_lookup_elem(&scratches, &scratch);

	if (!sample)
		return;
	__builtin_memset(sample, 0, sizeof(*sample));
	sample->pid = pid;
	sample->flags = SAMPLE_THREAD_GONE;
	bpf_seq_write(seq, sample, sizeof(*sample));
}

/*
 * Whether there is room for all that is written of one thread. If not, the kernel hands on what
 * there is when it has seen that, and calls again for the same.
 */
static __always_inline bool has_room(struct seq_file *seq)
{
	if (seq->size - seq->count > (1 + packages) * sizeof(struct task_sample))
		return true;
	/* The last does not fit. */
	for (__u32 i = 0; i <= packages && i <= MOST_PACKAGES; i++)
		bpf_seq_write(seq, &no_sample, sizeof(no_sample));
	return false;
}

/* The account of a thread that the reader comes to; NULL where there is nothing to be read. */
static __always_inline struct task_account *met(struct task_struct *task)
{
	struct task_account *account;

	/* Whose cgroup is not set yet: it will be woken when it is. */
	if (task_state(task) == TASK_NEW)
		return NULL;
	/* Before counting begins: no switch needs to make storage. */
	if (!started_at) {
		account_storage(task);
		return NULL;
	}
	account = account_of(task);
	if (!account || account->reported)
		return NULL;
	/* One that has its CPU since before the agent was seen to get none. */
	package_of(task, account);
	if (waits_on && unlikely(!account->seen))
		find_block(task, account);
	return account;
}

/* Whether it can wait or run without being listed again by a switch. */
static __always_inline bool is_runnable(struct task_struct *task)
{
	return !task_state(task) || is_on_cpu(task);
}

static __always_inline void look_for_quota(struct task_struct *task)
{
	if (!throttles_threads() && !quotas_seen && has_quota(task))
		quotas_seen = 1;
}

/* Visits a thread in a walk that only maintains the list. */
static __always_inline void look_at(struct seq_file *seq, struct task_struct *task,
				    struct task_account *account)
{
	struct living living = {
		.tgid = task->tgid,
		.pid = task->pid,
		.start = account->process_start,
	};

	/* A thread that is older than the agent. */
	if (task->pid != task->tgid && !account->threads)
		mark_threads(task, account);
	look_for_quota(task);
	/* One that has not been read yet is a process, which has a row, or is blocked. */
	if (is_runnable(task) || cgroup_of(task) != account->cgroup || !account->seen ||
	    task->se.sum_exec_runtime > account->base.v[COUNTER_CPU_TIME])
		list_thread(task, account);
	if (task->pid != task->tgid && !account->shown_blocked)
		return;
	bpf_seq_write(seq, &living, sizeof(living));
}

/* Writes the carried sums of the process, before the first of its threads that is read. */
static __always_inline void write_carried(struct seq_file *seq, struct task_struct *task,
					  struct task_account *account, struct task_sample *sample)
{
	struct process_key key = process_of(task, account);
	struct task_sample *row;

	for (__u32 i = 0; i < packages && i < MOST_PACKAGES; i++) {
		key.package = i;
		row = bpf_map_lookup_elem(&carried, &key);
		if (!row)
			continue;
		/* From here on another change lists it again. */
		exchange(&row->listed, 0);
		__builtin_memcpy(sample, row, sizeof(*sample));
		/* The next snapshot has what came after the moment of this one. */
		if (sample->later_than == (__u32)sample_at && lists_threads && list_has_room() &&
		    !exchange(&row->listed, 1))
			list_number(task->tgid);
		sample->flags = SAMPLE_CARRIED;
		bpf_seq_write(seq, sample, sizeof(*sample));
	}
}

/*
 * Writes the thread, with how long it has been waiting (0: it does not wait) and the part of that
 * which is charged now (`open`; NULL: none).
 */
static __always_inline void write_thread(struct seq_file *seq, struct task_struct *task,
					 struct task_account *account, __u64 waiting_ns,
					 const struct division *open, struct task_sample *sample)
{
	struct cpu_slot *slot = running_slot(task);

	describe(sample, task, account);
	sample->waiting_ns = waiting_ns;
	sample->block = show_block(account);
	if (slot) {
		sample->flags |= SAMPLE_RUNNING;
		if (slot->sampled_at == sample_at)
			sample->flags |= SAMPLE_SWITCHED;
		sample->cpu = cpu_of(queue_of(task)->rq);
	}
	take_unsettled(task, account, slot, &sample->counters);
	if (injects_idle(task))
		sample->counters.v[COUNTER_CPU_TIME] = 0;
	sample->counters.v[COUNTER_WAIT_UNATTRIBUTED] += take_unseen(task, account);
	for (int i = 0; open && i < WAIT_PARTS; i++)
		sample->counters.v[COUNTER_WAIT_THROTTLE + i] += open->parts[i];
	bpf_seq_write(seq, sample, sizeof(*sample));
}

/*
 * Reads a thread, for which there is room. The reader can lose its CPU between any two lines. At
 * most once: CPU time that is settled meanwhile can be missing from this snapshot, and is never
 * reported twice. So the carried sums are read first and marked as reported last, and a thread is
 * marked as seen before it is read.
 */
static __always_inline void sample_thread(struct seq_file *seq, struct task_struct *task,
					  struct task_account *account)
{
	struct task_account *leader = account;
	struct task_sample *sample;
	__u32 scratch = SCRATCH_WALK;
	__u64 at = sample_at, waiting_ns = 0;
	struct division *part = NULL;
	struct open open;

	/* It was seen under another pid: by exec it took that of its leader. */
	if (account->seen == at)
		return;
	sample = bpf_map_lookup_elem(&scratches, &scratch);
	if (!sample)
		return;
	/* From here on a switch lists it again. */
	exchange(&account->listed, 0);
	if (is_runnable(task))
		list_thread(task, account);
	/* A move that no hook saw at once (several threads, before v6.7): settled now. */
	divide_moved(task, DIVISION_WALK);
	settle_moved(task, SCRATCH_WALK);
	if (task->pid != task->tgid)
		leader = mark_threads(task, account);
	look_for_quota(task);
	if (leader && leader->carried_seen != at) {
		write_carried(seq, task, account, sample);
		exchange(&leader->carried_seen, at);
	}
	exchange(&account->seen, at);
	if (read_open(task, account, at, &open)) {
		waiting_ns = length_of(&open, account);
		part = divide_open(task, account, DIVISION_WALK, &open, LONG_WAIT_NS);
	}
	write_thread(seq, task, account, waiting_ns, part, sample);
}

enum {
	/* Threads of the queue of one CPU, at most. */
	QUEUED = 4096,
};

struct queue_walk {
	/* Where the queue begins and ends, and where the walk is. */
	struct list_head *head;
	struct list_head *at;
};

/*
 * Lists the next thread of a queue. The queue is not locked: the walk can end up in another queue,
 * or in freed memory. So only the pid is taken from it, and listing a thread that need not be read
 * does no harm.
 */
static long list_next_queued(__u32 index, struct queue_walk *walk)
{
	__u32 node = bpf_core_field_offset(struct task_struct, se.group_node);
	struct task_account *account;
	struct task_struct *task;
	struct list_head *next;
	__u32 pid;

	if (bpf_probe_read_kernel(&next, sizeof(next), &walk->at->next) || next == walk->head)
		return 1;
	walk->at = next;
	task = (void *)next - node;
	if (bpf_core_read(&pid, sizeof(pid), &task->pid))
		return 1;
	task = bpf_task_from_pid(pid);
	if (!task)
		return 0;
	account = find_account(task);
	if (account && account->ready)
		list_thread(task, account);
	bpf_task_release(task);
	return 0;
}

/*
 * Lists the threads that are queued on the CPU: no switch has listed a thread that was woken and
 * has not run since.
 */
static __always_inline void list_queued(const struct cpu_slot *slot)
{
	struct queue_walk walk;
	struct rq *rq = NULL;

	if (!slot->queue || !bpf_core_field_exists(rq->cfs_tasks))
		return;
	walk.head = (void *)slot->queue + bpf_core_field_offset(struct rq, cfs_tasks);
	walk.at = walk.head;
	bpf_loop(QUEUED, list_next_queued, &walk, 0);
}

#endif
