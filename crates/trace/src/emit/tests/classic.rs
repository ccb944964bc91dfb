//! Tests random classic filters: the compiled filter must accept the same packets as an interpreter
//! that follows the kernel's description of the instructions.

use super::machine;
use super::maps::Maps;
use super::packet::compile;
use super::world::{Random, World};
use crate::classic::{Classic, ClassicInsn};
use crate::emit::emit;
use crate::probe::Link;

const FILTERS: u64 = 20_000;

/// Returns the result of the filter; 0 rejects the packet.
fn interpret(insns: &[ClassicInsn], world: &World) -> u32 {
    let packet = world.packet.as_deref().unwrap();
    let known = |at: usize| u32::from_le_bytes(world.record[at..at + 4].try_into().unwrap());
    let (mut a, mut x, mut cells) = (0_u32, 0_u32, [0_u32; 16]);
    let mut at = 0;
    loop {
        let ClassicInsn { code, jt, jf, k } = insns[at];
        at += 1;
        let size = [4, 2, 1][usize::from(code >> 3 & 3) % 3];
        let bytes = |from: u32| {
            let from = from as usize;
            let bytes = packet.get(from..from.checked_add(size)?)?;
            Some(
                bytes
                    .iter()
                    .fold(0, |word, byte| word << 8 | u32::from(*byte)),
            )
        };
        let operand = if code & 8 == 0 { k } else { x };
        let packet_word = match code {
            0x20 | 0x28 | 0x30 if k < 0xffff_f000 => Some(bytes(k)),
            0x40 | 0x48 | 0x50 => Some(bytes(x.wrapping_add(k))),
            0xb1 => Some(packet.get(k as usize).map(|byte| u32::from(*byte & 15) * 4)),
            _ => None,
        };
        match (code, packet_word) {
            (_, Some(None)) => return 0,
            (0xb1, Some(Some(word))) => x = word,
            (_, Some(Some(word))) => a = word,
            (0x20 | 0x28 | 0x30, None) => {
                a = match k - 0xffff_f000 {
                    0 => u32::from(u16::from_be(known(16) as u16)),
                    4 => known(4),
                    8 => known(40),
                    20 => known(8),
                    36 => world.cpu,
                    44 => known(24),
                    48 => known(20),
                    other => panic!("extension {other}"),
                }
            }
            (0x00, _) => a = k,
            (0x01, _) => x = k,
            (0x80, _) => a = known(0),
            (0x81, _) => x = known(0),
            (0x60, _) => a = cells[k as usize],
            (0x61, _) => x = cells[k as usize],
            (0x02, _) => cells[k as usize] = a,
            (0x03, _) => cells[k as usize] = x,
            (0x07, _) => x = a,
            (0x87, _) => a = x,
            (0x84, _) => a = a.wrapping_neg(),
            (0x06, _) => return k,
            (0x16, _) => return a,
            (0x05, _) => at += k as usize,
            (0x34 | 0x3c | 0x94 | 0x9c, _) if operand == 0 => return 0,
            (code, _) if code & 7 == 4 => {
                a = match code & 0xf0 {
                    0x00 => a.wrapping_add(operand),
                    0x10 => a.wrapping_sub(operand),
                    0x20 => a.wrapping_mul(operand),
                    0x30 => a / operand,
                    0x40 => a | operand,
                    0x50 => a & operand,
                    0x60 => a.wrapping_shl(operand),
                    0x70 => a.wrapping_shr(operand),
                    0x90 => a % operand,
                    _ => a ^ operand,
                }
            }
            (code, _) => {
                let holds = match code & 0xf0 {
                    0x10 => a == operand,
                    0x20 => a > operand,
                    0x30 => a >= operand,
                    _ => a & operand != 0,
                };
                at += usize::from(if holds { jt } else { jf });
            }
        }
    }
}

fn filter(random: &mut Random) -> Vec<ClassicInsn> {
    const CODES: [u16; 44] = [
        0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x00, 0x01, 0x80, 0x81, 0x60, 0x61, 0xb1, 0x02, 0x03,
        0x84, 0x05, 0x07, 0x87, 0x06, 0x16, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44,
        0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x94, 0x9c, 0xa4, 0xac, 0x15, 0x25, 0x45,
    ];
    let count = 1 + random.below(12);
    let mut insns = Vec::new();
    for at in 0..count {
        let left = count - at;
        let code = if random.once_in(3) {
            random.one_of(&[0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d])
        } else {
            random.one_of(&CODES)
        };
        let k = match code {
            0x20 | 0x28 | 0x30 if random.once_in(3) => {
                0xffff_f000 + random.one_of(&[0, 4, 8, 20, 36, 44, 48])
            }
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0xb1 => random.below(70) as u32,
            0x60 | 0x61 | 0x02 | 0x03 => random.below(3) as u32,
            0x05 => random.below(left) as u32,
            0x64 | 0x74 => random.below(32) as u32,
            _ => random.number() as u32,
        };
        insns.push(ClassicInsn {
            code,
            jt: random.below(left) as u8,
            jf: random.below(left) as u8,
            k,
        });
    }
    insns.push(ClassicInsn {
        code: 0x16,
        jt: 0,
        jf: 0,
        k: 0,
    });
    insns
}

#[test]
fn random_filters_match_the_interpreter() {
    let (mut filters, mut passed) = (0, 0);
    let mut program = compile(Link::Ethernet, "keys=mark");
    for seed in 0..FILTERS {
        let mut random = Random(seed << 20);
        let Ok(classic) = Classic::new(filter(&mut random)) else {
            continue;
        };
        filters += 1;
        let length = random.below(64);
        let packet: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let mut record = vec![0; 192];
        for at in [4, 8, 16, 20, 24, 40] {
            record[at] = random.next() as u8;
        }
        record[0] = packet.len() as u8;
        let world = World {
            record,
            packet: Some(packet),
            cpu: random.below(8) as u32,
            ..World::default()
        };
        let expected = interpret(classic.insns(), &world) != 0;
        program.classic = Some(classic.clone());
        let emitted = emit(&program).unwrap();
        let mut maps = Maps::new(&emitted, 4);
        machine::run(&emitted, &world, &mut maps)
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}\n{}", classic.listing()));
        let got = !maps.table(&program).rows.is_empty();
        assert_eq!(got, expected, "seed {seed}:\n{}", classic.listing());
        passed += u64::from(got);
    }
    assert!(
        filters > FILTERS / 4 && passed > filters / 5 && passed < filters * 4 / 5,
        "{filters} {passed}"
    );
}
