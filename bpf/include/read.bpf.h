/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads kernel objects. */
#ifndef NOCTULE_READ_BPF_H
#define NOCTULE_READ_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* v6.2: a35b9af4ec2c ("bpf: Add a kfunc for generic type cast"). */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __weak __ksym;

/*
 * Kernel type ids of the types that programs pass to bpf_rdonly_cast(). The kernel has no such
 * enum. If the kernel has the cast, user space adds the enum to the reduced copy of the kernel's
 * BTF that is used for CO-RE. The type ids in that copy differ from the kernel's, so
 * bpf_core_type_id_kernel() would return a wrong one.
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

/* Casts the address to a read-only pointer to the type with this number. */
#define cast(address, number) \
	bpf_rdonly_cast((void *)(address), bpf_core_enum_value(enum kernel_number, number))

/*
 * Returns a read-only pointer to a kernel object. For each pointer loaded from a trusted object the
 * verifier searches the kernel's types by name, which took half of the startup time. The verifier
 * does not search for an untrusted object.
 */
#define only_to_be_read(object, number)                  \
	({                                               \
		typeof(object) object_ = (object);       \
		if (can_be_cast(number))                 \
			object_ = cast(object_, number); \
		object_;                                 \
	})

/* Reads a field of the object at an address. If the kernel has the cast, this is a plain load. */
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

/* Returns a read-only pointer to a task. */
#define to_be_read(task) only_to_be_read(task, NUMBER_TASK_STRUCT)

#endif
