//! Compiles a classic BPF filter. R7 is A and R8 is X, both with their upper 32 bits cleared. The
//! memory cells use the stack area of the key, which is built later.

use super::{Emitter, Place, frame};
use crate::asm::{Alu, Helper, Jump, Label, Operand, Reg, Width};
use crate::classic::{AluOp, Ancillary, Classic, Register, Source, Step, Test};

const A: Reg = Reg::R7;
const X: Reg = Reg::R8;
/// Buffer for bytes that are copied from the packet.
const SCRATCH: i16 = frame::ROW;
/// Stack offset of the memory cells.
const CELLS: i16 = frame::KEY;
/// Offset of `len` in `struct __sk_buff`.
const LENGTH: i16 = 0;

impl Emitter {
    /// Continues if the packet passes; otherwise jumps to `refused`. R9, which holds the context,
    /// is preserved.
    pub(super) fn classic(&mut self, filter: &Classic, refused: Label) {
        let passed = self.asm.label();
        let labels: Vec<_> = filter.insns().iter().map(|_| self.asm.label()).collect();
        self.asm.mov(A, 0);
        self.asm.mov(X, 0);
        for (at, (step, label)) in filter.steps().zip(&labels).enumerate() {
            self.asm.bind(*label);
            if let Step::Jump(_) | Step::Branch(..) = step {
                let to = |over: u32| labels[at + 1 + over as usize];
                self.jump(step, to);
            } else {
                self.step(step, passed, refused);
            }
        }
        self.asm.bind(passed);
    }

    fn step(&mut self, step: Step, passed: Label, refused: Label) {
        match step {
            Step::LoadPacket { size, at, plus_x } => {
                self.load_packet(size, at, plus_x, refused);
                let width = Width::of(size.into()).unwrap_or(Width::B4);
                self.asm.load(width, A, Reg::R10, SCRATCH);
                match width {
                    Width::B2 => self.asm.network_16(A),
                    Width::B4 => self.asm.network_32(A),
                    Width::B1 | Width::B8 => {}
                }
            }
            Step::LoadHeaderLength(at) => {
                self.load_packet(1, at, false, refused);
                self.asm.load(Width::B1, X, Reg::R10, SCRATCH);
                self.asm.alu(Alu::And, X, 15);
                self.asm.alu(Alu::Lsh, X, 2);
            }
            Step::LoadAncillary(what) => self.ancillary(what),
            Step::LoadConstant(register, k) => self.asm.constant(reg(register), k.into()),
            Step::LoadLength(register) => {
                self.asm.load(Width::B4, reg(register), Reg::R9, LENGTH);
            }
            Step::LoadCell(register, cell) => {
                let at = CELLS + 4 * i16::from(cell);
                self.asm.load(Width::B4, reg(register), Reg::R10, at);
            }
            Step::Store(register, cell) => {
                let at = CELLS + 4 * i16::from(cell);
                self.asm.store(Width::B4, Reg::R10, at, reg(register));
            }
            Step::Alu(op, source) => self.operation(op, source, refused),
            Step::Negate => self.asm.negate_32(A),
            Step::AToX => self.asm.mov(X, A),
            Step::XToA => self.asm.mov(A, X),
            Step::ReturnA => {
                self.asm.jump(Jump::Eq, A, 0, refused);
                self.always(passed);
            }
            Step::Return(Source::Constant(0)) => self.always(refused),
            Step::Return(Source::Constant(_)) => self.always(passed),
            Step::Return(Source::X) | Step::Jump(_) | Step::Branch(..) => {}
        }
    }

    fn jump(&mut self, step: Step, to: impl Fn(u32) -> Label) {
        match step {
            Step::Jump(over) => self.always(to(over)),
            Step::Branch(test, source, jt, jf) => {
                let operand = match source {
                    Source::X => X,
                    Source::Constant(k) => {
                        self.asm.constant(Reg::R1, k.into());
                        Reg::R1
                    }
                };
                let (holds, inverse) = match test {
                    Test::Equal => (Jump::Eq, Some(Jump::Ne)),
                    Test::Greater => (Jump::Gt, Some(Jump::Le)),
                    Test::GreaterOrEqual => (Jump::Ge, Some(Jump::Lt)),
                    Test::AnyBit => (Jump::Set, None),
                };
                match inverse {
                    Some(fails) if jt == 0 => self.asm.jump(fails, A, operand, to(jf.into())),
                    _ => {
                        self.asm.jump(holds, A, operand, to(jt.into()));
                        if jf > 0 {
                            self.always(to(jf.into()));
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Copies bytes of the packet, or jumps to `refused` if they are past its end.
    fn load_packet(&mut self, size: u8, at: u32, plus_x: bool, refused: Label) {
        self.load_context(Reg::R1);
        self.asm.constant(Reg::R2, at.into());
        if plus_x {
            self.asm.alu_32(Alu::Add, Reg::R2, X);
        }
        self.address(Reg::R3, Place::stack(SCRATCH));
        self.asm.mov(Reg::R4, i32::from(size));
        self.asm.call(Helper::SkbLoadBytes);
        self.asm.jump(Jump::Ne, Reg::R0, 0, refused);
    }

    fn operation(&mut self, op: AluOp, source: Source, refused: Label) {
        let operand = match source {
            Source::X => Operand::Reg(X),
            Source::Constant(k) => Operand::Imm(k.cast_signed()),
        };
        if let (AluOp::Div | AluOp::Mod, Source::X) = (op, source) {
            self.asm.jump(Jump::Eq, X, 0, refused);
        }
        let alu = match op {
            AluOp::Add => Alu::Add,
            AluOp::Sub => Alu::Sub,
            AluOp::Mul => Alu::Mul,
            AluOp::Div => Alu::Div,
            AluOp::Or => Alu::Or,
            AluOp::And => Alu::And,
            AluOp::Lsh => Alu::Lsh,
            AluOp::Rsh => Alu::Rsh,
            AluOp::Mod => Alu::Mod,
            AluOp::Xor => Alu::Xor,
        };
        self.asm.alu_32(alu, A, operand);
    }

    /// Loads a field of `struct __sk_buff`, which R9 points to.
    fn ancillary(&mut self, what: Ancillary) {
        let offset = match what {
            Ancillary::PacketType => 4,
            Ancillary::Mark => 8,
            Ancillary::Queue => 12,
            Ancillary::Protocol => 16,
            Ancillary::VlanTagPresent => 20,
            Ancillary::VlanTag => 24,
            Ancillary::VlanProtocol => 28,
            Ancillary::Interface => 40,
            Ancillary::Hash => 68,
            Ancillary::Cpu => {
                self.asm.call(Helper::SmpProcessorId);
                self.asm.mov(A, Reg::R0);
                return;
            }
        };
        self.asm.load(Width::B4, A, Reg::R9, offset);
        if let Ancillary::Protocol | Ancillary::VlanProtocol = what {
            self.asm.network_16(A);
        }
    }
}

const fn reg(register: Register) -> Reg {
    match register {
        Register::A => A,
        Register::X => X,
    }
}
