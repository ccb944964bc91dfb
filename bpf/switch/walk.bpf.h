/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads threads for a snapshot: the listed threads, or all threads if there is no list.
 */
#ifndef NOCTULE_WALK_BPF_H
#define NOCTULE_WALK_BPF_H

#include "settle.bpf.h"

enum {
	/* Maximum number of threads per run of the iterator. */
	TURNS = 512,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TURNS);
	__type(key, __u32);
	__type(value, __u32);
} turns SEC(".maps");

/*
 * Records on the leader that the process has another thread, so that the exit of the leader does
 * not end the process. In the account of another thread, `threads` is set once the leader has been
 * marked.
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
 * Returns the next entry of the list. Returns 0 for an entry that is still being written. In that
 * case the remaining entries are left for the next snapshot.
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

/* Reports that a thread no longer exists. User space last saw it as blocked. */
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
 * Whether the buffer has room for all records of one thread. If not, the overflow makes the kernel
 * return the buffer to the reader and call the program again for this thread.
 */
static __always_inline bool has_room(struct seq_file *seq)
{
	if (seq->size - seq->count > (1 + packages) * sizeof(struct task_sample))
		return true;
	/* At least one of these records does not fit, which causes the overflow. */
	for (__u32 i = 0; i <= packages && i <= MOST_PACKAGES; i++)
		bpf_seq_write(seq, &no_sample, sizeof(no_sample));
	return false;
}

/* Returns the account of a visited thread, or NULL if there is nothing to read. */
static __always_inline struct task_account *visited_account(struct task_struct *task)
{
	struct task_account *account;

	/* The cgroup of the thread is not set yet. The kernel sets it before the first wake-up. */
	if (task_state(task) == TASK_NEW)
		return NULL;
	/* Creates the storage before counting begins, so that no switch has to create it. */
	if (!started_at) {
		account_storage(task);
		return NULL;
	}
	account = account_of(task);
	if (!account || account->reported)
		return NULL;
	/* The thread may have got its CPU before the agent started, and still have it. */
	package_of(task, account);
	if (waits_on && unlikely(!account->seen))
		find_block(task, account);
	return account;
}

/* Whether the thread can wait or run without being listed again by a switch. */
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
	/*
	 * A thread that was never read is listed: it may be a process, which has a row, or blocked.
	 */
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
		/* A later change lists the process again. */
		exchange(&row->listed, 0);
		__builtin_memcpy(sample, row, sizeof(*sample));
		/* Usage after the moment of this snapshot belongs to the next snapshot. */
		if (sample->later_than == (__u32)sample_at && lists_threads && list_has_room() &&
		    !exchange(&row->listed, 1))
			list_number(task->tgid);
		sample->flags = SAMPLE_CARRIED;
		bpf_seq_write(seq, sample, sizeof(*sample));
	}
}

/*
 * Writes the record of a thread. `waiting_ns` is the length of its current wait, or 0. `open` is
 * the part of that wait that is charged now, or NULL.
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
	for (int i = 0; open && i < WAIT_CAUSES; i++)
		sample->counters.v[COUNTER_WAIT_THROTTLE + i] += open->parts[i];
	bpf_seq_write(seq, sample, sizeof(*sample));
}

/*
 * Reads a thread; the buffer has room for it. The reader can be preempted anywhere. CPU time is
 * reported at most once: time that is settled meanwhile can be missing from this snapshot, but is
 * never counted twice. The carried sums are therefore read first and marked as reported last, and a
 * thread is marked as seen before it is read.
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

	/* The thread was already read under another pid: by exec it took the pid of its leader. */
	if (account->seen == at)
		return;
	sample = bpf_map_lookup_elem(&scratches, &scratch);
	if (!sample)
		return;
	/* A later switch lists the thread again. */
	exchange(&account->listed, 0);
	if (is_runnable(task))
		list_thread(task, account);
	/*
	 * Settles a move that the program at cgroup_attach_task missed (several threads, before
	 * v6.7).
	 */
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
		part = divide_open(task, account, DIVISION_WALK, &open, LEAST_OPEN_NS);
	}
	write_thread(seq, task, account, waiting_ns, part, sample);
}

enum {
	/* Maximum number of threads in the queue of one CPU. */
	QUEUED = 4096,
};

struct queue_walk {
	/* Head of the queue, and position of the walk. */
	struct list_head *head;
	struct list_head *at;
};

/*
 * Lists the next thread of a queue. The queue is not locked, so the walk can end up in another
 * queue or in freed memory. Only the pid is therefore taken from the entry. Listing a wrong thread
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
 * Lists the threads queued on the CPU. The switch program does not list threads that were woken and
 * are still waiting.
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
