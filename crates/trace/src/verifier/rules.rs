//! What the messages of the verifier mean. `{}` stands for any text; the first rule that fits wins.

/// One message and its meaning. In the texts `{0}` is the first part that `{}` stood for, and so on.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) pattern: &'static str,
    pub(super) category: &'static str,
    pub(super) problem: &'static str,
    pub(super) reason: &'static str,
    pub(super) suggestion: &'static str,
}

const fn rule(
    pattern: &'static str,
    category: &'static str,
    problem: &'static str,
    reason: &'static str,
    suggestion: &'static str,
) -> Rule {
    Rule {
        pattern,
        category,
        problem,
        reason,
        suggestion,
    }
}

const MEMORY: &str = "memory access";
const NULL: &str = "possible null pointer";
const UNREAD: &str = "uninitialised data";
const BOUNDS: &str = "out of bounds";
const PACKET: &str = "packet access";
const CONTEXT: &str = "context access";
const COMPLEX: &str = "program too complex";
const FLOW: &str = "control flow";
const HELPER: &str = "helper function";
const LICENCE: &str = "licence";
const REFERENCE: &str = "reference leak";
const POINTER: &str = "pointer arithmetic";
const LEAK: &str = "address leak";
const RETURN: &str = "return value";
const LOCK: &str = "lock";
const STACK: &str = "stack";
const ALIGN: &str = "alignment";
const ARGUMENT: &str = "argument";
const CODE: &str = "instruction";
const ATTACH: &str = "attach target";

const CHECK_NULL: &str = "compare it with NULL first: if (!p) return 0;";
const CHECK_INDEX: &str = "bound it right before its use, in a variable without a sign: \
    if (i >= sizeof(x)) return 0; or i &= sizeof(x) - 1;";
const READ_KERNEL: &str = "read kernel memory with bpf_probe_read_kernel (BPF_CORE_READ), user memory \
    with bpf_probe_read_user, and fields of trusted pointers through their own type";
const CHECK_PACKET: &str = "compare the end of what is read with data_end first: \
    if ((void *)(header + 1) > data_end) return 0;";

