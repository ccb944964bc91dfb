//! Objects on kernels without task storage for programs of tracing (before 5.13): what these use
//! instead is in the objects too, and taken where `has_task_storage` (bpf/include/compat.bpf.h) is
//! false.

use libbpf_rs::{AsRawLibbpf as _, OpenObject, libbpf_sys};

/// Takes out the instructions that such a kernel refuses wherever they stand, also where they are
/// never run: atomic operations other than an addition.
pub(crate) fn without_new_instructions(object: &mut OpenObject) -> Result<(), libbpf_rs::Error> {
    for program in object.progs_mut() {
        let mut instructions = program.insns().to_vec();
        instructions
            .iter_mut()
            .filter(|i| is_refused(i))
            .for_each(|i| *i = nothing());
        #[allow(unsafe_code, reason = "libbpf-rs does not offer it")]
        // SAFETY: the program is not loaded yet; libbpf copies as many instructions as there were.
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

fn is_refused(instruction: &libbpf_sys::bpf_insn) -> bool {
    let code = u32::from(instruction.code);
    let class_and_mode = code & !libbpf_sys::BPF_DW;
    class_and_mode == libbpf_sys::BPF_STX | libbpf_sys::BPF_ATOMIC
        && instruction.imm != libbpf_sys::BPF_ADD as i32
}

/// A jump to the next one.
fn nothing() -> libbpf_sys::bpf_insn {
    libbpf_sys::bpf_insn {
        code: (libbpf_sys::BPF_JMP | libbpf_sys::BPF_JA) as u8,
        ..Default::default()
    }
}
