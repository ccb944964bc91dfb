//! Validates filters by the kernel's rules (`bpf_check_classic`) and decodes instructions.

use super::{AluOp, Ancillary, Classic, ClassicError, ClassicInsn, Register, Source, Step, Test};

/// Maximum number of instructions that the kernel accepts (`BPF_MAXINSNS`).
const MAX_INSNS: usize = 4096;
/// Number of memory cells.
pub(crate) const CELLS: u32 = 16;
/// Offsets of at least this value load ancillary data instead of packet bytes (`SKF_AD_OFF`).
const ANCILLARY: u32 = 0xffff_f000;
/// Offsets of at least this value are relative to a header (`SKF_LL_OFF`). tcpdump does not use
/// them.
const FROM_HEADERS: u32 = 0xffe0_0000;

impl Classic {
    /// Validates the instructions.
    ///
    /// # Errors
    ///
    /// Returns the first invalid instruction.
    pub fn new(insns: Vec<ClassicInsn>) -> Result<Self, ClassicError> {
        let error = |at, problem| ClassicError { at, problem };
        let wrong = |at, problem| Err(error(at, problem));
        if insns.is_empty() || insns.len() > MAX_INSNS {
            return wrong(0, "a filter must have 1 to 4096 instructions");
        }
        // Memory cells that are written on every path to an instruction.
        let mut written = vec![u16::MAX; insns.len()];
        written[0] = 0;
        for (at, insn) in insns.iter().enumerate() {
            let step = insn.step().map_err(|problem| error(at, problem))?;
            let mut cells = written[at];
            let flow_to = |written: &mut Vec<u16>, over: u32, cells| {
                let to = at + 1 + over as usize;
                match written.get_mut(to) {
                    Some(known) => *known &= cells,
                    None => return Err(error(at, "the jump goes past the last instruction")),
                }
                Ok(())
            };
            match step {
                Step::LoadCell(_, cell) if cells & 1 << cell == 0 => {
                    return wrong(at, "the program reads a memory cell before writing it");
                }
                Step::Store(_, cell) => cells |= 1 << cell,
                Step::Jump(over) => {
                    flow_to(&mut written, over, cells)?;
                    continue;
                }
                Step::Branch(_, _, jt, jf) => {
                    flow_to(&mut written, jt.into(), cells)?;
                    flow_to(&mut written, jf.into(), cells)?;
                    continue;
                }
                Step::Return(_) | Step::ReturnA => continue,
                _ => {}
            }
            flow_to(&mut written, 0, cells)?;
        }
        Ok(Self { insns })
    }

    /// Returns the effect of each instruction.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Step> {
        self.insns.iter().filter_map(|insn| insn.step().ok())
    }
}

impl ClassicInsn {
    /// Decodes the instruction, or returns the reason why it is invalid.
    pub(super) fn step(self) -> Result<Step, &'static str> {
        let k = self.k;
        let cell = || {
            let cell = u8::try_from(k).ok().filter(|_| k < CELLS);
            cell.ok_or("there is no such memory cell")
        };
        Ok(match self.code {
            0x20 => load(4, k)?,
            0x28 => load(2, k)?,
            0x30 => load(1, k)?,
            0x40 => indirect(4, k),
            0x48 => indirect(2, k),
            0x50 => indirect(1, k),
            0x00 => Step::LoadConstant(Register::A, k),
            0x01 => Step::LoadConstant(Register::X, k),
            0x80 => Step::LoadLength(Register::A),
            0x81 => Step::LoadLength(Register::X),
            0x60 => Step::LoadCell(Register::A, cell()?),
            0x61 => Step::LoadCell(Register::X, cell()?),
            0xb1 if k < FROM_HEADERS => Step::LoadHeaderLength(k),
            0x02 => Step::Store(Register::A, cell()?),
            0x03 => Step::Store(Register::X, cell()?),
            0x84 => Step::Negate,
            0x05 => Step::Jump(k),
            0x07 => Step::AToX,
            0x87 => Step::XToA,
            0x06 => Step::Return(Source::Constant(k)),
            0x16 => Step::ReturnA,
            code if code & 7 == 4 && code <= 0xac => self.alu()?,
            code if code & 7 == 5 && code <= 0x4d => {
                let test = match code & 0xf0 {
                    0x10 => Test::Equal,
                    0x20 => Test::Greater,
                    0x30 => Test::GreaterOrEqual,
                    0x40 => Test::AnyBit,
                    _ => return Err("there is no such instruction"),
                };
                Step::Branch(test, self.source(), self.jt, self.jf)
            }
            _ => return Err("there is no such instruction"),
        })
    }

    fn source(self) -> Source {
        if self.code & 8 == 0 {
            Source::Constant(self.k)
        } else {
            Source::X
        }
    }

    fn alu(self) -> Result<Step, &'static str> {
        let op = match self.code & 0xf0 {
            0x00 => AluOp::Add,
            0x10 => AluOp::Sub,
            0x20 => AluOp::Mul,
            0x30 => AluOp::Div,
            0x40 => AluOp::Or,
            0x50 => AluOp::And,
            0x60 => AluOp::Lsh,
            0x70 => AluOp::Rsh,
            0x90 => AluOp::Mod,
            0xa0 => AluOp::Xor,
            _ => return Err("there is no such instruction"),
        };
        match (op, self.source()) {
            (AluOp::Div | AluOp::Mod, Source::Constant(0)) => Err("it divides by 0"),
            (AluOp::Lsh | AluOp::Rsh, Source::Constant(32..)) => {
                Err("the shift distance is 32 or more")
            }
            (op, source) => Ok(Step::Alu(op, source)),
        }
    }
}

fn load(size: u8, at: u32) -> Result<Step, &'static str> {
    let ancillary = match at.checked_sub(ANCILLARY) {
        None if at >= FROM_HEADERS => return Err("offsets relative to a header are not supported"),
        None => {
            return Ok(Step::LoadPacket {
                size,
                at,
                plus_x: false,
            });
        }
        Some(0) => Ancillary::Protocol,
        Some(4) => Ancillary::PacketType,
        Some(8) => Ancillary::Interface,
        Some(20) => Ancillary::Mark,
        Some(24) => Ancillary::Queue,
        Some(32) => Ancillary::Hash,
        Some(36) => Ancillary::Cpu,
        Some(44) => Ancillary::VlanTag,
        Some(48) => Ancillary::VlanTagPresent,
        Some(60) => Ancillary::VlanProtocol,
        Some(_) => return Err("this extension is not supported"),
    };
    Ok(Step::LoadAncillary(ancillary))
}

const fn indirect(size: u8, at: u32) -> Step {
    Step::LoadPacket {
        size,
        at,
        plus_x: true,
    }
}
