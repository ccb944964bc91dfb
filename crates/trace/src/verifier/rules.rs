//! The meanings of the verifier's messages. The first matching rule applies.

/// A message pattern and its meaning. `{}` in the pattern matches any text; `{0}` in the other
/// texts is replaced by the first match, and so on.
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
const UNREAD: &str = "uninitialized data";
const BOUNDS: &str = "out of bounds";
const PACKET: &str = "packet access";
const CONTEXT: &str = "context access";
const COMPLEX: &str = "program too complex";
const FLOW: &str = "control flow";
const HELPER: &str = "helper function";
const LICENCE: &str = "license";
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

const CHECK_NULL: &str = "compare the pointer with NULL first: if (!p) return 0;";
const CHECK_INDEX: &str = "bound the value right before its use, in an unsigned variable: \
    if (i >= sizeof(x)) return 0; or i &= sizeof(x) - 1;";
const READ_KERNEL: &str = "read kernel memory with bpf_probe_read_kernel (BPF_CORE_READ), user memory \
    with bpf_probe_read_user, and fields of trusted pointers through their own type";
const CHECK_PACKET: &str = "compare the end of the access with data_end first: \
    if ((void *)(header + 1) > data_end) return 0;";

/// The rules, more specific ones first.
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
        "{0} is a {1} pointer, which programs cannot access directly",
        READ_KERNEL,
    ),
    rule(
        "{} pointer arithmetic on {}_or_null prohibited, null-check it first",
        NULL,
        "arithmetic on {0} precedes its check for NULL",
        "{0} is a {1} that can be NULL, and NULL plus a number would look like an address",
        CHECK_NULL,
    ),
    rule(
        "Possibly NULL pointer passed to {}arg{}",
        NULL,
        "argument {1} can be NULL",
        "the function does not accept NULL",
        CHECK_NULL,
    ),
    rule(
        "{} type={}_or_null expected={}",
        NULL,
        "{0} is passed without a check for NULL",
        "{0} is a {1} that can be NULL, and the function expects {2}",
        CHECK_NULL,
    ),
    rule(
        "{} type={} expected={}",
        ARGUMENT,
        "{0} has the wrong type for this function",
        "{0} is {1}, but the function expects {2}",
        "pass the expected type: a stack address or a map value for memory, or the map itself; \
         copy other memory to the stack first",
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
        "uninitialized bytes of the stack are passed",
        "{3} bytes at offset {1} of the stack are passed, and byte {2} of them is uninitialized: padding of \
         a struct counts too",
        "initialize all bytes first: struct key key = {}; or __builtin_memset(&key, 0, sizeof(key));",
    ),
    rule(
        "invalid read from stack {}off {}+{} size {}",
        UNREAD,
        "uninitialized bytes of the stack are read",
        "byte {2} of {3} at offset {1} of the stack is uninitialized on this path",
        "set the variable on every path before it is read",
    ),
    rule(
        "{}stack depth{}exceeds{}",
        STACK,
        "the program uses too much stack",
        "a program has 512 bytes of stack",
        "move large variables into an entry of a per-CPU array",
    ),
    rule(
        "combined stack size of {} calls is {}. Too large",
        STACK,
        "the program uses too much stack",
        "a call chain of {0} functions needs {1} bytes of stack, but a program has 512",
        "move large variables into an entry of a per-CPU array",
    ),
    rule(
        "the call stack of {} frames is too deep{}",
        STACK,
        "functions call each other too deeply",
        "{0} frames, but only 8 are allowed",
        "inline some functions: static __always_inline",
    ),
    rule(
        "invalid write to stack {} off={} size={}",
        STACK,
        "a write is outside of the stack",
        "{2} bytes at offset {1}; the stack has the 512 bytes below r10",
        "keep all variables together below 512 bytes, move larger ones to a per-CPU array, and bound indexes",
    ),
    rule(
        "invalid stack off={} size={}",
        STACK,
        "an access is outside of the stack",
        "{1} bytes at offset {0}; the stack has the 512 bytes below r10",
        "keep all variables together below 512 bytes, move larger ones to a per-CPU array, and bound indexes",
    ),
    rule(
        "invalid {} stack {}",
        STACK,
        "an access to the stack is invalid",
        "the address or the size is unknown, or not within the 512 bytes below r10",
        CHECK_INDEX,
    ),
    rule(
        "invalid access to packet, off={} size={}, {}",
        PACKET,
        "the access may be past the end of the packet",
        "{1} bytes at offset {0} are used without a comparison with data_end",
        CHECK_PACKET,
    ),
    rule(
        "{} offset is outside of the packet",
        PACKET,
        "the access may be past the end of the packet",
        "{0} may point past data_end",
        CHECK_PACKET,
    ),
    rule(
        "invalid access to map value, value_size={} off={} size={}",
        BOUNDS,
        "an access is outside of the map value",
        "{2} bytes at offset {1} of a value that has {0} bytes",
        CHECK_INDEX,
    ),
    rule(
        "invalid access to map key, key_size={} off={} size={}",
        BOUNDS,
        "an access is outside of the map key",
        "{2} bytes at offset {1} of a key that has {0} bytes",
        CHECK_INDEX,
    ),
    rule(
        "invalid access to memory, mem_size={} off={} size={}",
        BOUNDS,
        "an access is outside of the memory region",
        "{2} bytes at offset {1} of memory that has {0} bytes",
        CHECK_INDEX,
    ),
    rule(
        "{} unbounded memory access, {}",
        BOUNDS,
        "{0} can be any number, and is used as an offset or a size",
        "no comparison on this path bounds the value, or the compiler compared a copy",
        CHECK_INDEX,
    ),
    rule(
        "{} min value is negative, {}",
        BOUNDS,
        "{0} can be negative, and is used as an offset or a size",
        "its type is signed, or it was not compared with 0",
        "use an unsigned type (__u32, __u64), or check that the value is not negative",
    ),
    rule(
        "{} max value is outside of the allowed memory range",
        BOUNDS,
        "{0} can be too large for its use as an offset or a size",
        "its largest possible value exceeds the end of the memory",
        CHECK_INDEX,
    ),
    rule(
        "{} min value is outside of the allowed memory range",
        BOUNDS,
        "{0} can be too small for its use as an offset or a size",
        "its smallest possible value is before the start of the memory",
        CHECK_INDEX,
    ),
    // Before Linux 6.8, the message does not include the register.
    rule(
        "invalid zero-sized read",
        BOUNDS,
        "a size can be 0",
        "the function needs a size of at least 1",
        "check that the size is not 0 first",
    ),
    rule(
        "{} invalid zero-sized read{}",
        BOUNDS,
        "a size can be 0",
        "{0} can be 0, but the function needs at least 1",
        "check that the size is not 0 first",
    ),
    rule(
        "invalid bpf_context access off={} size={}",
        CONTEXT,
        "the context of this program type has no accessible field here",
        "{1} bytes at offset {0}: no field, a field that is forbidden for this type, or part of a field",
        "use the context struct of this program type (such as __sk_buff, xdp_md, bpf_perf_event_data), \
         access whole fields, and write only to writable ones",
    ),
    rule(
        "dereference of modified {} ptr {} off={} disallowed",
        CONTEXT,
        "a pointer was moved before it was read",
        "{1} is a {0} pointer, and {2} was added to it; such pointers only allow constant offsets",
        "read field by field from the pointer itself; prevent the compiler from moving it (barrier_var)",
    ),
    rule(
        "variable {} access var_off={} disallowed",
        CONTEXT,
        "an access has a variable offset",
        "a {0} pointer only allows constant offsets",
        "copy the fields to variables first, then select one of them",
    ),
    rule(
        "misaligned {} access off {} size {}",
        ALIGN,
        "an access is misaligned",
        "{2} bytes of the {0} at offset {1}",
        "use types whose size divides their offset, or copy the bytes with __builtin_memcpy",
    ),
    rule(
        "access beyond {} at off {} size {}",
        BOUNDS,
        "an access is past the end of {0}",
        "{2} bytes at offset {1}",
        "use a field of the struct, or CO-RE (bpf_core_field_exists) if kernels differ",
    ),
    rule(
        "write into map forbidden{}",
        MEMORY,
        "a write to a map that is read-only for programs",
        "the map was created with BPF_F_RDONLY_PROG, or is .rodata",
        "write to a variable that is not const",
    ),
    rule(
        "read from map forbidden{}",
        MEMORY,
        "a read from a map that is write-only for programs",
        "the map was created with BPF_F_WRONLY_PROG",
        "create the map without this flag",
    ),
    rule(
        "{} cannot write into {}",
        MEMORY,
        "a write to memory that is read-only for programs",
        "{0} points to {1}",
        "change a copy instead",
    ),
    rule(
        "only read is supported",
        MEMORY,
        "a write to a kernel structure",
        "programs may only read this structure",
        "change a copy instead",
    ),
    rule(
        "infinite loop detected at insn {}",
        COMPLEX,
        "a loop never ends",
        "the verifier reached instruction {0} twice in the same state",
        "count up to a constant: for (int i = 0; i < 64; i++); or use bpf_loop (Linux 5.17)",
    ),
    rule(
        "back-edge from insn {} to {}",
        COMPLEX,
        "the program has a loop",
        "this kernel rejects the backward jump from {0} to {1}, or allows it only with CAP_BPF",
        "unroll the loop: #pragma unroll; or run the program as root on Linux 5.3 or newer",
    ),
    rule(
        "BPF program is too large. Processed {} insn",
        COMPLEX,
        "the verifier gave up: too many steps",
        "the verifier checked {0} instructions over all paths, which is its limit: loops and \
         branches multiply the paths",
        "use fewer iterations, bpf_loop (Linux 5.17), or a global function, which is verified \
         separately",
    ),
    rule(
        "The sequence of {} jumps is too complex.",
        COMPLEX,
        "too many branches are pending",
        "{0} consecutive jumps depend on different values",
        "compute with masks instead of branches, or split the program",
    ),
    rule(
        "unreachable insn {}",
        FLOW,
        "an instruction is never reached",
        "no path leads to instruction {0}",
        "remove the instruction; in a handwritten program, a jump may be missing or too long",
    ),
    rule(
        "jump out of range from insn {} to {}",
        FLOW,
        "a jump leaves the program",
        "from instruction {0} to {1}",
        "count the offset from the instruction after the jump; a 64-bit constant counts as two",
    ),
    rule(
        "last insn is not an exit or jmp",
        FLOW,
        "execution can run past the end of the program",
        "its last instruction is neither exit nor a jump",
        "end the program with: r0 = 0, exit",
    ),
    rule(
        "jump into the middle of ldimm64 insn {}",
        FLOW,
        "a jump targets the middle of a constant",
        "a 64-bit constant takes two instructions; instruction {0} is the second one",
        "count the constant as two instructions",
    ),
    rule(
        "cannot call GPL-restricted function from non-GPL compatible program",
        LICENCE,
        "the called function is restricted to GPL programs",
        "the program has no GPL-compatible license",
        "char LICENSE[] SEC(\"license\") = \"GPL\"; (or Dual BSD/GPL, Dual MIT/GPL); with --raw: \
         --license GPL",
    ),
    rule(
        "cannot call GPL only function from proprietary program",
        LICENCE,
        "the called function is restricted to GPL programs",
        "the program has no GPL-compatible license",
        "char LICENSE[] SEC(\"license\") = \"GPL\"; with --raw: --license GPL",
    ),
    rule(
        "program of this type cannot use helper {}#{}",
        HELPER,
        "{0} cannot be called here",
        "this program type may not call the function",
        "see bpf-helpers(7) for the allowed types; another section (program type) may allow it",
    ),
    rule(
        "invalid func unknown#195896080",
        HELPER,
        "a CO-RE relocation has no match on this kernel",
        "the type or field that the instruction refers to does not exist here",
        "check first: bpf_core_field_exists, bpf_core_type_exists",
    ),
    rule(
        "invalid func {}#{}",
        HELPER,
        "the program calls a function that this kernel does not have",
        "{0} has the number {1}: a newer kernel has it, or the number is wrong",
        "check first (bpf_core_enum_value_exists), or use a newer kernel; bpftool feature probe lists \
         the available functions",
    ),
    rule(
        "unknown func {}#{}",
        HELPER,
        "{0} cannot be called here",
        "this kernel has no function with the number {1}, or does not allow it for this program type",
        "bpftool feature probe lists the functions of each program type; bpf_trace_printk and \
         bpf_probe_read need a GPL license and, under kernel lockdown, more rights",
    ),
    rule(
        "calling kernel function {} is not allowed",
        HELPER,
        "{0} cannot be called here",
        "the kernel allows this function only for other program types",
        "use another program type, or a helper",
    ),
    rule(
        "helper call {}might sleep{}",
        HELPER,
        "a function that may sleep is called in a non-sleepable context",
        "the program is not sleepable, or holds a lock",
        "use a sleepable section, such as fentry.s/ or lsm.s/",
    ),
    rule(
        "cannot pass map_type {} into func {}",
        ARGUMENT,
        "this map type does not work with {1}",
        "the map has type {0}",
        "see bpf-helpers(7) for the map types that the function accepts",
    ),
    rule(
        "Unreleased reference id={} alloc_insn={}",
        REFERENCE,
        "a reference is acquired but not released",
        "the reference acquired by instruction {1} is still held at the end of this path",
        "release the reference on every path: bpf_sk_release, bpf_ringbuf_submit or bpf_ringbuf_discard, \
         bpf_task_release",
    ),
    rule(
        "BPF_EXIT instruction {}would lead to reference leak",
        REFERENCE,
        "a reference is acquired but not released",
        "the program ends on this path while it still holds a reference",
        "release the reference on every path: bpf_sk_release, bpf_ringbuf_submit or bpf_ringbuf_discard, \
         bpf_task_release",
    ),
    rule(
        "arg {} is an unacquired reference",
        REFERENCE,
        "a reference is released that was not acquired",
        "argument {0} was not acquired, or was already released",
        "release each reference once",
    ),
    rule(
        "BPF_EXIT instruction {}cannot be used inside bpf_spin_lock-ed region",
        LOCK,
        "the program ends while it holds a lock",
        "a path reaches the end between bpf_spin_lock and bpf_spin_unlock",
        "unlock on every path",
    ),
    rule(
        "{} progs cannot use bpf_spin_lock yet",
        LOCK,
        "this program type may not take locks",
        "a {0} program can interrupt any code, including code that holds the lock",
        "use atomic operations (__sync_fetch_and_add) or a per-CPU map",
    ),
    rule(
        "bpf_spin_unlock is missing",
        LOCK,
        "the program ends while it holds a lock",
        "a path reaches the end between bpf_spin_lock and bpf_spin_unlock",
        "unlock on every path",
    ),
    rule(
        "bpf_spin_unlock without taking a lock",
        LOCK,
        "a lock is released that is not held",
        "no lock was taken on this path",
        "lock first, on the same path",
    ),
    rule(
        "bpf_spin_unlock of different lock",
        LOCK,
        "the released lock differs from the held one",
        "the two locks come from different lookups",
        "look up once, and keep the pointer",
    ),
    rule(
        "function calls are not allowed while holding a lock",
        LOCK,
        "a function is called while a lock is held",
        "between bpf_spin_lock and bpf_spin_unlock only instructions are allowed",
        "call the function before taking or after releasing the lock",
    ),
    rule(
        "Locking two bpf_spin_locks are not allowed",
        LOCK,
        "a second lock is taken",
        "a program may hold one lock",
        "release the first lock before taking the second",
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
        "a path reaches the end without bpf_rcu_read_unlock",
        "call bpf_rcu_read_unlock on every path",
    ),
    rule(
        "{} leaks addr {}",
        LEAK,
        "a kernel address would leak",
        "{0} is a pointer and would be copied {1}",
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
        "an unbounded number is added to a pointer",
        "the {1} value of the number added to the {0} pointer is unknown",
        CHECK_INDEX,
    ),
    rule(
        "math between {} pointer and {} is not allowed",
        POINTER,
        "the number added to a pointer is too large",
        "{1} is added to a {0} pointer; offsets must be below 2^29",
        CHECK_INDEX,
    ),
    rule(
        "{} pointer arithmetic {}prohibited{}",
        POINTER,
        "arithmetic on {0} is not allowed",
        "{0} is a pointer that does not allow this arithmetic ({1})",
        "use a number instead, and access memory at constant offsets",
    ),
    rule(
        "{} pointer {} pointer prohibited",
        POINTER,
        "the program does arithmetic on two pointers",
        "{0} {1} another pointer",
        "subtract only pointers into the same packet, or use numbers",
    ),
    rule(
        "{} bitwise operator {} on pointer prohibited",
        POINTER,
        "a bitwise operation changes a pointer",
        "operator {1} on {0}",
        "use a number instead",
    ),
    rule(
        "{} tried to {} from different {}",
        POINTER,
        "a pointer has different types on different paths",
        "{0}: {2}",
        "use a separate pointer in each branch",
    ),
    rule(
        "At program exit the register {} has {} should have been in {}",
        RETURN,
        "the program returns a value that is invalid for its type",
        "{0} has {1}, but must be in {2}",
        "return a constant of the allowed range on every path",
    ),
    rule(
        "At subprogram exit the register {} {}",
        RETURN,
        "a function does not return a number",
        "{0} {1}",
        "return a number from every function",
    ),
    rule(
        "{} must be a known constant",
        ARGUMENT,
        "an argument must be a constant",
        "{0} is only known at run time",
        "pass a constant",
    ),
    rule(
        "{} is not a known constant{}",
        ARGUMENT,
        "an argument must be a constant",
        "{0} is only known at run time",
        "pass a constant",
    ),
    rule(
        "fd {} is not pointing to valid bpf_map",
        CODE,
        "an instruction loads a map that does not exist",
        "{0} is not a map descriptor",
        "a relocation is missing; with --raw, declare the map: map NAME TYPE KEY VALUE ENTRIES",
    ),
    rule(
        "unknown opcode {}",
        CODE,
        "this kernel does not support an instruction",
        "its opcode is {0}: it needs a newer kernel, or the program is damaged",
        "compile for an older instruction set: clang -mcpu=v3 (or v1)",
    ),
    rule(
        "{} uses reserved fields",
        CODE,
        "an instruction uses fields that are reserved on this kernel",
        "{0}: a newer kernel may support it, or the program is damaged",
        "compile for an older instruction set: clang -mcpu=v3 (or v1)",
    ),
    rule(
        "frame pointer is read only",
        CODE,
        "the program writes to r10",
        "r10 is the frame pointer, which is read-only",
        "use another register",
    ),
    rule(
        "{} is invalid",
        CODE,
        "an instruction uses a register that does not exist",
        "{0}; valid registers are r0 to r10",
        "correct the instruction",
    ),
    rule(
        "div by zero",
        CODE,
        "a division by the constant 0",
        "the verifier rejects the division because it can never work",
        "correct the constant",
    ),
    rule(
        "invalid shift {}",
        CODE,
        "the shift distance exceeds the register width",
        "the distance is {0}",
        "shift by less than 64, or less than 32 for a 32-bit register",
    ),
    rule(
        "{}bpf_ld_imm64 insn",
        CODE,
        "the load of a 64-bit constant is invalid",
        "its second half is missing or not empty",
        "correct the second half; a relocation may be wrong",
    ),
    rule(
        "func '{}' doesn't have {}-th argument",
        ATTACH,
        "the program reads an argument that the function does not have",
        "{0} has fewer than {1} arguments on this kernel",
        "check the prototype of the function: bpftool btf dump file /sys/kernel/btf/vmlinux",
    ),
    rule(
        "func '{}' arg{} {}",
        ATTACH,
        "an argument cannot be read this way",
        "argument {1} of {0} {2}",
        "read the argument with its own type",
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
        "the target is not sleepable",
        "{0} is called in a context that must not sleep",
        "use the section without .s",
    ),
];
