//! Offsets of registers in the kernel's `struct pt_regs` (x86-64) and `struct user_pt_regs`
//! (arm64).

#[cfg(target_arch = "aarch64")]
mod machine {
    pub(crate) const INSTRUCTION: i16 = 256;
    pub(crate) const SIZE: i16 = 272;
    pub(crate) const ARGUMENTS: [u32; 6] = [0, 8, 16, 24, 32, 40];
    pub(crate) const RETURNED: u32 = 0;
    pub(crate) const REGISTERS: &[(&str, u32)] = &[
        ("x0", 0),
        ("x1", 8),
        ("x2", 16),
        ("x3", 24),
        ("x4", 32),
        ("x5", 40),
        ("x6", 48),
        ("x7", 56),
        ("x8", 64),
        ("x29", 232),
        ("x30", 240),
        ("sp", 248),
        ("pc", 256),
    ];
}

#[cfg(not(target_arch = "aarch64"))]
mod machine {
    pub(crate) const INSTRUCTION: i16 = 128;
    pub(crate) const SIZE: i16 = 168;
    pub(crate) const ARGUMENTS: [u32; 6] = [112, 104, 96, 88, 72, 64];
    pub(crate) const RETURNED: u32 = 80;
    pub(crate) const REGISTERS: &[(&str, u32)] = &[
        ("ax", 80),
        ("bx", 40),
        ("cx", 88),
        ("dx", 96),
        ("si", 104),
        ("di", 112),
        ("bp", 32),
        ("sp", 152),
        ("r8", 72),
        ("r9", 64),
        ("r10", 56),
        ("r11", 48),
        ("r12", 24),
        ("r13", 16),
        ("r14", 8),
        ("r15", 0),
        ("ip", 128),
    ];
}

/// Offset that is added to the offsets of register fields. Records start with eight unreadable
/// bytes, but the registers do not.
pub(crate) const SHIFT: u32 = 8;

pub(crate) use machine::{ARGUMENTS, INSTRUCTION, REGISTERS, RETURNED, SIZE};
