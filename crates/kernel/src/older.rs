//! Adapts objects to kernels without task local storage for tracing programs (before 5.13). For
//! such kernels the objects contain alternatives, which are used if `has_task_storage`
//! (bpf/include/compat.bpf.h) is false.

use libbpf_rs::{AsRawLibbpf as _, OpenObject, libbpf_sys};

use crate::facts::Facts;

/// Removes instructions that such a kernel rejects even in dead code: atomic operations other than
/// addition. An addition that returns the old value is replaced by a plain addition. Since LLVM 20,
/// clang emits the former even if the old value is unused.
pub(crate) fn adapt(object: &mut OpenObject, facts: &Facts) -> Result<(), libbpf_rs::Error> {
    if facts.task_storage {
        return Ok(());
    }
    for program in object.progs_mut() {
        let mut instructions = program.insns().to_vec();
        instructions.iter_mut().for_each(adapt_one);
        #[allow(unsafe_code, reason = "libbpf-rs does not offer this function")]
        // SAFETY: the program is not loaded yet. libbpf copies the given number of instructions,
        // which is the original number.
        let status = unsafe {
            libbpf_sys::bpf_program__set_insns(
                program.as_libbpf_object().as_ptr(),
                instructions.as_mut_ptr(),
                instructions.len() as _,
            )
        };
        if status != 0 {
            return Err(libbpf_rs::Error::from_raw_os_error(-status));
        }
    }
    Ok(())
}

const ADD: u32 = libbpf_sys::BPF_ADD;
const FETCH_AND_ADD: u32 = libbpf_sys::BPF_ADD | libbpf_sys::BPF_FETCH;

fn adapt_one(instruction: &mut libbpf_sys::bpf_insn) {
    // Opcodes that differ only in the width of the access are treated alike.
    let class_and_mode = u32::from(instruction.code) & !libbpf_sys::BPF_DW;
    if class_and_mode != libbpf_sys::BPF_STX | libbpf_sys::BPF_ATOMIC {
        return;
    }
    match instruction.imm.cast_unsigned() {
        ADD => {}
        FETCH_AND_ADD => instruction.imm = ADD.cast_signed(),
        // Replaces the instruction with a jump to the next one, which has no effect.
        _ => {
            *instruction = libbpf_sys::bpf_insn {
                code: (libbpf_sys::BPF_JMP | libbpf_sys::BPF_JA) as u8,
                ..Default::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapted(code: u32, operation: u32) -> (u32, u32) {
        let mut instruction = libbpf_sys::bpf_insn {
            code: code as u8,
            imm: operation.cast_signed(),
            ..Default::default()
        };
        adapt_one(&mut instruction);
        (u32::from(instruction.code), instruction.imm.cast_unsigned())
    }

    #[test]
    fn atomic_additions_stay_and_unsupported_atomics_go() {
        use libbpf_sys::{BPF_ATOMIC, BPF_CMPXCHG, BPF_DW, BPF_MEM, BPF_STX, BPF_W, BPF_XCHG};
        let jump = (libbpf_sys::BPF_JMP | libbpf_sys::BPF_JA, 0);
        for width in [BPF_W, BPF_DW] {
            let atomic = BPF_STX | BPF_ATOMIC | width;
            assert_eq!(adapted(atomic, ADD), (atomic, ADD));
            assert_eq!(adapted(atomic, FETCH_AND_ADD), (atomic, ADD));
            assert_eq!(adapted(atomic, BPF_XCHG), jump);
            assert_eq!(adapted(atomic, BPF_CMPXCHG), jump);
            let store = BPF_STX | BPF_MEM | width;
            assert_eq!(adapted(store, 0), (store, 0));
        }
    }
}
