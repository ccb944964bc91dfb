/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A point in time on a CPU's scheduler clock, with the interrupt and steal time up to that point.
 */
#ifndef NOCTULE_MOMENT_BPF_H
#define NOCTULE_MOMENT_BPF_H

#include "../include/clock.bpf.h"
#include "../include/slot.bpf.h"

/* Times are on the clock of one CPU, whose run queue must be locked. */
struct moment {
	__u64 clock;
	/* Interrupt and steal time since boot. */
	__u64 stolen;
	/* Interrupt time since boot, if the kernel measures it (CONFIG_IRQ_TIME_ACCOUNTING). */
	__u64 interrupts;
};

/*
 * Whether the thread clock (clock_task) keeps running during steal (no
 * CONFIG_PARAVIRT_TIME_ACCOUNTING). In that case the kernel counts steal time at ticks. Steal time
 * that is longer than a tick is immediately followed by a tick.
 */
static __always_inline bool host_is_apart(void)
{
	struct rq *rq = NULL;

	return bpf_core_field_exists(rq->prev_steal_time) &&
	       !bpf_core_field_exists(rq->prev_steal_time_rq);
}

/* Reads the moment. If host_is_apart(), `stolen` does not include steal time yet. */
static __always_inline void moment_of(struct rq *rq, struct moment *moment)
{
	__u64 clock = rq->clock;

	moment->clock = clock;
	moment->stolen = clock - rq->clock_task;
	moment->interrupts = bpf_core_field_exists(rq->prev_irq_time) ? rq->prev_irq_time : 0;
}

/* Returns how far the thread clock lags behind the scheduler clock, in nanoseconds. */
static __always_inline __u64 behind(const struct moment *moment)
{
	return host_is_apart() ? moment->interrupts : moment->stolen;
}

/* Maximum interval between two ticks. */
#define TICK_NS 10000000

/*
 * Returns the growth of the kernel's steal count since the CPU's last switch. Some hosts report
 * wrong values. For example, the count may decrease after a CPU was offline. A later increase by
 * the same amount is then not steal time.
 */
static __always_inline __s64 host_grown(const struct cpu_slot *slot, struct rq *rq)
{
	__s64 grown = rq->prev_steal_time - slot->host_counted;

	if (slot->host_debt && grown >= (__s64)slot->host_debt)
		grown -= slot->host_debt;
	return grown;
}

/*
 * Adds the steal time since the CPU's last switch, limited to the elapsed time. A tick may count
 * steal from before the last switch. Up to one tick of such time is kept for the next slices, and
 * the remaining time is dropped.
 */
static __always_inline void report_steal(struct cpu_slot *slot, struct rq *rq, struct moment *now)
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

/* Adds the steal time of another CPU, including the time since that CPU's last switch. */
static __always_inline void add_host(const struct cpu_slot *slot, struct rq *rq, struct moment *now)
{
	__s64 grown = host_grown(slot, rq);

	now->stolen += slot->host;
	if (slot->since && grown > 0)
		now->stolen += grown;
}

#endif
