// SPDX-License-Identifier: GPL-2.0-only
/*
 * A meter whose true values are known: powercap zones whose energy this module computes from the
 * busy time of each CPU. The module is test code for the virtual machines of `cargo xtask vm` and
 * is not shipped.
 *
 * Each CPU is a package. A package uses busy_mw while busy, plus more_mw for each CPU before it,
 * and idle_mw all the time. In every second tenth of a second, a ripple of ripple_mw is added.
 * Memory uses dram_busy_mw and dram_idle_mw. Counters wrap at range_uj. The sums in
 * /sys/module/noctule_meter/parameters/truth do not wrap.
 */
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/powercap.h>
#include <linux/tick.h>

#define RIPPLE_US 100000ULL
#define MOST_PACKAGES 8

static ulong busy_mw = 20000;
module_param(busy_mw, ulong, 0444);
static ulong more_mw = 10000;
module_param(more_mw, ulong, 0444);
static ulong idle_mw = 4000;
module_param(idle_mw, ulong, 0444);
static ulong ripple_mw = 1000;
module_param(ripple_mw, ulong, 0444);
static ulong dram_busy_mw = 3000;
module_param(dram_busy_mw, ulong, 0444);
static ulong dram_idle_mw = 1000;
module_param(dram_idle_mw, ulong, 0444);
/* At 25 W, the power of the first package when busy, a counter wraps every 3 s. */
static ulong range_uj = 75000000 - 1;
module_param(range_uj, ulong, 0444);

struct meter_zone {
	struct powercap_zone zone;
	unsigned int cpu;
	bool dram;
	bool registered;
};

static struct powercap_control_type *control;
static struct meter_zone packages[MOST_PACKAGES];
static struct meter_zone drams[MOST_PACKAGES];

/*
 * Returns how long the CPU was busy since boot. Sets `now` to the time since boot. Both are in
 * microseconds.
 */
static u64 busy_us(unsigned int cpu, u64 *now)
{
	u64 iowait = get_cpu_iowait_time_us(cpu, now);
	u64 idle = get_cpu_idle_time_us(cpu, now);

	return *now - min(*now, idle + iowait);
}

/* Returns microjoules since boot. A milliwatt is a thousandth of a microjoule per microsecond. */
static u64 energy_uj(const struct meter_zone *zone, u64 *now, u64 *busy_time)
{
	u64 busy = busy_us(zone->cpu, now);
	u64 sum, phase;

	*busy_time = busy;
	if (zone->dram)
		return div_u64(busy * dram_busy_mw + *now * dram_idle_mw, 1000);
	div64_u64_rem(*now, 2 * RIPPLE_US, &phase);
	sum = busy * (busy_mw + zone->cpu * more_mw) + *now * idle_mw;
	sum += div64_u64(*now, 2 * RIPPLE_US) * RIPPLE_US * ripple_mw;
	sum += min(phase, RIPPLE_US) * ripple_mw;
	return div_u64(sum, 1000);
}

static struct meter_zone *of(struct powercap_zone *zone)
{
	return container_of(zone, struct meter_zone, zone);
}

static int get_energy(struct powercap_zone *zone, u64 *value)
{
	u64 now, busy;

	div64_u64_rem(energy_uj(of(zone), &now, &busy), range_uj + 1, value);
	return 0;
}

static int get_range(struct powercap_zone *zone, u64 *value)
{
	*value = range_uj;
	return 0;
}

static int release(struct powercap_zone *zone)
{
	return 0;
}

static const struct powercap_zone_ops ops = {
	.get_energy_uj = get_energy,
	.get_max_energy_range_uj = get_range,
	.release = release,
};

/* The zones have no constraints, but powercap requires these functions. */
static int get_limit(struct powercap_zone *zone, int id, u64 *value)
{
	return -ENODATA;
}

static int set_limit(struct powercap_zone *zone, int id, u64 value)
{
	return -EPERM;
}

static const struct powercap_zone_constraint_ops no_constraints = {
	.get_power_limit_uw = get_limit,
	.set_power_limit_uw = set_limit,
	.get_time_window_us = get_limit,
	.set_time_window_us = set_limit,
};

/* Prints a line for each zone: name, CPU, CLOCK_MONOTONIC in us, busy us, uJ. */
static int truth_get(char *buffer, const struct kernel_param *kp)
{
	int length = 0, i;

	for (i = 0; i < 2 * MOST_PACKAGES; i++) {
		struct meter_zone *zone = i % 2 ? &drams[i / 2] : &packages[i / 2];
		u64 now, busy, sum;

		if (!zone->registered)
			continue;
		sum = energy_uj(zone, &now, &busy);
		length += scnprintf(buffer + length, PAGE_SIZE - length, "%s %u %llu %llu %llu\n",
				    zone->dram ? "dram" : "package", zone->cpu, now, busy,
				    sum);
	}
	return length;
}

static const struct kernel_param_ops truth_ops = { .get = truth_get };
module_param_cb(truth, &truth_ops, NULL, 0444);

static void remove_all(void)
{
	int i;

	for (i = 0; i < MOST_PACKAGES; i++) {
		if (drams[i].registered)
			powercap_unregister_zone(control, &drams[i].zone);
		if (packages[i].registered)
			powercap_unregister_zone(control, &packages[i].zone);
	}
	powercap_unregister_control_type(control);
}

static int add(struct meter_zone *zone, const char *name, struct powercap_zone *parent)
{
	struct powercap_zone *made;

	made = powercap_register_zone(&zone->zone, control, name, parent, &ops, 0,
				      &no_constraints);
	zone->registered = !IS_ERR(made);
	return PTR_ERR_OR_ZERO(made);
}

static int __init meter_init(void)
{
	unsigned int cpu;
	int error;

	control = powercap_register_control_type(NULL, "noctule-meter", NULL);
	if (IS_ERR(control))
		return PTR_ERR(control);
	for_each_online_cpu(cpu) {
		char name[24];

		if (cpu >= MOST_PACKAGES)
			break;
		snprintf(name, sizeof(name), "package-%u", cpu);
		packages[cpu].cpu = drams[cpu].cpu = cpu;
		drams[cpu].dram = true;
		error = add(&packages[cpu], name, NULL);
		if (!error)
			error = add(&drams[cpu], "dram", &packages[cpu].zone);
		if (error) {
			remove_all();
			return error;
		}
	}
	return 0;
}
module_init(meter_init);
module_exit(remove_all);

MODULE_DESCRIPTION("Powercap zones of known energy, for the tests of noctule");
MODULE_LICENSE("GPL");
