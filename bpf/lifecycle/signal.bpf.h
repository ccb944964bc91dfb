/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Signals, recorded when they are sent.
 */
#ifndef NOCTULE_LIFECYCLE_SIGNAL_BPF_H
#define NOCTULE_LIFECYCLE_SIGNAL_BPF_H

#include "../include/filter.bpf.h"
#include "context.bpf.h"
#include "row.bpf.h"

enum {
	/*
	 * Special values of a siginfo pointer, linux/sched/signal.h: sent by the current process,
	 * or by the kernel.
	 */
	SEND_SIG_NOINFO = 0,
	SEND_SIG_PRIV = 1,
	SI_USER = 0,
	SI_KERNEL = 0x80,
	/* asm-generic/siginfo.h */
	SI_QUEUE = -1,
	SI_MESGQ = -3,
	SI_TKILL = -6,
	/* Value of `result`, linux/trace/events/signal.h. */
	TRACE_SIGNAL_IGNORED = 1,
};

/*
 * Whether the current thread sent the signal. Codes above 0 come from the kernel. Negative codes
 * are also used for timers and for asynchronous I/O. Such signals usually come from an interrupt,
 * which is unrelated to the current thread.
 */
static __always_inline bool is_sent_by_thread(int code)
{
	return code == SI_USER || code == SI_QUEUE || code == SI_MESGQ || code == SI_TKILL;
}

static __always_inline void report_signal(struct task_struct *task, int signal,
					  const struct kernel_siginfo *info)
{
	struct process_signal event = {};

	event.head.time = bpf_ktime_get_boot_ns();
	event.head.kind = EVENT_PROCESS_SIGNAL;
	describe_process(&event.head.process, task);
	/* The kernel delivers a signal for a process to any of its threads. */
	event.head.process.thread[0] = 0;
	event.signal = signal;
	if ((__u64)info == SEND_SIG_PRIV)
		event.code = SI_KERNEL;
	else if ((__u64)info != SEND_SIG_NOINFO)
		event.code = BPF_CORE_READ(info, si_code);
	/* Before v5.11 the sender is unknown; see compat.bpf.h. */
	if (has_task_storage && is_sent_by_thread(event.code))
		describe_leader(&event.sender, bpf_get_current_task_btf());
	emit(&facts, &event, sizeof(event), EVENT_PROCESS_SIGNAL);
}

#endif
