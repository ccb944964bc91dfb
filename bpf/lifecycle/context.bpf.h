/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Context of a process: its ancestors, credentials and namespaces.
 */
#ifndef NOCTULE_LIFECYCLE_CONTEXT_BPF_H
#define NOCTULE_LIFECYCLE_CONTEXT_BPF_H

#include "../include/compat.bpf.h"
#include "abi.h"

static __always_inline void describe_leader(struct process_parent *parent, struct task_struct *task)
{
	struct task_struct *leader = to_be_read(task)->group_leader;

	parent->start = leader->start_boottime;
	parent->pid = leader->tgid;
	parent->reserved = 0;
	bpf_probe_read_kernel(parent->comm, sizeof(parent->comm), leader->comm);
}

static __always_inline void describe_parent(struct process_parent *parent, struct task_struct *task)
{
	describe_leader(parent, to_be_read(task)->real_parent);
}

static __always_inline void describe_ancestors(char names[EXEC_ANCESTORS][16],
					       struct task_struct *task)
{
	struct task_struct *above = BPF_CORE_READ(task, real_parent, group_leader);

	for (int i = 0; i < EXEC_ANCESTORS; i++) {
		names[i][0] = 0;
		/* The idle task is its own parent. */
		if (!above || !BPF_CORE_READ(above, tgid))
			continue;
		above = BPF_CORE_READ(above, real_parent, group_leader);
		if (above && BPF_CORE_READ(above, tgid))
			bpf_probe_read_kernel(names[i], sizeof(names[i]), &above->comm);
	}
}

static __always_inline void describe_namespaces(__u32 *inodes, struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct nsproxy *proxy = BPF_CORE_READ(task, nsproxy);
	struct pid_namespace *space = NULL;
	__u32 level = BPF_CORE_READ(pid, level);

	inodes[NAMESPACE_USER] = BPF_CORE_READ(task, cred, user_ns, ns.inum);
	bpf_core_read(&space, sizeof(space), &pid->numbers[level].ns);
	inodes[NAMESPACE_PID] = BPF_CORE_READ(space, ns.inum);
	inodes[NAMESPACE_CGROUP] = BPF_CORE_READ(proxy, cgroup_ns, ns.inum);
	inodes[NAMESPACE_IPC] = BPF_CORE_READ(proxy, ipc_ns, ns.inum);
	inodes[NAMESPACE_MNT] = BPF_CORE_READ(proxy, mnt_ns, ns.inum);
	inodes[NAMESPACE_NET] = BPF_CORE_READ(proxy, net_ns, ns.inum);
	inodes[NAMESPACE_UTS] = BPF_CORE_READ(proxy, uts_ns, ns.inum);
}

static __always_inline void describe_credentials(struct process_exec *event,
						 struct task_struct *task)
{
	const struct cred *cred = to_be_read(task)->cred;
	struct tty_struct *tty = BPF_CORE_READ(task, signal, tty);

	event->uid = cred->uid.val;
	event->euid = cred->euid.val;
	event->gid = cred->gid.val;
	event->egid = cred->egid.val;
	event->cap_effective = 0;
	bpf_core_read(&event->cap_effective, sizeof(event->cap_effective), &cred->cap_effective);
	event->login_uid = ~0U;
	if (bpf_core_field_exists(task->loginuid))
		event->login_uid = BPF_CORE_READ(task, loginuid.val);
	event->audit_session = ~0U;
	if (bpf_core_field_exists(task->sessionid))
		event->audit_session = BPF_CORE_READ(task, sessionid);
	event->tty[0] = 0;
	if (tty)
		bpf_probe_read_kernel_str(event->tty, sizeof(event->tty), &tty->name);
	event->reserved_end = 0;
}

#endif
