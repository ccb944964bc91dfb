/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A moment by the scheduler's clock of a CPU, and what until then went to interrupts and to the
 * host.
 */
#ifndef NOCTULE_MOMENT_BPF_H
#define NOCTULE_MOMENT_BPF_H

#include "../include/clock.bpf.h"
#include "../include/slot.bpf.h"

/* By the clock of one CPU, whose run queue must be locked. */
struct moment {
	__u64 clock;
	/* How much of the time since boot went to interrupts and to the host (steal). */
	__u64 stolen;
	/* The part of interrupts, where the kernel measures it (CONFIG_IRQ_TIME_ACCOUNTING). */
	__u64 interrupts;
};

/*
 * Whether the scheduler's clock for threads goes on while the host has the CPU (no
 * CONFIG_PARAVIRT_TIME_ACCOUNTING). Then the kernel counts what the host takes at ticks; where the
 * host has the CPU for longer than that, there is one as soon as it gives it back.
 */
static __always_inline bool host_is_apart(void)
{
	struct rq *rq = NULL;

	return bpf_core_field_exists(rq->prev_steal_time) &&
	       !bpf_core_field_exists(rq->prev_steal_time_rq);
}

/* Where the host is apart, it is not in `stolen` yet. */
static __always_inline void moment_of(struct rq *rq, struct moment *moment)
{
	__u64 clock = rq->clock;

	moment->clock = clock;
	moment->stolen = clock - rq->clock_task;
	moment->interrupts = bpf_core_field_exists(rq->prev_irq_time) ? rq->prev_irq_time : 0;
}

/* How far the scheduler's clock for threads is behind. */
static __always_inline __u64 behind(const struct moment *moment)
{
	return host_is_apart() ? moment->interrupts : moment->stolen;
}

/* Between two ticks, at most. */
#define TICK_NS 10000000

/*
 * What the kernel has counted since the last switch of the CPU. Hosts have got it wrong, as where a
 * CPU was offline: it went back. When it comes forward by as much, that is no time.
 */
static __always_inline __s64 host_grown(const struct cpu_slot *slot, struct rq *rq)
{
	__s64 grown = rq->prev_steal_time - slot->host_counted;

	if (slot->host_debt && grown >= (__s64)slot->host_debt)
		grown -= slot->host_debt;
	return grown;
}

/*
 * A CPU switches: adds what the host took since the last switch, but not more than all the time
 * since then. What a tick has found of the time before is left for the next slices, if it can be
 * that of one tick; more is dropped.
 */
static __always_inline void tell_host(struct cpu_slot *slot, struct rq *rq, struct moment *now)
{
	__u64 counted = rq->prev_steal_time;
	__s64 all = counted - slot->host_counted;
	__s64 grown = host_grown(slot, rq);
	__s64 most = now->clock + slot->clock_offset - slot->since;
	__s64 left;

	if (all) {
		slot->host_counted = counted;
		if (all < 0)
			slot->host_debt -= all;
		else if (grown != all)
			slot->host_debt = 0;
		if (slot->since && grown > 0 && most > 0) {
			left = grown - most;
			if (left > 0) {
				grown = most;
				slot->host_counted -= left < TICK_NS ? left : TICK_NS;
			}
			slot->host += grown;
		}
	}
	now->stolen += slot->host;
}

/* The same for the time since the last switch of a CPU, which is not this one. */
static __always_inline void add_host(const struct cpu_slot *slot, struct rq *rq, struct moment *now)
{
	__s64 grown = host_grown(slot, rq);

	now->stolen += slot->host;
	if (slot->since && grown > 0)
		now->stolen += grown;
}

#endif
