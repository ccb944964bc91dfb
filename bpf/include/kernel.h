/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types and fields that noctule reads. CO-RE relocates offsets at load. Code checks with
 * bpf_core_field_exists() before it reads a field that some kernels lack. UAPI constants are also
 * defined here, so that the build does not need kernel headers.
 */
#ifndef NOCTULE_KERNEL_H
#define NOCTULE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/*
 * Unlikely code is moved out of line, so that a switch touches fewer cache lines of the program. On
 * a busy machine few of these lines are in the cache.
 */
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_F_CLONE = 1U << 9,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1U << 0,
	BPF_RB_NO_WAKEUP = 1U << 0,
	BPF_RB_FORCE_WAKEUP = 1U << 1,
	BPF_RB_AVAIL_DATA = 0,
};

struct bpf_perf_event_value {
	__u64 counter;
	__u64 enabled;
	__u64 running;
};

/* linux/sched.h, linux/sched/signal.h, asm/signal.h */
enum {
	TASK_INTERRUPTIBLE = 0x1,
	TASK_UNINTERRUPTIBLE = 0x2,
	__TASK_STOPPED = 0x4,
	__TASK_TRACED = 0x8,
	TASK_DEAD = 0x80,
	/* State from fork until the task is woken for the first time. */
	TASK_WAKEKILL = 0x100,
	TASK_NEW = 0x800,
	/* v6.1: f5d39b020809 ("freezer,sched: Rewrite core freezer logic"). */
	TASK_FROZEN = 0x8000,
	PF_EXITING = 0x00000004,
	PF_IO_WORKER = 0x00000010,
	/* The task is in the freezer, before v6.1 (f5d39b020809). */
	PF_FROZEN = 0x00010000,
	PF_KTHREAD = 0x00200000,
	MAX_RT_PRIO = 100,
	SIGNAL_GROUP_EXIT = 0x4,
	SIGKILL = 9,
};

/* linux/socket.h */
enum address_family {
	AF_INET = 2,
	AF_INET6 = 10,
};

/* linux/in.h, net/tcp_states.h, asm-generic/errno.h */
enum {
	IPPROTO_TCP = 6,
	IPPROTO_MPTCP = 262,
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
	E2BIG = 7,
	EAGAIN = 11,
	EBUSY = 16,
	EEXIST = 17,
	EPIPE = 32,
	EADDRNOTAVAIL = 99,
	ENETDOWN = 100,
	ENETUNREACH = 101,
	ECONNABORTED = 103,
	ECONNRESET = 104,
	ETIMEDOUT = 110,
	ECONNREFUSED = 111,
	EHOSTDOWN = 112,
	EHOSTUNREACH = 113,
	/* linux/errqueue.h */
	SO_EE_ORIGIN_ICMP6 = 3,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cgroup;

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct list_head {
	struct list_head *next;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
	/* The sets of tasks in this cgroup: cgrp_cset_link.cset_link. */
	struct list_head cset_links;
};

struct css_set {
	struct cgroup *dfl_cgrp;
	struct cgroup_subsys_state *subsys[1];
};

/* The value differs between kernels; CO-RE looks it up by name. */
enum cgroup_subsys_id {
	cpu_cgrp_id = 0,
	memory_cgrp_id = 1,
};

struct cgrp_cset_link {
	struct css_set *cset;
	struct list_head cset_link;
};

struct page_counter {
	unsigned long max;
	struct page_counter *parent;
};

struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
};

struct cfs_rq;
struct task_struct;

struct task_group {
	struct cgroup_subsys_state css;
	struct cfs_rq **cfs_rq;
};

struct rq {
	__u64 clock;
	__u64 clock_task;
	__u64 clock_pelt;
	unsigned long lost_idle_time;
	/* Interrupt time that `clock_task` excludes (CONFIG_IRQ_TIME_ACCOUNTING). */
	__u64 prev_irq_time;
	/* Steal time up to the last tick (CONFIG_PARAVIRT). */
	__u64 prev_steal_time;
	/* Steal time that `clock_task` excludes (CONFIG_PARAVIRT_TIME_ACCOUNTING). */
	__u64 prev_steal_time_rq;
	int cpu;
	struct task_struct *curr;
	/* All threads of the fair class that are queued here or running, in any group. */
	struct list_head cfs_tasks;
};

