//! Instructions as text, in the notation of the kernel's verifier.

use std::fmt;

use super::{Code, Insn};

impl fmt::Display for Code {
    /// A line for each instruction, with its number. Maps have the numbers of [`Code::maps`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, insn) in self.insns.iter().enumerate() {
            // The second half of a constant.
            if insn.code == 0 {
                continue;
            }
            let high = self.insns.get(at + 1).map_or(0, |next| next.imm);
            match self.maps.iter().find(|(place, _)| *place == at) {
                Some((_, map)) => writeln!(f, "{at:3} r{} = map {map}", insn.dst)?,
                None if insn.code == 0x18 => {
                    writeln!(f, "{at:3} r{} = {high:#x} {:#010x}", insn.dst, insn.imm)?;
                }
                None => writeln!(f, "{at:3} {insn}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Insn {
    /// The instruction alone; of a constant of 64 bits the lower half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            dst,
            src,
            offset,
            imm,
        } = *self;
        let size = ["u32", "u16", "u8", "u64"][usize::from(code >> 3 & 3)];
        match code & 7 {
            0 => write!(f, "r{dst} = {imm:#010x}"),
            1 => write!(f, "r{dst} = *({size} *)(r{src} {offset:+})"),
            2 => write!(f, "*({size} *)(r{dst} {offset:+}) = {imm}"),
            3 => write!(f, "*({size} *)(r{dst} {offset:+}) = r{src}"),
            5 | 6 => jump(*self, f),
            _ => operation(*self, f),
        }
    }
}

fn jump(insn: Insn, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sign = match insn.code & 0xf0 {
        0x00 => return write!(f, "goto {:+}", insn.offset),
        0x80 => return write!(f, "call {}", insn.imm),
        0x90 => return f.write_str("exit"),
        0x10 => "==",
        0x20 => ">",
        0x30 => ">=",
        0x40 => "&",
        0x50 => "!=",
        0x60 => "s>",
        0x70 => "s>=",
        0xa0 => "<",
        0xb0 => "<=",
        0xc0 => "s<",
        _ => "s<=",
    };
    let (dst, offset) = (insn.dst, insn.offset);
    write!(f, "if r{dst} {sign} {} goto {offset:+}", operand(insn, 'r'))
}

fn operation(insn: Insn, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // Of 32 bits: the kernel calls the lower halves w0 to w9.
    let register = if insn.code & 7 == 4 { 'w' } else { 'r' };
    let dst = insn.dst;
    let sign = match insn.code & 0xf0 {
        0x80 => return write!(f, "{register}{dst} = -{register}{dst}"),
        0xd0 => return write!(f, "r{dst} = be{} r{dst}", insn.imm),
        0x00 => "+=",
        0x10 => "-=",
        0x20 => "*=",
        0x30 => "/=",
        0x40 => "|=",
        0x50 => "&=",
        0x60 => "<<=",
        0x70 => ">>=",
        0x90 => "%=",
        0xa0 => "^=",
        0xb0 => "=",
        _ => "s>>=",
    };
    write!(f, "{register}{dst} {sign} {}", operand(insn, register))
}

fn operand(insn: Insn, register: char) -> String {
    if insn.code & 8 == 0 {
        insn.imm.to_string()
    } else {
        format!("{register}{}", insn.src)
    }
}
