// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The floor of the bench: an attached program that does nothing. What the kernel's statistics show
 * for it is what measuring costs, and every program pays it.
 */
#define SECTION(name) __attribute__((section(name), used))

char LICENSE[] SECTION("license") = "Dual BSD/GPL";

SECTION("tp_btf/sched_switch") int empty(void *context)
{
	(void)context;
	return 0;
}
