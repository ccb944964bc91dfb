/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How objects of the kernel are read.
 */
#ifndef NOCTULE_READ_BPF_H
#define NOCTULE_READ_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* v6.2: a35b9af4ec2c ("bpf: Add a kfunc for generic type cast"). */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __weak __ksym;

/*
 * The numbers by which the kernel knows types that programs name to it; 0: not known. User space sets them:
 * objects are fitted to a copy of the kernel's BTF, in which types have other numbers, so
 * bpf_core_type_id_kernel() is not for programs here.
 */
const volatile __u32 task_struct_number = 0;

/*
 * An object of the kernel, only to be read. For each load of a pointer from an object that it
 * trusts the verifier searches the kernel's types by name, which took half of the time of a start;
 * from one that it does not trust it loads without a question.
 */
#define only_to_be_read(object, number)                                \
	({                                                             \
		typeof(object) object_ = (object);                     \
		if (number && bpf_ksym_exists(bpf_rdonly_cast))        \
			object_ = bpf_rdonly_cast(object_, number);    \
		object_;                                               \
	})

/* The same of a thread. */
#define to_be_read(task) only_to_be_read(task, task_struct_number)

#endif