/// The rules, special ones first.
pub(super) const RULES: &[Rule] = &[
    rule(
        "{} invalid mem access '{}_or_null'",
        NULL,
        "{0} is used without a check for NULL",
        "{0} is a {1} that can be NULL: a lookup may find nothing",
        CHECK_NULL,
    ),
    rule(
        "{} invalid mem access 'scalar'",
        MEMORY,
        "{0} is used as an address, but is a number",
        "the verifier does not know what {0} points to: it was read from memory, computed, or cast",
        READ_KERNEL,
    ),
    rule(
        "{} invalid mem access 'inv'",
        MEMORY,
        "{0} is used as an address, but is a number",
        "the verifier does not know what {0} points to: it was read from memory, computed, or cast",
        READ_KERNEL,
    ),
    rule(
        "{} invalid mem access '{}'",
        MEMORY,
        "{0} cannot be read or written here",
        "{0} is a pointer of the kind {1}, which programs do not read or write directly",
        READ_KERNEL,
    ),
    rule(
        "{} pointer arithmetic on {}_or_null prohibited, null-check it first",
        NULL,
        "{0} is computed with before the check for NULL",
        "{0} is a {1} that can be NULL, and NULL plus a number would look like an address",
        CHECK_NULL,
    ),
    rule(
        "Possibly NULL pointer passed to {}arg{}",
        NULL,
        "argument {1} can be NULL",
        "the function does not take NULL",
        CHECK_NULL,
    ),
    rule(
        "{} type={}_or_null expected={}",
        NULL,
        "{0} is passed without a check for NULL",
        "{0} is a {1} that can be NULL, and the function takes {2}",
        CHECK_NULL,
    ),
    rule(
        "{} type={} expected={}",
        ARGUMENT,
        "{0} is of the wrong kind for this function",
        "{0} is {1}, and the function takes {2}",
        "pass what the function takes: an address of the stack or of a map value for memory, the map \
         itself for a map; copy other memory to the stack first",
    ),
    rule(
        "{} !read_ok",
        UNREAD,
        "{0} is read before anything was written to it",
        "no instruction on this path sets {0}; calls clear r1 to r5",
        "set the variable on every path; a program must set its return value (r0) before it ends",
    ),
    rule(
        "invalid indirect read from stack {} off {}+{} size {}",
        UNREAD,
        "bytes of the stack are passed that were never written",
        "{3} bytes at offset {1} of the stack are passed, and byte {2} of them has no value: padding of \
         a struct counts too",
        "set all bytes first: struct key key = {}; or __builtin_memset(&key, 0, sizeof(key));",
    ),
    rule(
        "invalid read from stack {}off {}+{} size {}",
        UNREAD,
        "bytes of the stack are read that were never written",
        "byte {2} of {3} at offset {1} of the stack has no value on this path",
        "set the variable on every path before it is read",
    ),
    rule(
        "{}stack depth{}exceeds{}",
        STACK,
        "the stack is too small",
        "a program has 512 bytes of stack",
        "move large variables into an entry of a per-CPU array",
    ),
    rule(
        "combined stack size of {} calls is {}. Too large",
        STACK,
        "the stack is too small",
        "{0} functions that call each other take {1} bytes of stack, and a program has 512",
        "move large variables into an entry of a per-CPU array",
    ),
    rule(
        "the call stack of {} frames is too deep{}",
        STACK,
        "functions call each other too deeply",
        "{0} frames, and 8 are allowed",
        "inline some: static __always_inline",
    ),
    rule(
        "invalid write to stack {} off={} size={}",
        STACK,
        "written outside of the stack",
        "{2} bytes at offset {1}; the stack has the 512 bytes below r10",
        "keep variables below 512 bytes together, larger ones in a per-CPU array, and bound indexes",
    ),
    rule(
        "invalid stack off={} size={}",
        STACK,
        "used outside of the stack",
        "{1} bytes at offset {0}; the stack has the 512 bytes below r10",
        "keep variables below 512 bytes together, larger ones in a per-CPU array, and bound indexes",
    ),
    rule(
        "invalid {} stack {}",
        STACK,
        "the stack is used where it may not be",
        "the address or the size is not known, or not within the 512 bytes below r10",
        CHECK_INDEX,
    ),
    rule(
        "invalid access to packet, off={} size={}, {}",
        PACKET,
        "the packet may be shorter than what is read",
        "{1} bytes at offset {0} are used without a comparison with data_end",
        CHECK_PACKET,
    ),
    rule(
        "{} offset is outside of the packet",
        PACKET,
        "the packet may be shorter than what is read",
        "{0} may point behind data_end",
        CHECK_PACKET,
    ),
    rule(
        "invalid access to map value, value_size={} off={} size={}",
        BOUNDS,
        "used outside of the value of a map",
        "{2} bytes at offset {1} of a value that has {0} bytes",
        CHECK_INDEX,
    ),
    rule(
        "invalid access to map key, key_size={} off={} size={}",
        BOUNDS,
        "used outside of the key of a map",
        "{2} bytes at offset {1} of a key that has {0} bytes",
        CHECK_INDEX,
    ),
    rule(
        "invalid access to memory, mem_size={} off={} size={}",
        BOUNDS,
        "used outside of a piece of memory",
        "{2} bytes at offset {1} of memory that has {0} bytes",
        CHECK_INDEX,
    ),
    rule(
        "{} unbounded memory access, {}",
        BOUNDS,
        "{0} can be any number, and is used as an offset or a size",
        "no comparison on this path bounds it, or the compiler compared a copy",
        CHECK_INDEX,
    ),
    rule(
        "{} min value is negative, {}",
        BOUNDS,
        "{0} can be negative, and is used as an offset or a size",
        "it has a sign, or was not compared with 0",
        "use a type without a sign (__u32, __u64), or also check that it is not below 0",
    ),
    rule(
        "{} max value is outside of the allowed memory range",
        BOUNDS,
        "{0} can be too large for what it is used in",
        "the largest value it can have reaches behind the end",
        CHECK_INDEX,
    ),
    rule(
        "{} min value is outside of the allowed memory range",
        BOUNDS,
        "{0} can be too small for what it is used in",
        "the smallest value it can have lies before the begin",
        CHECK_INDEX,
    ),
    // Before Linux 6.8 it does not say which.
    rule(
        "invalid zero-sized read",
        BOUNDS,
        "a size can be 0",
        "the function takes at least 1",
        "check that the size is not 0 first",
    ),
    rule(
        "{} invalid zero-sized read{}",
        BOUNDS,
        "a size can be 0",
        "{0} can be 0, and the function takes at least 1",
        "check that the size is not 0 first",
    ),
    rule(
        "invalid bpf_context access off={} size={}",
        CONTEXT,
        "the context of this kind of program has nothing to read here",
        "{1} bytes at offset {0}: no field, a field that this kind may not use, or only part of one",
        "use the struct of this kind of program (such as __sk_buff, xdp_md, bpf_perf_event_data), whole \
         fields, and only those that the kernel allows to be written",
    ),
    rule(
        "dereference of modified {} ptr {} off={} disallowed",
        CONTEXT,
        "a pointer was moved before it was read",
        "{1} is a {0} pointer, and {2} was added to it; such pointers are read by constant offsets only",
        "read field by field from the pointer itself; keep the compiler from moving it (barrier_var)",
    ),
    rule(
        "variable {} access var_off={} disallowed",
        CONTEXT,
        "read at an offset that is not constant",
        "a {0} pointer takes constant offsets only",
        "copy the fields to variables first, and choose among those",
    ),
    rule(
        "misaligned {} access off {} size {}",
        ALIGN,
        "read or written at an address that does not fit its size",
        "{2} bytes of the {0}, at {1}",
        "use types whose size divides their offset, or copy the bytes with __builtin_memcpy",
    ),
    rule(
        "access beyond {} at off {} size {}",
        BOUNDS,
        "read behind the end of {0}",
        "{2} bytes at offset {1}",
        "use a field of the struct, or CO-RE (bpf_core_field_exists) where kernels differ",
    ),
    rule(
        "write into map forbidden{}",
        MEMORY,
        "a map is written to that programs may only read",
        "the map was made with BPF_F_RDONLY_PROG, or is .rodata",
        "write to a variable that is not const",
    ),
    rule(
        "read from map forbidden{}",
        MEMORY,
        "a map is read that programs may only write",
        "the map was made with BPF_F_WRONLY_PROG",
        "make it without this flag",
    ),
    rule(
        "{} cannot write into {}",
        MEMORY,
        "written where programs may only read",
        "{0} points to {1}",
        "change a copy instead",
    ),
    rule(
        "only read is supported",
        MEMORY,
        "written to a structure of the kernel",
        "programs may only read it",
        "change a copy instead",
    ),
    rule(
        "infinite loop detected at insn {}",
        COMPLEX,
        "a loop never ends",
        "the verifier came to instruction {0} twice with the same values",
        "count a variable up to a constant: for (int i = 0; i < 64; i++); or use bpf_loop (Linux 5.17)",
    ),
    rule(
        "back-edge from insn {} to {}",
        COMPLEX,
        "the program has a loop",
        "this kernel, or a caller without CAP_BPF, takes no jump backwards (from {0} to {1})",
        "unroll it: #pragma unroll; or run it as root on Linux 5.3 or newer",
    ),
    rule(
        "BPF program is too large. Processed {} insn",
        COMPLEX,
        "the verifier gave up: too many steps",
        "it followed {0} instructions over all paths, and stops there: loops and branches multiply",
        "use fewer rounds, bpf_loop (Linux 5.17) or a subprogram that is verified by itself (a global \
         function)",
    ),
    rule(
        "The sequence of {} jumps is too complex.",
        COMPLEX,
        "too many branches wait to be looked at",
        "{0} jumps in a row that depend on different values",
        "compute with masks instead of branches, or split the program",
    ),
    rule(
        "unreachable insn {}",
        FLOW,
        "an instruction is never reached",
        "no path leads to instruction {0}",
        "remove it; in a program that was written by hand, a jump is missing or too long",
    ),
    rule(
        "jump out of range from insn {} to {}",
        FLOW,
        "a jump leads out of the program",
        "from instruction {0} to {1}",
        "count the offset from the instruction behind the jump; a constant of 64 bits counts as two",
    ),
    rule(
        "last insn is not an exit or jmp",
        FLOW,
        "the program runs over its end",
        "its last instruction is neither exit nor a jump",
        "end it with: r0 = 0, exit",
    ),
    rule(
        "jump into the middle of ldimm64 insn {}",
        FLOW,
        "a jump leads into a constant",
        "a constant of 64 bits takes two instructions; {0} is the second",
        "count it as two",
    ),
    rule(
        "cannot call GPL-restricted function from non-GPL compatible program",
        LICENCE,
        "a function is called that only GPL programs may call",
        "the program says no licence that is compatible with the GPL",
        "char LICENSE[] SEC(\"license\") = \"GPL\"; (or Dual BSD/GPL, Dual MIT/GPL); with --raw: \
         --license GPL",
    ),
    rule(
        "cannot call GPL only function from proprietary program",
        LICENCE,
        "a function is called that only GPL programs may call",
        "the program says no licence that is compatible with the GPL",
        "char LICENSE[] SEC(\"license\") = \"GPL\"; with --raw: --license GPL",
    ),
    rule(
        "program of this type cannot use helper {}#{}",
        HELPER,
        "{0} cannot be called here",
        "this kind of program may not call it",
        "see bpf-helpers(7) for what may; another section (program type) may allow it",
    ),
    rule(
        "invalid func unknown#195896080",
        HELPER,
        "a CO-RE relocation found nothing on this kernel",
        "the type or field that the instruction was made for does not exist here",
        "ask first: bpf_core_field_exists, bpf_core_type_exists",
    ),
    rule(
        "invalid func {}#{}",
        HELPER,
        "the program calls a function that this kernel does not have",
        "{0} has the number {1}: a newer kernel has it, or the number is wrong",
        "ask first (bpf_core_enum_value_exists), or run on a newer kernel; bpftool feature probe lists \
         what there is",
    ),
    rule(
        "unknown func {}#{}",
        HELPER,
        "{0} cannot be called here",
        "this kernel has no function with the number {1}, or not for this kind of program",
        "bpftool feature probe lists what each kind of program may call; bpf_trace_printk and \
         bpf_probe_read need a GPL licence and, on a locked-down kernel, more rights",
    ),
    rule(
        "calling kernel function {} is not allowed",
        HELPER,
        "{0} cannot be called here",
        "the kernel offers this function to other kinds of programs only",
        "use another kind of program, or a helper",
    ),
    rule(
        "helper call {}might sleep{}",
        HELPER,
        "a function that may sleep is called where nothing may",
        "the program is not sleepable, or holds a lock",
        "use a sleepable section, such as fentry.s/ or lsm.s/",
    ),
    rule(
        "cannot pass map_type {} into func {}",
        ARGUMENT,
        "this kind of map does not fit {1}",
        "the map is of the kind {0}",
        "see bpf-helpers(7) for which map it takes",
    ),
    rule(
        "Unreleased reference id={} alloc_insn={}",
        REFERENCE,
        "something is acquired and not given back",
        "what instruction {1} acquired is still held at the end of this path",
        "give it back on every path: bpf_sk_release, bpf_ringbuf_submit or bpf_ringbuf_discard, \
         bpf_task_release",
    ),
    rule(
        "BPF_EXIT instruction {}would lead to reference leak",
        REFERENCE,
        "something is acquired and not given back",
        "the program ends on this path while it still holds what it acquired",
        "give it back on every path: bpf_sk_release, bpf_ringbuf_submit or bpf_ringbuf_discard, \
         bpf_task_release",
    ),
    rule(
        "arg {} is an unacquired reference",
        REFERENCE,
        "something is given back that was not acquired",
        "argument {0} was not acquired, or was given back already",
        "give back each once",
    ),
    rule(
        "BPF_EXIT instruction {}cannot be used inside bpf_spin_lock-ed region",
        LOCK,
        "the program ends while it holds a lock",
        "a path leads to the end between bpf_spin_lock and bpf_spin_unlock",
        "unlock on every path",
    ),
    rule(
        "{} progs cannot use bpf_spin_lock yet",
        LOCK,
        "this kind of program may not take locks",
        "it is a kind of {0} program, which may run inside anything, also while the lock is held",
        "use atomic operations (__sync_fetch_and_add) or a map for each CPU",
    ),
    rule(
        "bpf_spin_unlock is missing",
        LOCK,
        "the program ends while it holds a lock",
        "a path leads to the end between bpf_spin_lock and bpf_spin_unlock",
        "unlock on every path",
    ),
    rule(
        "bpf_spin_unlock without taking a lock",
        LOCK,
        "unlocked without a lock",
        "on this path nothing was locked",
        "lock first, on the same path",
    ),
    rule(
        "bpf_spin_unlock of different lock",
        LOCK,
        "another lock is unlocked than was locked",
        "the two come from different lookups",
        "look up once, and keep the pointer",
    ),
    rule(
        "function calls are not allowed while holding a lock",
        LOCK,
        "a function is called while a lock is held",
        "between bpf_spin_lock and bpf_spin_unlock only instructions are allowed",
        "call it before or after",
    ),
    rule(
        "Locking two bpf_spin_locks are not allowed",
        LOCK,
        "a second lock is taken",
        "a program may hold one lock",
        "unlock the first before",
    ),
    rule(
        "map '{}' {}bpf_spin_lock{}",
        LOCK,
        "the value of this map has no lock",
        "{0} needs a struct bpf_spin_lock in its value, described by BTF",
        "compile with -g, and put one struct bpf_spin_lock into the value",
    ),
    rule(
        "{}bpf_rcu_read_unlock is missing{}",
        LOCK,
        "an RCU section is not closed",
        "a path leads to the end without bpf_rcu_read_unlock",
        "close it on every path",
    ),
    rule(
        "{} leaks addr {}",
        LEAK,
        "an address of the kernel would get out",
        "{0} is a pointer, and goes {1}",
        "pass the value instead of the pointer; with CAP_PERFMON some of this is allowed",
    ),
    rule(
        "{} pointer comparison prohibited",
        LEAK,
        "pointers are compared",
        "that would reveal {0} bit by bit to a program without CAP_PERFMON",
        "compare values, or run with CAP_PERFMON",
    ),
    rule(
        "math between {} pointer and register with unbounded {} value is not allowed",
        POINTER,
        "a number without bounds is added to a pointer",
        "the {1} value of what is added to the {0} pointer is not known",
        CHECK_INDEX,
    ),
    rule(
        "math between {} pointer and {} is not allowed",
        POINTER,
        "a number that is too large is added to a pointer",
        "{1} is added to a {0} pointer; offsets are below 2^29",
        CHECK_INDEX,
    ),
    rule(
        "{} pointer arithmetic {}prohibited{}",
        POINTER,
        "{0} may not be computed with",
        "{0} is a pointer of a kind to which nothing may be added ({1})",
        "compute with a number, and read by constant offsets",
    ),
    rule(
        "{} pointer {} pointer prohibited",
        POINTER,
        "two pointers are computed with each other",
        "{0} {1} another pointer",
        "subtract pointers into the same packet only, or compute with numbers",
    ),
    rule(
        "{} bitwise operator {} on pointer prohibited",
        POINTER,
        "bits of a pointer are changed",
        "{1} on {0}",
        "compute with a number",
    ),
    rule(
        "{} tried to {} from different {}",
        POINTER,
        "a pointer comes from different places on different paths",
        "{0}: {2}",
        "use one pointer for each, in its own branch",
    ),
    rule(
        "At program exit the register {} has {} should have been in {}",
        RETURN,
        "the program returns what this kind may not return",
        "{0} has {1}, and must be in {2}",
        "return a constant of the allowed range on every path",
    ),
    rule(
        "At subprogram exit the register {} {}",
        RETURN,
        "a function returns no number",
        "{0} {1}",
        "return a number from functions that are called",
    ),
    rule(
        "{} must be a known constant",
        ARGUMENT,
        "an argument must be a constant",
        "{0} is only known when the program runs",
        "pass a constant",
    ),
    rule(
        "{} is not a known constant{}",
        ARGUMENT,
        "an argument must be a constant",
        "{0} is only known when the program runs",
        "pass a constant",
    ),
    rule(
        "fd {} is not pointing to valid bpf_map",
        CODE,
        "an instruction loads a map that is not there",
        "{0} is no descriptor of a map",
        "a relocation is missing; with --raw declare the map: .map NAME KIND KEY VALUE ENTRIES",
    ),
    rule(
        "unknown opcode {}",
        CODE,
        "this kernel does not know an instruction",
        "its code is {0}: a newer kernel has it, or the program is damaged",
        "compile for an older processor: clang -mcpu=v3 (or v1)",
    ),
    rule(
        "{} uses reserved fields",
        CODE,
        "an instruction has bits set that mean nothing on this kernel",
        "{0}: a newer kernel may know it, or the program is damaged",
        "compile for an older processor: clang -mcpu=v3 (or v1)",
    ),
    rule(
        "frame pointer is read only",
        CODE,
        "r10 is written to",
        "r10 is the begin of the stack, and stays it",
        "use another register",
    ),
    rule(
        "{} is invalid",
        CODE,
        "an instruction names a register that does not exist",
        "{0}; there are r0 to r10",
        "correct the instruction",
    ),
    rule(
        "div by zero",
        CODE,
        "a division by the constant 0",
        "the verifier refuses what can never work",
        "correct the constant",
    ),
    rule(
        "invalid shift {}",
        CODE,
        "shifted by more bits than there are",
        "by {0}",
        "shift by less than 64, or 32 of a 32-bit register",
    ),
    rule(
        "{}bpf_ld_imm64 insn",
        CODE,
        "the load of a constant of 64 bits is damaged",
        "it has two halves, and the second is missing or not empty",
        "correct it; a relocation may be wrong",
    ),
    rule(
        "func '{}' doesn't have {}-th argument",
        ATTACH,
        "an argument is read that the function does not have",
        "{0} has fewer than {1} arguments on this kernel",
        "look at its prototype: bpftool btf dump file /sys/kernel/btf/vmlinux",
    ),
    rule(
        "func '{}' arg{} {}",
        ATTACH,
        "an argument cannot be read like this",
        "argument {1} of {0} {2}",
        "read it through its own type",
    ),
    rule(
        "FENTRY/FEXIT program can only be attached to another program annotated with BTF",
        ATTACH,
        "the target has no BTF",
        "fentry and fexit need the prototype of their target",
        "build the kernel or the module with BTF",
    ),
    rule(
        "{} is not sleepable",
        ATTACH,
        "the target may not sleep",
        "{0} is called where nothing may sleep",
        "use the section without .s",
    ),
];
