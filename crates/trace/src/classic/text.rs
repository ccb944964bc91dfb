//! Reads the output of `tcpdump -ddd` and prints filters for people.

use std::fmt::Write as _;

use super::{AluOp, Ancillary, Classic, ClassicError, ClassicInsn, Register, Source, Step, Test};

impl Classic {
    /// Reads the output of `tcpdump -ddd`: the number of instructions, then four numbers per
    /// instruction. Instructions are separated by newlines or commas.
    ///
    /// # Errors
    ///
    /// Returns an error if the text has a different format, or if the instructions are not a valid
    /// filter.
    pub fn parse(text: &str) -> Result<Self, ClassicError> {
        let wrong = |at, problem| ClassicError { at, problem };
        let mut parts = text
            .split(['\n', ','])
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let count = parts.next().and_then(|count| count.parse::<usize>().ok());
        let count = count.ok_or(wrong(0, "the number of instructions must come first"))?;
        let mut insns = Vec::new();
        for (at, part) in parts.enumerate() {
            let insn = insn(part);
            insns.push(insn.ok_or(wrong(at, "an instruction is four numbers: code jt jf k"))?);
        }
        if insns.len() != count {
            return Err(wrong(
                insns.len(),
                "the number of instructions differs from the stated one",
            ));
        }
        Self::new(insns)
    }

    /// Prints one line per instruction in the notation of the kernel's `bpf_asm`.
    pub fn listing(&self) -> String {
        let mut out = String::new();
        for (at, step) in self.steps().enumerate() {
            // Writing to a `String` cannot fail.
            let _ = writeln!(out, "{at:4}: {}", describe(step, at));
        }
        out
    }
}

fn insn(text: &str) -> Option<ClassicInsn> {
    let numbers: Option<Vec<u32>> = text.split_whitespace().map(number).collect();
    let [code, jt, jf, k] = numbers?.try_into().ok()?;
    Some(ClassicInsn {
        code: code.try_into().ok()?,
        jt: jt.try_into().ok()?,
        jf: jf.try_into().ok()?,
        k,
    })
}

/// Parses a decimal number, or a hexadecimal one with the prefix `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn describe(step: Step, at: usize) -> String {
    let to = |over: u32| at + 1 + over as usize;
    match step {
        Step::LoadPacket { size, at, plus_x } => {
            let suffix = match size {
                1 => "b",
                2 => "h",
                _ => "",
            };
            let x = if plus_x { "x + " } else { "" };
            format!("ld{suffix} [{x}{at}]")
        }
        Step::LoadAncillary(what) => format!("ld {}", ancillary(what)),
        Step::LoadConstant(register, k) => format!("{} #{k:#x}", load(register)),
        Step::LoadLength(register) => format!("{} #pktlen", load(register)),
        Step::LoadCell(register, cell) => format!("{} M[{cell}]", load(register)),
        Step::LoadHeaderLength(at) => format!("ldx 4*([{at}]&0xf)"),
        Step::Store(Register::A, cell) => format!("st M[{cell}]"),
        Step::Store(Register::X, cell) => format!("stx M[{cell}]"),
        Step::Alu(op, source) => format!("{} {}", alu(op), operand(source)),
        Step::Negate => "neg".to_owned(),
        Step::Jump(over) => format!("ja {}", to(over)),
        Step::Branch(test, source, jt, jf) => {
            let (holds, fails) = (to(jt.into()), to(jf.into()));
            format!("{} {}, {holds}, {fails}", name(test), operand(source))
        }
        Step::AToX => "tax".to_owned(),
        Step::XToA => "txa".to_owned(),
        Step::Return(source) => format!("ret {}", operand(source)),
        Step::ReturnA => "ret a".to_owned(),
    }
}

const fn load(register: Register) -> &'static str {
    match register {
        Register::A => "ld",
        Register::X => "ldx",
    }
}

fn operand(source: Source) -> String {
    match source {
        Source::Constant(k) => format!("#{k:#x}"),
        Source::X => "x".to_owned(),
    }
}

const fn alu(op: AluOp) -> &'static str {
    match op {
        AluOp::Add => "add",
        AluOp::Sub => "sub",
        AluOp::Mul => "mul",
        AluOp::Div => "div",
        AluOp::Or => "or",
        AluOp::And => "and",
        AluOp::Lsh => "lsh",
        AluOp::Rsh => "rsh",
        AluOp::Mod => "mod",
        AluOp::Xor => "xor",
    }
}

const fn name(test: Test) -> &'static str {
    match test {
        Test::Equal => "jeq",
        Test::Greater => "jgt",
        Test::GreaterOrEqual => "jge",
        Test::AnyBit => "jset",
    }
}

const fn ancillary(what: Ancillary) -> &'static str {
    match what {
        Ancillary::Protocol => "#proto",
        Ancillary::PacketType => "#type",
        Ancillary::Interface => "#ifidx",
        Ancillary::Mark => "#mark",
        Ancillary::Queue => "#queue",
        Ancillary::Hash => "#rxhash",
        Ancillary::Cpu => "#cpu",
        Ancillary::VlanTag => "#vlan_tci",
        Ancillary::VlanTagPresent => "#vlan_avail",
        Ancillary::VlanProtocol => "#vlan_tpid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tcpdump -y EN10MB -ddd 'ip and tcp dst port 80'`.
    const WEB: &str = "11\n40 0 0 12\n21 0 8 2048\n48 0 0 23\n21 0 6 6\n40 0 0 20\n69 4 0 8191\n\
                       177 0 0 14\n72 0 0 16\n21 0 1 80\n6 0 0 262144\n6 0 0 0\n";

    #[test]
    fn parses_tcpdump_output() {
        let filter = Classic::parse(WEB).unwrap();
        assert_eq!(Classic::parse(&WEB.replace('\n', ",")).unwrap(), filter);
        let text = filter.listing();
        for line in [
            "   0: ldh [12]\n",
            "   1: jeq #0x800, 2, 10\n",
            "   5: jset #0x1fff, 10, 6\n",
            "   6: ldx 4*([14]&0xf)\n",
            "   7: ldh [x + 16]\n",
            "  10: ret #0x0\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn invalid_filters_are_rejected_with_a_reason() {
        for (text, at, words) in [
            ("", 0, "number"),
            ("2,6 0 0 0", 1, "differs"),
            ("1,6 0 0", 0, "four numbers"),
            ("1,6 0 0 0 0", 0, "four numbers"),
            ("1,6 0 0 x", 0, "four numbers"),
            ("1,70000 0 0 0", 0, "four numbers"),
            ("0", 0, "1 to 4096"),
            ("1,40 0 0 12", 0, "past the last"),
            ("2,21 9 0 1,6 0 0 0", 0, "past the last"),
            ("2,52 0 0 0,6 0 0 0", 0, "divides by 0"),
            ("2,100 0 0 32,6 0 0 0", 0, "shift distance"),
            ("2,96 0 0 3,6 0 0 0", 0, "before writing it"),
            ("2,96 0 0 16,6 0 0 0", 0, "no such memory cell"),
            ("2,255 0 0 0,6 0 0 0", 0, "no such instruction"),
            ("2,40 0 0 4294963256,6 0 0 0", 0, "extension"),
            ("2,40 0 0 4293918720,6 0 0 0", 0, "relative to a header"),
            // Only one of the two paths writes the cell.
            (
                "4,21 0 1 0,2 0 0 1,96 0 0 1,6 0 0 0",
                2,
                "before writing it",
            ),
        ] {
            let error = Classic::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.problem.contains(words), "{text}: {error}");
        }
    }
}
