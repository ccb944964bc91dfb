//! Tests whether the kernel supports programs at function return.

use std::ptr;

use libbpf_rs::libbpf_sys as sys;

use crate::error::{Context as _, Error};
use crate::facts::Facts;
use crate::object::owned;

/// Loads a minimal program at the return of the function. If the fexit programs of an object are
/// rejected, the object is loaded again without them, which costs a full attempt. This test avoids
/// that.
pub(crate) fn probe(function: &str, facts: &Facts) -> Result<(), Error> {
    let name = function.trim_end_matches("()");
    // If the BTF id of the function is unknown, loading the object itself is the test.
    let Some(number) = facts.kernel_types.of_function(name) else {
        return Ok(());
    };
    let return_zero = [
        sys::bpf_insn {
            code: (sys::BPF_ALU64 | sys::BPF_MOV | sys::BPF_K) as u8,
            ..Default::default()
        },
        sys::bpf_insn {
            code: (sys::BPF_JMP | sys::BPF_EXIT) as u8,
            ..Default::default()
        },
    ];
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as _,
        expected_attach_type: sys::BPF_TRACE_FEXIT,
        attach_btf_id: number,
        ..Default::default()
    };
    #[allow(unsafe_code, reason = "libbpf-rs loads only whole objects")]
    // SAFETY: all pointers are to memory that lives for the call. The options contain their size,
    // and the name may be null.
    let fd = unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_TRACING,
            ptr::null(),
            c"Dual BSD/GPL".as_ptr(),
            return_zero.as_ptr(),
            return_zero.len() as _,
            &raw mut options,
        )
    };
    owned(fd)
        .map(drop)
        .context(format!("loading a program at the return of {function}"))
}
