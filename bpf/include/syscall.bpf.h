/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arguments and result of a system call, read when it returns. At that time the registers still
 * contain the arguments, so no program is needed at entry. The layout of the registers is the same
 * on every kernel, unlike the records of these tracepoints.
 */
#ifndef NOCTULE_SYSCALL_BPF_H
#define NOCTULE_SYSCALL_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_1(regs) ((regs)->di)
#define ARGUMENT_2(regs) ((regs)->si)
#define ARGUMENT_3(regs) ((regs)->dx)
#define RESULT(regs) ((long)(regs)->ax)
#elif defined(__TARGET_ARCH_arm64)
/* regs[0] contains the result, which replaced the first argument. */
#define ARGUMENT_1(regs) ((regs)->orig_x0)
#define ARGUMENT_2(regs) ((regs)->regs[1])
#define ARGUMENT_3(regs) ((regs)->regs[2])
#define RESULT(regs) ((long)(regs)->regs[0])
#else
#error "name the registers of a system call"
#endif

/* Returns the number of the system call; below 0 if the thread is not in a system call. */
static __always_inline long system_call(const struct pt_regs *registers)
{
#if defined(__TARGET_ARCH_x86)
	return registers->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	return registers->syscallno;
#endif
}

static __always_inline const struct pt_regs *registers_of(struct task_struct *task)
{
	return (const struct pt_regs *)bpf_task_pt_regs(task);
}

#endif
