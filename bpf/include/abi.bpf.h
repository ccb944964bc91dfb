/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef NOCTULE_ABI_BPF_H
#define NOCTULE_ABI_BPF_H

/*
 * Puts a type that is not a map value into the object's BTF, from which user space reads its
 * layout.
 */
#define ABI_EXPORT(kind, name) kind name *abi_##name __attribute__((unused))

#endif
