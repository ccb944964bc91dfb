//! Where registers lie in what the kernel gives to a program: `struct pt_regs` of x86-64, `struct
//! user_pt_regs` of arm64.

#[cfg(target_arch = "aarch64")]
mod machine {
    pub(crate) const INSTRUCTION: i16 = 256;
    pub(crate) const SIZE: i16 = 272;
}

#[cfg(not(target_arch = "aarch64"))]
mod machine {
    pub(crate) const INSTRUCTION: i16 = 128;
    pub(crate) const SIZE: i16 = 168;
}

pub(crate) use machine::{INSTRUCTION, SIZE};
