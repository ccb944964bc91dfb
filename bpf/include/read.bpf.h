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
 * The numbers by which the kernel knows types that programs name to it. No kernel has this type:
 * user space puts it into the copy of the kernel's BTF to which objects are fitted, where the
 * kernel has the cast. bpf_core_type_id_kernel() would be the number of the type in that copy.
 */
enum kernel_number {
	NUMBER_TASK_STRUCT = 1,
	NUMBER_RQ = 2,
	NUMBER_TCP_SOCK = 3,
	NUMBER_ADDRESS_SPACE = 4,
	NUMBER_LIST_HEAD = 5,
	NUMBER_FILE = 6,
	NUMBER_SOCKET = 7,
};

#define can_be_cast(number) bpf_core_enum_value_exists(enum kernel_number, number)

/* The address as a pointer to the type of this number, only to be read. */
#define cast(address, number) \
	bpf_rdonly_cast((void *)(address), bpf_core_enum_value(enum kernel_number, number))

/*
 * An object of the kernel, only to be read. For each load of a pointer from an object that it
 * trusts the verifier searches the kernel's types by name, which took half of the time of a start;
 * from one that it does not trust it loads without a question.
 */
#define only_to_be_read(object, number)                  \
	({                                               \
		typeof(object) object_ = (object);       \
		if (can_be_cast(number))                 \
			object_ = cast(object_, number); \
		object_;                                 \
	})

/* A field of an object at an address, by a load where the kernel has the cast. */
#define read_at(address, number, field)                                           \
	({                                                                        \
		typeof(address) object_ = (address);                              \
		typeof(object_->field) value_;                                    \
		if (can_be_cast(number))                                          \
			value_ = ((typeof(object_))cast(object_, number))->field; \
		else                                                              \
			value_ = BPF_CORE_READ(object_, field);                   \
		value_;                                                           \
	})

/* The same of a thread. */
#define to_be_read(task) only_to_be_read(task, NUMBER_TASK_STRUCT)

#endif
