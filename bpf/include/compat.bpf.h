/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel history: each shim names the change it bridges, and when it can go.
 */
#ifndef NOCTULE_COMPAT_BPF_H
#define NOCTULE_COMPAT_BPF_H

#include "kernel.h"
#include "read.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/*
 * Programs of tracing have task storage from v5.13 on (a10787e6d58c), atomic operations that give
 * back what was from v5.12 (5ffa25502b5a, 5ca419f2864a), and the current thread with its type from
 * v5.11 (3ca1032ab7ab). A kernel that lacks the first is taken to lack all three: what would use
 * them is never run, and user space makes nothing of it (crates/kernel/src/older.rs).
 */
const volatile bool has_task_storage = true;

/*
 * What they do where the kernel has them. Else two CPUs that change the same word at the same
 * moment can miss the change of one: of a thread that ends while it is moved, or that two see for
 * the first time.
 */
#define exchange(word, value)                                            \
	({                                                               \
		typeof(*(word)) before_;                                 \
		if (!has_task_storage) {                                 \
			before_ = *(volatile typeof(*(word)) *)(word);   \
			*(volatile typeof(*(word)) *)(word) = (value);   \
		} else {                                                 \
			before_ = __sync_lock_test_and_set(word, value); \
		}                                                        \
		before_;                                                 \
	})

#define fetch_and_add(word, value)                                     \
	({                                                             \
		typeof(*(word)) before_;                               \
		if (!has_task_storage) {                               \
			before_ = *(volatile typeof(*(word)) *)(word); \
			__sync_fetch_and_add(word, value);             \
		} else {                                               \
			before_ = __sync_fetch_and_add(word, value);   \
		}                                                      \
		before_;                                               \
	})

#define compare_and_swap(word, old, value)                                       \
	({                                                                       \
		typeof(*(word)) before_;                                         \
		if (!has_task_storage) {                                         \
			before_ = *(volatile typeof(*(word)) *)(word);           \
			if (before_ == (old))                                    \
				*(volatile typeof(*(word)) *)(word) = (value);   \
		} else {                                                         \
			before_ = __sync_val_compare_and_swap(word, old, value); \
		}                                                                \
		before_;                                                         \
	})

/* Sets a word that is 0. */
#define set_once(word, value)                                          \
	({                                                             \
		if (has_task_storage)                                  \
			__sync_val_compare_and_swap(word, 0, value);   \
		else if (!*(volatile typeof(*(word)) *)(word))         \
			*(volatile typeof(*(word)) *)(word) = (value); \
	})

/* v5.14: 2f064a59a11f ("sched: Change task_struct::state"), back-ported to RHEL 8. */
struct task_struct___pre_5_14 {
	volatile long state;
} __attribute__((preserve_access_index));

static __always_inline __u32 task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((struct task_struct___pre_5_14 *)task)->state;
}

/* v5.19 to v6.5: 64eaf50731ac ("sched/fair: Fix cfs_rq_clock_pelt() for throttled cfs_rq"). */
struct cfs_rq___pre_6_6 {
	__u64 throttled_clock_pelt;
	__u64 throttled_clock_pelt_time;
} __attribute__((preserve_access_index));

/* Before it. */
struct cfs_rq___pre_5_19 {
	__u64 throttled_clock_task;
	__u64 throttled_clock_task_time;
} __attribute__((preserve_access_index));

/* Before v6.2: f1a7941243c1 ("mm: convert mm's rss stats into percpu_counter"). */
struct mm_struct___pre_6_2 {
	struct {
		struct {
			long counter;
		} count[4];
	} rss_stat;
} __attribute__((preserve_access_index));

/* Should the counter become a plain number. */
struct net___u64 {
	__u64 net_cookie;
} __attribute__((preserve_access_index));

/* v6.18: 53fbef56e07d ("mm: introduce memdesc_flags_t"). */
typedef struct {
	unsigned long f;
} memdesc_flags_t;

struct folio___6_18 {
	memdesc_flags_t flags;
} __attribute__((preserve_access_index));

/* v6.0 to v6.14, then renamed to _nr_pages. */
struct folio___pre_6_15 {
	unsigned int _folio_nr_pages;
} __attribute__((preserve_access_index));

/* Pages of a folio. Before v6.0 a kernel does not keep the number: each folio counts as 1 page. */
static __always_inline __u32 folio_pages(struct folio *folio)
{
	struct folio___6_18 *newer = (void *)folio;
	struct folio___pre_6_15 *older = (void *)folio;
	unsigned long flags;

	if (bpf_core_field_exists(newer->flags.f))
		flags = newer->flags.f;
	else
		flags = folio->flags;
	if (!(flags & 1UL << bpf_core_enum_value(enum pageflags, PG_head)))
		return 1;
	if (bpf_core_field_exists(folio->_nr_pages))
		return folio->_nr_pages;
	if (bpf_core_field_exists(older->_folio_nr_pages))
		return older->_folio_nr_pages;
	return 1;
}

/*
 * v6.7: c68a78ffe2cb ("bpf: Introduce task open coded iterator kfuncs"). Without them a move of a
 * process with several threads is seen at once for its leader and at the next tick for the rest.
 */
extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, unsigned int flags)
	__weak __ksym;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __weak __ksym;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __weak __ksym;

/* v6.2: 90660309b0c7 ("bpf: Add kfuncs for storing struct task_struct * as a kptr"). */
extern struct task_struct *bpf_task_acquire(struct task_struct *task) __weak __ksym;
extern void bpf_task_release(struct task_struct *task) __weak __ksym;

/* v5.15: dd6e10fbd9fb ("bpf: Add bpf_task_pt_regs() helper"). */
enum bpf_func_id___task_pt_regs {
	BPF_FUNC_task_pt_regs___task_pt_regs = 175,
};

static __always_inline bool has_task_registers(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id___task_pt_regs,
					  BPF_FUNC_task_pt_regs___task_pt_regs);
}

/* v6.2: 3f0e6f2b41d3 ("bpf: Add bpf_task_from_pid() kfunc"). */
extern struct task_struct *bpf_task_from_pid(__s32 pid) __weak __ksym;

/* enum bpf_task_iter flags of the same commit. */
enum {
	TASK_ITER_PROC_THREADS = 2,
};

#endif