struct cfs_rq {
	struct rq *rq;
	__u64 throttled_clock_self;
	__u64 throttled_clock_self_time;
	int throttle_count;
	int runtime_enabled;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

struct sched_entity {
	__u64 exec_start;
	__u64 sum_exec_runtime;
	struct list_head group_node;
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
	/* v6.12: 152e11f6df29 ("sched/fair: Implement delayed dequeue"). */
	unsigned char sched_delayed;
};

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct percpu_counter {
	__s64 count;
};

struct file;

struct mm_struct {
	struct file *exe_file;
	unsigned long arg_start;
	unsigned long arg_end;
	unsigned long hiwater_rss;
	struct percpu_counter rss_stat[4];
};

typedef struct {
	unsigned int val;
} kuid_t;

typedef struct {
	unsigned int val;
} kgid_t;

/*
 * v6.3: 68f4cc1a0e2e ("capability: just use a 'u64' instead of a 'u32[2]' array"). The size was 64
 * bits before, too.
 */
typedef struct {
	__u64 val;
} kernel_cap_t;

struct ns_common {
	unsigned int inum;
};

struct user_namespace {
	struct ns_common ns;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct uts_namespace {
	struct ns_common ns;
};

struct ipc_namespace {
	struct ns_common ns;
};

struct cgroup_namespace {
	struct ns_common ns;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct nsproxy {
	struct uts_namespace *uts_ns;
	struct ipc_namespace *ipc_ns;
	struct mnt_namespace *mnt_ns;
	struct net *net_ns;
	struct cgroup_namespace *cgroup_ns;
};

struct kernel_siginfo {
	int si_code;
};

struct tty_struct {
	char name[64];
};

struct cred {
	kuid_t uid;
	kgid_t gid;
	kuid_t euid;
	kgid_t egid;
	kernel_cap_t cap_effective;
	struct user_namespace *user_ns;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct signal_struct {
	atomic_t live;
	struct sigpending shared_pending;
	int group_exit_code;
	unsigned int flags;
	unsigned long maxrss;
	unsigned long long sum_sched_runtime;
	int nr_threads;
	struct tty_struct *tty;
};

struct fs_struct;
struct files_struct;

/* CONFIG_TASK_XACCT. */
struct task_io_accounting {
	__u64 syscr;
};

struct cpumask {
	unsigned long bits[1];
};

#if defined(__TARGET_ARCH_x86)
struct thread_info {
	__u32 status;
};
#endif

struct task_struct {
#if defined(__TARGET_ARCH_x86)
	struct thread_info thread_info;
#endif
	void *stack;
	unsigned int __state;
	unsigned int flags;
	/* This field is narrower since v7.1. CO-RE adapts the width of unsigned fields only. */
	unsigned int on_cpu;
	unsigned int on_rq;
	/*
	 * Effective priority, including priority inheritance. Below 0 for SCHED_DEADLINE; below 100
	 * for real-time.
	 */
	int prio;
	/* Priority without priority inheritance. */
	int normal_prio;
	int pid;
	int tgid;
	char comm[16];
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_time;
	__u64 start_boottime;
	struct sched_entity se;
	struct sched_info sched_info;
	/* v6.18: e1fad12dcb66 ("sched/fair: Switch to task based throttle model"). */
	bool throttled;
	/* 0 until the thread is a zombie or is reaped. */
	int exit_state;
	int exit_code;
	struct mm_struct *mm;
	struct signal_struct *signal;
	sigset_t blocked;
	struct sigpending pending;
	const struct cred *cred;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct css_set *cgroups;
	const struct cpumask *cpus_ptr;
	unsigned int in_execve : 1;
	struct task_group *sched_task_group;
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	/* CONFIG_AUDIT. */
	kuid_t loginuid;
	unsigned int sessionid;
	struct task_io_accounting ioac;
	/* Waiting for block I/O. */
	unsigned int in_iowait : 1;
	/* Waiting for memory (CONFIG_PSI). */
	unsigned int in_memstall : 1;
	/* Frozen by its cgroup (CONFIG_CGROUPS, v2). */
	unsigned int frozen : 1;
	/* Pages that the thread has dirtied since it last waited for write-back. */
	int nr_dirtied;
	/*
	 * Set while the thread is blocked at its memory limit with the OOM killer off (cgroup v1).
	 */
	struct mem_cgroup *memcg_in_oom;
};

struct seq_file {
	unsigned long size;
	unsigned long count;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct file *file;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key;
	void *value;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	void *value;
};

struct net {
	atomic64_t net_cookie;
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	__u8 bytes[16];
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	unsigned long skc_flags;
	atomic64_t skc_cookie;
};

struct socket;
struct sk_buff;

struct sk_buff_head {
	struct sk_buff *prev;
	__u32 qlen;
};

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_error_queue;
	int sk_err;
	int sk_err_soft;
	__u16 sk_protocol;
	struct socket *sk_socket;
};

typedef enum {
	SS_UNCONNECTED = 1,
} socket_state;

struct socket {
	socket_state state;
	struct sock *sk;
};

struct request_sock {
	struct sock_common __req_common;
};

struct inet_sock {
	__be16 inet_sport;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_retransmits;
	__u8 icsk_probes_out;
	void *icsk_ulp_data;
};

struct mptcp_subflow_context {
	/* Set if this subflow joins an existing connection, whichever end initiated it. */
	__u32 request_join : 1;
	__u32 mp_join : 1;
	struct sock *conn;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	/* Whether Multipath TCP uses this socket. */
	bool is_mptcp;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u64 bytes_acked;
	__u64 bytes_received;
	/* Sequence numbers: the first unacknowledged byte, the next to send, the next to write. */
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 delivered;
	__u32 srtt_us;
	__u32 total_retrans;
};

struct sk_buff {
	struct sk_buff *next;
	struct sock *sk;
	char cb[48];
	unsigned int len;
	unsigned int data_len;
	__u16 transport_header;
	__u16 network_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
};

struct skb_shared_info {
	unsigned short gso_segs;
};

struct tcp_skb_cb {
	__u16 tcp_gso_segs;
};

struct sock_extended_err {
	__u32 ee_errno;
	__u8 ee_origin;
};

struct sock_exterr_skb {
	struct sock_extended_err ee;
};

/* The value differs between kernels; CO-RE looks it up by name. */
enum sock_flags {
	SOCK_DONE = 1,
};

struct file_system_type {
	const char *name;
};

struct super_block {
	unsigned long s_magic;
	struct file_system_type *s_type;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	long long i_size;
};

struct qstr {
	__u32 len;
	const unsigned char *name;
};

struct hlist_bl_node {
	struct hlist_bl_node **pprev;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct super_block *d_sb;
	struct inode *d_inode;
};

struct renamedata {
	struct dentry *old_dentry;
};

struct iattr {
	unsigned short ia_mode;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

struct file {
	unsigned int f_flags;
	void *private_data;
	struct inode *f_inode;
	struct path f_path;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct filename {
	const char *name;
};

struct open_flags {
	int open_flag;
	int lookup_flags;
};

/* Registers at a system call: the first arguments, and the return value. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long ax;
	/* System call number; -1 in an exception or an interrupt. */
	long orig_ax;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
	__u64 pstate;
	__s32 syscallno;
};
#endif

struct address_space {
	struct inode *host;
};

struct folio {
	unsigned long flags;
	unsigned int _nr_pages;
};

/* linux/page-flags.h. The value differs between kernels; CO-RE looks it up by name. */
enum pageflags {
	PG_head = 6,
};

struct gendisk {
	int major;
	int first_minor;
	char disk_name[32];
};

struct request_queue {
	/* v5.15: d152c682f03c ("block: add an explicit ->disk backpointer"). */
	struct gendisk *disk;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio {
	unsigned int bi_opf;
	void *bi_private;
	/* CONFIG_BLK_CGROUP. */
	struct blkcg_gq *bi_blkg;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	struct bio *bio;
	__u64 start_time_ns;
	void *end_io;
};

/* linux/blk_types.h. The values are the same in all versions since v5.10. */
enum req_op {
	REQ_OP_READ = 0,
	REQ_OP_WRITE = 1,
	REQ_OP_MASK = 0xff,
};

/* linux/blk_types.h. The values differ between kernels; CO-RE looks them up by name. */
enum req_flag_bits {
	__REQ_META = 12,
};

#pragma clang attribute pop

/* Opaque: bpf_iter_num_new() fills it. */
struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));

/* Opaque: bpf_iter_task_new() fills it. */
struct bpf_iter_task {
	__u64 opaque[3];
} __attribute__((aligned(8)));

#endif
