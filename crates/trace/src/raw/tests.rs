use super::*;
use crate::asm::{Code, Insn};
use crate::source::Span;

fn extended(text: &str) -> Instructions {
    match read(text.as_bytes()) {
        Ok(Raw::Extended(read)) => read,
        other => panic!("{text}: {other:?}"),
    }
}

const COUNT: &str = "\
; counts by process
map counts hash 4 8 1024
  r0 = 0
  *(u32 *)(r10 -4) = r0
  call bpf_get_current_pid_tgid#14
  r0 >>= 32
  *(u32 *)(r10 - 4) = r0   // the key
  r1 = map counts
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto end
  r1 = 1
  lock *(u64 *)(r0 +0) += r1
end:
  r0 = 0
  exit
";

#[test]
fn text_can_use_labels_maps_and_helper_names() {
    let read = extended(COUNT);
    assert_eq!(read.insns.len(), 15);
    assert_eq!(read.loads, [(5, 0)]);
    assert_eq!(read.lines[5..7], [8, 8], "a map load takes two slots");
    let map = &read.maps[0];
    assert_eq!(
        (map.name.as_str(), map.kind, map.entries),
        ("counts", 1, 1024)
    );
    assert_eq!(read.insns[2], [0x85, 0, 0, 0, 14, 0, 0, 0]);
    assert_eq!(
        read.insns[10],
        [0x15, 0, 2, 0, 0, 0, 0, 0],
        "skips two instructions"
    );
    assert_eq!(read.insns[12], [0xdb, 0x10, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn accepts_the_notations_of_other_tools() {
    let plain = extended("r0 = 0\nexit\n").insns;
    for text in [
        "0: (b7) r0 = 0\n1: (95) exit",
        "   0: (b7) r0 = 0   ; R0_w=0\n   1: (95) exit\n",
        "b7 00 00 00 00 00 00 00\n95 00 00 00 00 00 00 00\n",
        "# llvm\n  0 r0 = 0x0\n  1 exit",
    ] {
        assert_eq!(extended(text).insns, plain, "{text}");
    }
    let bytes: Vec<u8> = plain.concat();
    let Ok(Raw::Extended(read)) = read(&bytes) else {
        panic!("bytes are instructions");
    };
    assert_eq!(read.insns, plain);
    assert_eq!(
        extended("goto pc+1\nr0 = 1\nexit").insns,
        extended("goto +1\nr0 = 1\nexit").insns
    );
}

#[test]
fn classic_instructions_are_detected_by_their_form() {
    let forms = [
        "2,48 0 0 0,6 0 0 1,",
        "2\n48 0 0 0\n6 0 0 1\n",
        "{ 0x30,  0,  0, 0000000000 },\n{ 0x06,  0,  0, 0x00000001 },\n",
    ];
    for text in forms {
        let Ok(Raw::Classic(classic)) = read(text.as_bytes()) else {
            panic!("{text}: {:?}", read(text.as_bytes()));
        };
        assert_eq!(classic.insns().len(), 2, "{text}");
    }
}

#[test]
fn classic_instructions_start_with_their_count() {
    assert!(is_classic("1,6 0 0 0") && is_classic("2\n6 0 0 0\n6 0 0 0\n"));
    let others = [
        "tcp port 80",
        "1",
        "",
        "host 10.0.0.1 or host 10.0.0.2",
        "port 1,2",
    ];
    for expression in others {
        assert!(!is_classic(expression), "{expression}");
    }
}

#[test]
fn errors_have_a_position() {
    let cases = [
        (
            "r0 = 0\nr1 = r11\nexit",
            2,
            5,
            "expected a number or a register",
        ),
        ("exti", 1, 0, "no such instruction"),
        ("r0 = 0 0", 1, 7, "unexpected text"),
        ("call bpf_map_lookup_elm", 1, 5, "no such function"),
        ("call 0", 1, 5, "a function name or a number"),
        ("goto end", 1, 5, "no such label"),
        ("end:\nend:", 2, 0, "a label with this name"),
        ("r1 = map m", 1, 9, "no such map"),
        ("map m has 4 8 1", 1, 6, "no such map type"),
        ("map m hash 4 8", 1, 14, "map NAME TYPE"),
        (
            "map m hash 4 8 1\nmap m hash 4 8 1",
            2,
            0,
            "a map with this name",
        ),
        ("r1 += 0xffffffff", 1, 6, "32 signed bits"),
        ("r1 = 0x1ffffffffffffffff", 1, 5, "expected a number"),
        ("r1 += w2", 1, 6, "the same width"),
        ("r1 = -r2", 1, 7, "in place"),
        ("r1 = be16 r2", 1, 10, "in place"),
        ("*(u32 *)(r10 -40000) = r1", 1, 13, "offset"),
        ("*(x32 *)(r10 -4) = r1", 1, 2, "u8, u16"),
        ("if r1 = 5 goto +1", 1, 6, "comparison"),
        ("if r1 == 5 exit", 1, 11, "`goto`"),
        ("lock *(u8 *)(r0 +0) += r1", 1, 7, "u32 or u64"),
        ("", 1, 0, "no instruction"),
    ];
    for (text, line, column, words) in cases {
        match read(text.as_bytes()) {
            Err(RawError::Line {
                number, problem, ..
            }) => {
                assert_eq!(
                    (number, problem.span.start),
                    (line, column),
                    "{text}: {problem:?}"
                );
                assert!(problem.text.contains(words), "{text}: {problem:?}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let bytes = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(bytes(&[0; 9]).starts_with("byte 8: "));
    assert!(
        bytes(&[0x18, 0x11, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).contains("refer to a map")
    );
}

/// Parsing the listing of any instruction yields that instruction again.
#[test]
fn listings_round_trip() {
    let mut random = Random(1);
    for _ in 0..20_000 {
        let insn = random.insn();
        let code = Code {
            insns: vec![
                insn,
                Insn {
                    code: 0,
                    dst: 0,
                    src: 0,
                    offset: 0,
                    imm: -2,
                },
            ],
            ..Code::default()
        };
        let length = if insn.code == 0x18 { 2 } else { 1 };
        let text = code.to_string();
        let read = extended(text.lines().next().unwrap());
        let expected: Vec<_> = code.insns[..length]
            .iter()
            .map(|insn| insn.bytes())
            .collect();
        assert_eq!(read.insns, expected, "{text}");
    }
}

#[test]
fn random_text_never_panics() {
    let pieces = [
        "r1", "w0", " = ", " += ", "*(", "u32 *)", "(r10 -8)", "if ", "goto ", "+3", "end", ":",
        "\n", "exit", "call ", "map ", "hash", " 4", "0x", "-", "lock ", "skb[", "]", "\u{e9}",
        "(b7) ", "12", ";", ",", "{", "}", "s8", "(s16)", "be16 ", "ll", "\0",
    ];
    let mut random = Random(7);
    for _ in 0..50_000 {
        let count = random.below(9);
        let text: String = (0..count)
            .map(|_| pieces[random.below(pieces.len() as u32) as usize])
            .collect();
        match read(text.as_bytes()) {
            Err(RawError::Line {
                number,
                text: line,
                problem,
            }) => {
                assert!(number >= 1 && problem.span.start <= line.len(), "{text:?}");
                assert_ne!(problem.show(&line), "");
            }
            Err(error) => assert_ne!(error.to_string(), ""),
            Ok(_) => {}
        }
    }
    assert_eq!(Span::new(0, 0).range(), 0..0);
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() >> 16) as u32 % end
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }

    /// Generates an instruction whose unused parts are zero.
    fn insn(&mut self) -> Insn {
        let (dst, src) = (self.below(11) as u8, self.below(11) as u8);
        let offset = self.next() as i16;
        let imm = self.next() as i32;
        let mut insn = Insn {
            code: 0,
            dst,
            src,
            offset: 0,
            imm: 0,
        };
        let alu = [
            0_u8, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0, 0xb0, 0xc0,
        ];
        let jump = [
            0x10_u8, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0,
        ];
        let size = self.one(&[0_u8, 8, 0x10, 0x18]);
        let class = self.one(&[4_u8, 7]);
        match self.below(12) {
            0 => (insn.code, insn.src, insn.imm) = (self.one(&alu) | class, 0, imm),
            1 => insn.code = self.one(&alu) | class | 8,
            2 => {
                let (code, src) = self.one(&[(0_u8, 0_u8), (8, src)]);
                (insn.code, insn.src, insn.offset) =
                    (self.one(&[0x30_u8, 0x90]) | class | code, src, 1);
                insn.imm = if code == 0 { imm } else { 0 };
            }
            3 => (insn.code, insn.offset) = (0xb8 | class, self.one(&[8, 16])),
            4 => (insn.code, insn.src, insn.imm) = (self.one(&[0xd4_u8, 0xdc, 0xd7]), 0, 32),
            5 => {
                insn.code = self.one(&jump) | self.one(&[5_u8, 6]);
                (insn.src, insn.offset, insn.imm) = (0, offset, imm);
            }
            6 => (insn.code, insn.offset) = (self.one(&jump) | self.one(&[5_u8, 6]) | 8, offset),
            7 => (insn.code, insn.offset) = (0x61 | size, offset),
            8 => (insn.code, insn.src, insn.offset, insn.imm) = (0x62 | size, 0, offset, imm),
            9 => (insn.code, insn.offset) = (0x63 | size, offset),
            10 => (insn.code, insn.src, insn.imm) = (0x18, 0, imm),
            _ => {
                let op = self.one(&[0, 0x40, 0x50, 0xa0]);
                (insn.code, insn.offset, insn.imm) = (0xc3 | self.one(&[0_u8, 0x18]), offset, op);
            }
        }
        insn
    }
}
