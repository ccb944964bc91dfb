// SPDX-License-Identifier: GPL-2.0-only
/*
 * A host that takes a known amount of time. The kernel reads the clock of stolen time from its
 * hypervisor. This module makes that clock grow by `percent` of all time. A value written to
 * `step_ms` is added once. The CPUs are not really interrupted; only the clock shows it. This is
 * test code for the virtual machines of `cargo xtask vm`, whose emulator steals no time. The module
 * is not shipped, and cannot be unloaded.
 *
 * Symbols that paravirt.c does not export are looked up by name, as tracers do.
 */
#include <linux/ktime.h>
#include <linux/kprobes.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/seqlock.h>
#include <linux/static_call.h>
#include <linux/static_key.h>

static DEFINE_SEQLOCK(lock);
static u64 taken_ns, since_ns;
static uint percent;

static u64 taken_until(u64 now)
{
	return taken_ns + div_u64((now - since_ns) * percent, 100);
}

static u64 steal_clock(int cpu)
{
	unsigned int sequence;
	u64 taken;

	do {
		sequence = read_seqbegin(&lock);
		taken = taken_until(ktime_get_mono_fast_ns());
	} while (read_seqretry(&lock, sequence));
	return taken;
}

static void set(uint wanted, s64 step_ns)
{
	unsigned long flags;
	u64 now;

	write_seqlock_irqsave(&lock, flags);
	now = ktime_get_mono_fast_ns();
	taken_ns = taken_until(now) + step_ns;
	since_ns = now;
	percent = wanted;
	write_sequnlock_irqrestore(&lock, flags);
}

static int percent_set(const char *text, const struct kernel_param *kp)
{
	uint wanted;
	int error = kstrtouint(text, 0, &wanted);

	if (error)
		return error;
	if (wanted > 100)
		return -EINVAL;
	set(wanted, 0);
	return 0;
}

static int step_set(const char *text, const struct kernel_param *kp)
{
	int step_ms;
	int error = kstrtoint(text, 0, &step_ms);

	if (!error)
		set(percent, (s64)step_ms * NSEC_PER_MSEC);
	return error;
}

static const struct kernel_param_ops percent_ops = {
	.set = percent_set,
	.get = param_get_uint,
};
module_param_cb(percent, &percent_ops, &percent, 0644);

static const struct kernel_param_ops step_ops = { .set = step_set };
module_param_cb(step_ms, &step_ops, NULL, 0200);

static int __init steal_init(void)
{
	void (*update)(struct static_call_key *key, void *trampoline, void *function);
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };
	unsigned long (*find)(const char *name);
	struct static_key *enabled;
	void *key, *trampoline;
	int error;

	error = register_kprobe(&probe);
	if (error)
		return error;
	find = (void *)probe.addr;
	unregister_kprobe(&probe);
	update = (void *)find("__static_call_update");
	key = (void *)find("__SCK__pv_steal_clock");
	trampoline = (void *)find("__SCT__pv_steal_clock");
	enabled = (void *)find("paravirt_steal_enabled");
	if (!update || !key || !trampoline || !enabled)
		return -ENOENT;
	update(key, trampoline, steal_clock);
	static_key_slow_inc(enabled);
	return 0;
}
module_init(steal_init);

MODULE_DESCRIPTION("A known part of all time is stolen, for the tests of noctule");
MODULE_LICENSE("GPL");
