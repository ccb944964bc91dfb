/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Compatibility with older kernels. The comment of each shim names the kernel change that it
 * bridges, and when the shim can be removed.
 */
#ifndef NOCTULE_COMPAT_BPF_H
#define NOCTULE_COMPAT_BPF_H

#include "kernel.h"
#include "read.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/*
 * Whether the kernel has task local storage for tracing programs (v5.13, a10787e6d58c). This
 * storage also implies two older features: atomic operations that return the previous value (v5.12,
 * 5ffa25502b5a, 5ca419f2864a) and bpf_get_current_task_btf() (v5.11, 3ca1032ab7ab). On a kernel
 * without task storage, code that uses any of the three never runs: user space patches it out at
 * load (crates/kernel/src/older.rs).
 */
const volatile bool has_task_storage = true;

/*
 * Atomic operations, with a fallback for kernels that lack them. The fallback is racy: if two CPUs
 * change a word at the same moment, one change can be lost. This race can happen to a thread that
 * ends while it is moved, or that two CPUs see for the first time.
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

/* Sets a word if it is 0. */
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

/* Before v5.19. */
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

/* In case a future kernel turns the atomic counter into a plain integer. */
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

/*
 * Returns the number of pages in a folio. Kernels before v6.0 do not store it, so there each folio
 * counts as one page.
 */
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

/* Before v5.17: f3fa33acca9f ("block: remove the ->rq_disk field in struct request"). */
struct request___pre_5_17 {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

/* Returns NULL for a request to a queue without a disk. */
static __always_inline struct gendisk *disk_of(struct request *request)
{
	struct request___pre_5_17 *older = (void *)request;

	if (bpf_core_field_exists(older->rq_disk))
		return BPF_CORE_READ(older, rq_disk);
	return BPF_CORE_READ(request, q, disk);
}

/*
 * v6.7: c68a78ffe2cb ("bpf: Introduce task open coded iterator kfuncs"). Without these functions, a
 * cgroup move of a multithreaded process is seen immediately only for its leader, and for the other
 * threads at the next tick.
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

/* enum bpf_task_iter flags of v6.7 (c68a78ffe2cb). */
enum {
	TASK_ITER_PROC_THREADS = 2,
};

#endif
