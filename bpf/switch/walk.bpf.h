/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a snapshot reads of threads.
 */
#ifndef NOCTULE_WALK_BPF_H
#define NOCTULE_WALK_BPF_H

#include "fold.bpf.h"

/*
 * Notes with its leader that the thread is there: the end of the process is then not that of the
 * leader. On another account than a leader's, `threads` says that it was noted.
 */
static __always_inline struct task_account *mark_threads(struct task_struct *thread,
							 struct task_account *account)
{
	struct task_struct *process = leader_of(thread);
	struct task_account *leader = process ? account_of(process) : NULL;

	if (leader) {
		leader->threads = 1;
		account->threads = 1;
	}
	return leader;
}

/* Writes what is carried for the process, with the first of its threads that the walk comes to. */
static __always_inline long write_carried(struct seq_file *seq, struct task_struct *task,
					  struct task_account *account, struct task_sample *sample)
{
	struct process_key key = process_of(task, account);
	struct task_sample *row = bpf_map_lookup_elem(&carried, &key);

	if (!row)
		return 0;
	__builtin_memcpy(sample, row, sizeof(*sample));
	sample->flags = SAMPLE_CARRIED;
	return bpf_seq_write(seq, sample, sizeof(*sample));
}

/* Writes the thread, with what it waits now (`open`, NULL if it does not). */
static __always_inline long write_thread(struct seq_file *seq, struct task_struct *task,
					 struct task_account *account, const struct division *open,
					 struct task_sample *sample)
{
	struct cpu_slot *slot = running_slot(task);

	describe(sample, task, account);
	if (slot) {
		sample->flags |= SAMPLE_RUNNING;
		if (slot->sampled_at == sample_at)
			sample->flags |= SAMPLE_SWITCHED;
		sample->cpu = cpu_of(queue_of(task)->rq);
	}
	unsettled(task, account, slot, &sample->counters);
	/* The sums that have it were read before. */
	for (int i = 0; open && i < WAIT_PARTS; i++)
		sample->counters.v[COUNTER_WAIT_THROTTLE + i] += open->parts[i];
	return bpf_seq_write(seq, sample, sizeof(*sample));
}

/*
 * The reader can be kept from going on between any two lines. What is settled meanwhile is rather
 * missing for once than told twice: what is carried is read first and noted as told last, a thread
 * is noted as seen before it is read. Where the buffer is full, the kernel drops what was written
 * here and calls again for the same thread.
 */
static __always_inline void sample_thread(struct seq_file *seq, struct task_struct *task)
{
	struct task_account *account, *leader;
	struct division *open;
	struct task_sample *sample;
	__u64 at = sample_at;
	__u32 scratch = SCRATCH_WALK;

	/* Whose cgroup is not set yet: it will be woken when it is. */
	if (task_state(task) == TASK_NEW)
		return;
	/* Before counting begins: no switch needs to make storage. */
	if (!started_at) {
		account_storage(task);
		return;
	}
	account = account_of(task);
	if (!account || account->reported)
		return;
	/* It was seen under another pid: by exec it took that of its leader. */
	if (at && account->seen == at)
		return;
	sample = bpf_map_lookup_elem(&scratches, &scratch);
	if (!sample)
		return;
	/* A move that no hook saw at once (several threads, before v6.7): settled now. */
	settle_waiting(task);
	settle_used(task, SCRATCH_WALK);
	leader = account;
	if (task->pid != task->tgid) {
		/* A thread that is older than the agent. */
		if (!account->threads)
			mark_threads(task, account);
		leader = leader_of(task) ? find_account(leader_of(task)) : NULL;
	}
	if (!throttles_threads() && !quotas_seen && has_quota(task))
		quotas_seen = 1;
	if (leader && leader->carried_seen != at && write_carried(seq, task, account, sample))
		return;
	open = at ? settle_open(task, account, DIVISION_WALK, at, LONG_WAIT_NS) : NULL;
	exchange(&account->seen, at);
	if (write_thread(seq, task, account, open, sample))
		account->seen = 0;
	else if (leader)
		exchange(&leader->carried_seen, at);
}

#endif
