//! Prints instructions in the notation of the kernel's verifier.

use std::fmt;

use super::{Code, Insn};

/// Names of the kernel's helper functions, by number.
const HELPERS: &str = include_str!("helpers.txt");

/// Returns the number of a helper function.
pub(crate) fn helper(name: &str) -> Option<i32> {
    let at = HELPERS.lines().position(|known| known == name)?;
    i32::try_from(at).ok().filter(|number| *number > 0)
}

/// Returns the names of all helper functions.
pub(crate) fn helpers() -> impl Iterator<Item = &'static str> {
    HELPERS.lines().skip(1)
}

/// ALU operators with their opcode bits.
pub(crate) const OPERATIONS: [(&str, u8); 12] = [
    ("+=", 0x00),
    ("-=", 0x10),
    ("*=", 0x20),
    ("/=", 0x30),
    ("|=", 0x40),
    ("&=", 0x50),
    ("<<=", 0x60),
    (">>=", 0x70),
    ("%=", 0x90),
    ("^=", 0xa0),
    ("=", 0xb0),
    ("s>>=", 0xc0),
];

/// Comparison operators with their opcode bits.
pub(crate) const CONDITIONS: [(&str, u8); 11] = [
    ("==", 0x10),
    (">", 0x20),
    (">=", 0x30),
    ("&", 0x40),
    ("!=", 0x50),
    ("s>", 0x60),
    ("s>=", 0x70),
    ("<", 0xa0),
    ("<=", 0xb0),
    ("s<", 0xc0),
    ("s<=", 0xd0),
];

/// Types of memory accesses, indexed by the size bits of the opcode.
pub(crate) const TYPES: [&str; 4] = ["u32", "u16", "u8", "u64"];
/// Types of sign-extending loads, indexed by the size bits of the opcode.
pub(crate) const SIGNED: [&str; 4] = ["s32", "s16", "s8", "s64"];

impl fmt::Display for Code {
    /// Prints one numbered line per instruction. Maps are numbered as in [`Code::maps`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, insn) in self.insns.iter().enumerate() {
            // The second half of a 64-bit constant.
            if insn.code == 0 {
                continue;
            }
            let high = self.insns.get(at + 1).map_or(0, |next| next.imm);
            match self.maps.iter().find(|(place, _)| *place == at) {
                Some((_, map)) => writeln!(f, "{at:3} r{} = map {map}", insn.dst)?,
                None if insn.code == 0x18 => {
                    let whole = u64::from(high.cast_unsigned()) << 32;
                    let whole = whole | u64::from(insn.imm.cast_unsigned());
                    writeln!(f, "{at:3} r{} = {whole:#x} ll", insn.dst)?;
                }
                None => writeln!(f, "{at:3} {insn}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Insn {
    /// Prints one instruction; for a 64-bit constant, only the lower half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            dst,
            src,
            offset,
            imm,
        } = *self;
        let at = usize::from(code >> 3 & 3);
        let size = TYPES[at];
        match (code & 7, code & 0xe0) {
            (0, 0x20) => write!(f, "r0 = *({size} *)skb[{imm}]"),
            (0, 0x40) => write!(f, "r0 = *({size} *)skb[r{src} {imm:+}]"),
            (0, _) => write!(f, "r{dst} = {imm:#x} ll"),
            (1, 0x80) => write!(f, "r{dst} = *({} *)(r{src} {offset:+})", SIGNED[at]),
            (1, _) => write!(f, "r{dst} = *({size} *)(r{src} {offset:+})"),
            (2, _) => write!(f, "*({size} *)(r{dst} {offset:+}) = {imm}"),
            (3, 0xc0) if imm == 0xe1 => write!(
                f,
                "r{src} = atomic64_xchg(({size} *)(r{dst} {offset:+}), r{src})"
            ),
            (3, 0xc0) if imm == 0xf1 => write!(
                f,
                "r0 = atomic64_cmpxchg(({size} *)(r{dst} {offset:+}), r0, r{src})"
            ),
            (3, 0xc0) => {
                let sign = OPERATIONS
                    .iter()
                    .find(|(_, bits)| i32::from(*bits) == imm)
                    .map_or("?=", |(sign, _)| sign);
                write!(f, "lock *({size} *)(r{dst} {offset:+}) {sign} r{src}")
            }
            (3, _) => write!(f, "*({size} *)(r{dst} {offset:+}) = r{src}"),
            (5 | 6, _) => jump(*self, f),
            _ => operation(*self, f),
        }
    }
}

fn jump(insn: Insn, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (dst, offset) = (insn.dst, insn.offset);
    match insn.code & 0xf0 {
        0x00 => return write!(f, "goto {offset:+}"),
        0x80 => return write!(f, "call {}", insn.imm),
        0x90 => return f.write_str("exit"),
        _ => {}
    }
    let bits = insn.code & 0xf0;
    let known = CONDITIONS.iter().find(|(_, known)| *known == bits);
    let sign = known.map_or("?", |(sign, _)| sign);
    let register = if insn.code & 7 == 6 { 'w' } else { 'r' };
    let other = operand(insn, register);
    write!(f, "if {register}{dst} {sign} {other} goto {offset:+}")
}

fn operation(insn: Insn, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // 32-bit operations: the verifier calls the lower halves of registers w0 to w9.
    let register = if insn.code & 7 == 4 { 'w' } else { 'r' };
    let dst = insn.dst;
    let bits = insn.code & 0xf0;
    match bits {
        0x80 => return write!(f, "{register}{dst} = -{register}{dst}"),
        0xd0 => {
            let order = match insn.code {
                0xd7 => "bswap",
                0xdc => "be",
                _ => "le",
            };
            return write!(f, "r{dst} = {order}{} r{dst}", insn.imm);
        }
        0xb0 if insn.offset != 0 => {
            let from = operand(insn, register);
            return write!(f, "{register}{dst} = (s{}){from}", insn.offset);
        }
        _ => {}
    }
    let signed = if insn.offset == 1 { "s" } else { "" };
    let known = OPERATIONS.iter().find(|(_, known)| *known == bits);
    let sign = known.map_or("?=", |(sign, _)| sign);
    let other = operand(insn, register);
    write!(f, "{register}{dst} {signed}{sign} {other}")
}

fn operand(insn: Insn, register: char) -> String {
    if insn.code & 8 == 0 {
        insn.imm.to_string()
    } else {
        format!("{register}{}", insn.src)
    }
}
