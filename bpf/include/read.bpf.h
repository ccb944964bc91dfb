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
 * An object of the kernel, only to be read. For each load of a pointer from an object that it
 * trusts the verifier searches the kernel's types by name, which took half of the time of a start;
 * from one that it does not trust it loads without a question.
 */
#define to_be_read(object)                                                                    \
	({                                                                                    \
		typeof(object) object_ = (object);                                            \
		if (bpf_ksym_exists(bpf_rdonly_cast))                                         \
			object_ = bpf_rdonly_cast(object_,                                    \
						  bpf_core_type_id_kernel(typeof(*object_))); \
		object_;                                                                      \
	})

#endif
