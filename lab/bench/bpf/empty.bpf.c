// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The baseline of the bench: an attached program that does nothing. The run time of the program in
 * the kernel's statistics is the cost of measuring, which every program pays.
 */
#define SECTION(name) __attribute__((section(name), used))

char LICENSE[] SECTION("license") = "Dual BSD/GPL";

SECTION("tp_btf/sched_switch") int empty(void *context)
{
	(void)context;
	return 0;
}
