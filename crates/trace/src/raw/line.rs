//! Parses one line of text: an instruction, a label or a map declaration.

use super::scan::Scan;
use crate::asm::Insn;
use crate::asm::listing::{CONDITIONS, OPERATIONS, SIGNED, TYPES, helper, helpers};
use crate::elf::LegacyMap;
use crate::source::{Problem, Span, Spanned};

const ALU: u8 = 0x04;
const JUMP: u8 = 0x05;
const JUMP_32: u8 = 0x06;
const ALU_64: u8 = 0x07;
const BY_REGISTER: u8 = 0x08;
const LOAD_CONSTANT: u8 = 0x18;
const PSEUDO_MAP_FD: u8 = 1;
const FORMS: &str = "an instruction is one of `r1 = 5`, `r1 += r2`, `w1 = 5`, `r1 = *(u32 *)(r6 +4)`, \
    `*(u64 *)(r10 -8) = r1`, `if r1 == 5 goto LABEL`, `goto +3`, `call bpf_map_lookup_elem`, \
    `r1 = map NAME`, `exit`";

type Parsed<T> = Result<T, Problem>;

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Nothing,
    /// `map NAME TYPE KEY VALUE ENTRIES`
    Map(Spanned<LegacyMap>),
    /// `NAME:`
    Label(Spanned<String>),
    Instruction(Instruction),
}

/// An instruction with its unresolved references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) insn: Insn,
    /// The upper half of a 64-bit constant.
    pub(super) high: Option<i32>,
    /// The label that the instruction jumps to.
    pub(super) label: Option<Spanned<String>>,
    /// The map that the instruction loads.
    pub(super) map: Option<Spanned<String>>,
}

impl From<Insn> for Instruction {
    fn from(insn: Insn) -> Self {
        Self {
            insn,
            high: None,
            label: None,
            map: None,
        }
    }
}

const fn insn(code: u8, dst: u8, src: u8, offset: i16, imm: i32) -> Insn {
    Insn {
        code,
        dst,
        src,
        offset,
        imm,
    }
}

/// Parses a line. Text after `;` or `//`, and lines that begin with `#`, are comments.
pub(super) fn read(line: &str) -> Parsed<Line> {
    let end = [";", "//"]
        .iter()
        .filter_map(|begin| line.find(begin))
        .min()
        .unwrap_or(line.len());
    let mut scan = Scan::new(&line[..end]);
    if scan.is_over() || scan.eat("#") {
        return Ok(Line::Nothing);
    }
    if let Some(bytes) = hexadecimal(&line[..end]) {
        return Ok(Line::Instruction(bytes));
    }
    if let Some(label) = label(&line[..end]) {
        return Ok(Line::Label(label));
    }
    let start = scan.skip_spaces();
    if let Some(rest) = line[start..end].strip_prefix("map ")
        && !rest.trim_start().starts_with('=')
    {
        scan.expect("map")?;
        return map(&mut scan).map(|map| Line::Map(Spanned::new(map, Span::new(start, end))));
    }
    skip_listing_prefix(&mut scan);
    let read = instruction(&mut scan)?;
    if !scan.is_over() {
        return scan.wrong("unexpected text after the instruction");
    }
    Ok(Line::Instruction(read))
}

/// Skips the number and the first byte of an instruction in a listing: `12: (b7) r0 = 0`.
fn skip_listing_prefix(scan: &mut Scan<'_>) {
    if !scan.take(|c| c.is_ascii_digit()).is_empty() {
        scan.eat(":");
    }
    if scan.eat("(") {
        scan.take(|c| c.is_ascii_hexdigit());
        scan.eat(")");
    }
}

/// Parses eight bytes in the format of `bpftool prog dump xlated opcodes` and `llvm-objdump -d`.
fn hexadecimal(line: &str) -> Option<Instruction> {
    let mut words = line.split_whitespace();
    let mut bytes = [0_u8; 8];
    for byte in &mut bytes {
        let word = words.next().filter(|word| word.len() == 2)?;
        *byte = u8::from_str_radix(word, 16).ok()?;
    }
    words.next().is_none().then(|| {
        let [code, registers, o0, o1, i0, i1, i2, i3] = bytes;
        let (low, high) = (registers & 15, registers >> 4);
        let (dst, src) = if cfg!(target_endian = "little") {
            (low, high)
        } else {
            (high, low)
        };
        let imm = i32::from_ne_bytes([i0, i1, i2, i3]);
        insn(code, dst, src, i16::from_ne_bytes([o0, o1]), imm).into()
    })
}

fn label(line: &str) -> Option<Spanned<String>> {
    let start = line.len() - line.trim_start().len();
    let name = line.trim().strip_suffix(':')?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (is_name && name.chars().all(fits))
        .then(|| Spanned::new(name.to_owned(), Span::new(start, start + name.len())))
}

fn map(scan: &mut Scan<'_>) -> Parsed<LegacyMap> {
    const FORM: &str =
        "a map is `map NAME TYPE KEY VALUE ENTRIES`, such as `map counts hash 4 8 1024`";
    let (name, _) = scan.word();
    if name.is_empty() {
        return scan.wrong(FORM);
    }
    let (kind, span) = scan.word();
    let Some(kind) = noctule_kernel::map_kind(kind) else {
        let text = "there is no such map type";
        let help = "use a type name of bpftool: hash, array, percpu_hash, percpu_array, lru_hash, ring_buf, \
                    stack_trace";
        return Err(Problem::new(span, text).with_help(help));
    };
    let mut size = || {
        let place = scan.skip_spaces();
        let number = scan.number().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| Problem::new(Span::new(place, place), FORM))
    };
    let (key_size, value_size, entries) = (size()?, size()?, size()?);
    if !scan.is_over() {
        return scan.wrong(FORM);
    }
    Ok(LegacyMap {
        name: name.to_owned(),
        kind,
        key_size,
        value_size,
        entries,
        flags: 0,
    })
}

fn instruction(scan: &mut Scan<'_>) -> Parsed<Instruction> {
    if let Some((letter, dst)) = scan.register() {
        return assignment(scan, letter, dst);
    }
    if scan.eat("*(") {
        return store(scan);
    }
    let (word, span) = scan.word();
    match word {
        "exit" => Ok(insn(JUMP | 0x90, 0, 0, 0, 0).into()),
        "call" => call(scan),
        "goto" => goto(scan, insn(JUMP, 0, 0, 0, 0)),
        "if" => condition(scan),
        "lock" => {
            scan.expect("*(")?;
            atomic(scan)
        }
        _ => Err(Problem::new(span, "there is no such instruction").with_help(FORMS)),
    }
}

/// Parses a 32-bit constant.
fn constant(scan: &mut Scan<'_>, unsigned: bool) -> Parsed<i32> {
    let place = scan.skip_spaces();
    let wrong = |text: &str| Problem::new(Span::new(place, place), text);
    let number = scan.number();
    let number = number.ok_or_else(|| wrong("expected a number or a register"))?;
    let whole = i32::try_from(number).ok();
    // In a 32-bit operation, the signed and the unsigned notation represent the same number.
    let whole = whole.or_else(|| {
        let bits = u32::try_from(number).ok().filter(|_| unsigned)?;
        Some(bits.cast_signed())
    });
    whole.ok_or_else(|| {
        wrong("the number does not fit in 32 signed bits").with_help(
            "immediate numbers are sign-extended: write -1 for 0xffffffffffffffff, and load other \
             numbers into a register first: `r1 = 0xffffffff`",
        )
    })
}

fn register(scan: &mut Scan<'_>, letter: char) -> Parsed<u8> {
    let place = scan.skip_spaces();
    match scan.register() {
        Some((found, number)) if found == letter => Ok(number),
        _ => Err(Problem::new(
            Span::new(place, place),
            format!("expected a register {letter}0 to {letter}10"),
        )),
    }
}

/// Parses the rest of an instruction that starts with a register.
fn assignment(scan: &mut Scan<'_>, letter: char, dst: u8) -> Parsed<Instruction> {
    let class = if letter == 'w' { ALU } else { ALU_64 };
    let signed = [("s/=", (0x30, 1_i16)), ("s%=", (0x90, 1))];
    let plain: Vec<_> = OPERATIONS
        .iter()
        .map(|(sign, bits)| (*sign, (*bits, 0)))
        .chain(signed)
        .collect();
    let Some((bits, offset)) = scan.sign(&plain) else {
        return scan.wrong("expected `=`, `+=` or another operator");
    };
    if bits == 0xb0 {
        return value(scan, letter, dst, class);
    }
    operand(scan, letter, insn(class | bits, dst, 0, offset, 0)).map(Into::into)
}

/// Parses the second operand: a register of the same width, or a constant.
fn operand(scan: &mut Scan<'_>, letter: char, known: Insn) -> Parsed<Insn> {
    let place = scan.skip_spaces();
    if let Some((found, src)) = scan.register() {
        if found != letter {
            let text = format!("both registers must have the same width: {letter}{src}");
            return Err(Problem::new(Span::new(place, place), text));
        }
        let code = known.code | BY_REGISTER;
        return Ok(Insn { code, src, ..known });
    }
    let imm = constant(scan, letter == 'w')?;
    Ok(Insn { imm, ..known })
}

/// Parses the text after `r1 =`.
fn value(scan: &mut Scan<'_>, letter: char, dst: u8, class: u8) -> Parsed<Instruction> {
    if scan.eat("*(") {
        return load(scan, dst);
    }
    for (width, bits) in [("(s8)", 8), ("(s16)", 16), ("(s32)", 32)] {
        if scan.eat(width) {
            let src = register(scan, letter)?;
            return Ok(insn(class | 0xb0 | BY_REGISTER, dst, src, bits, 0).into());
        }
    }
    if scan.eat("-r") || scan.eat("-w") {
        let place = scan.skip_spaces();
        let number: Option<u8> = scan.take(|c| c.is_ascii_digit()).parse().ok();
        if number != Some(dst) {
            let text =
                format!("a register can only be negated in place: {letter}{dst} = -{letter}{dst}");
            return Err(Problem::new(Span::new(place, place), text));
        }
        return Ok(insn(class | 0x80, dst, 0, 0, 0).into());
    }
    let before = scan.clone();
    let (word, _) = scan.word();
    if word == "map" {
        let (name, span) = scan.word();
        let mut read = Instruction::from(insn(LOAD_CONSTANT, dst, PSEUDO_MAP_FD, 0, 0));
        read.high = Some(0);
        read.map = Some(Spanned::new(name.to_owned(), span));
        return Ok(read);
    }
    for (order, code) in [
        ("be", ALU | 0xd8),
        ("le", ALU | 0xd0),
        ("bswap", ALU_64 | 0xd0),
    ] {
        let bits = word.strip_prefix(order).and_then(|bits| bits.parse().ok());
        if let Some(bits @ (16 | 32 | 64)) = bits {
            let place = scan.skip_spaces();
            if scan.register() != Some(('r', dst)) {
                let text = format!("bytes can only be swapped in place: r{dst} = {word} r{dst}");
                return Err(Problem::new(Span::new(place, place), text));
            }
            return Ok(insn(code, dst, 0, 0, bits).into());
        }
    }
    *scan = before.clone();
    // A register or a constant. A constant has 64 bits if it does not fit in 32 or ends with `ll`.
    if letter == 'r'
        && let Some(number) = scan.number()
    {
        let long = scan.eat("ll");
        if let (false, Ok(imm)) = (long, i32::try_from(number)) {
            return Ok(insn(class | 0xb0, dst, 0, 0, imm).into());
        }
        let bits = u64::try_from(number).ok();
        let bits = bits.or_else(|| Some(i64::try_from(number).ok()?.cast_unsigned()));
        if let Some(bits) = bits {
            let mut read = Instruction::from(insn(LOAD_CONSTANT, dst, 0, 0, bits as i32));
            read.high = Some((bits >> 32) as i32);
            return Ok(read);
        }
        *scan = before;
        return scan.wrong("the number has more than 64 bits");
    }
    operand(scan, letter, insn(class | 0xb0, dst, 0, 0, 0)).map(Into::into)
}

/// Parses `u32 *)` after `*(`. Returns the size bits, and whether the sign is extended.
fn size(scan: &mut Scan<'_>) -> Parsed<(u8, bool)> {
    let (word, span) = scan.word();
    let at = |all: &[&str]| all.iter().position(|known| *known == word);
    let found = at(&TYPES).map(|at| (at, false));
    let Some((at, signed)) = found.or_else(|| at(&SIGNED).map(|at| (at, true))) else {
        let text = "expected u8, u16, u32, u64 or s8, s16, s32";
        return Err(Problem::new(span, text));
    };
    scan.expect("*")?;
    scan.expect(")")?;
    Ok(((at as u8) << 3, signed))
}

/// Parses `(r1 +8)`. Returns the register and the offset.
fn memory(scan: &mut Scan<'_>) -> Parsed<(u8, i16)> {
    scan.expect("(")?;
    let base = register(scan, 'r')?;
    let place = scan.skip_spaces();
    let mut offset = 0;
    if !scan.eat(")") {
        // Spaces may separate the sign from the number.
        let below = scan.eat("-");
        if !below {
            scan.expect("+")?;
        }
        let number = scan.number().map(|n| if below { -n } else { n });
        let number = number.and_then(|number| i16::try_from(number).ok());
        let text = "expected an offset from -32768 to 32767";
        offset = number.ok_or_else(|| Problem::new(Span::new(place, place), text))?;
        scan.expect(")")?;
    }
    Ok((base, offset))
}

fn load(scan: &mut Scan<'_>, dst: u8) -> Parsed<Instruction> {
    let (size, signed) = size(scan)?;
    if scan.eat("skb[") {
        if dst != 0 || signed {
            return scan.wrong("packet bytes can only be loaded into r0, unsigned");
        }
        let (src, mode) = match scan.register() {
            Some((_, src)) => (src, 0x40),
            None => (0, 0x20),
        };
        if mode == 0x40 {
            scan.eat("+");
        }
        let imm = match scan.eat("]") {
            true if mode == 0x40 => 0,
            true => return scan.wrong("expected an offset"),
            false => {
                let imm = constant(scan, false)?;
                scan.expect("]")?;
                imm
            }
        };
        return Ok(insn(mode | size, 0, src, 0, imm).into());
    }
    let (src, offset) = memory(scan)?;
    let mode = if signed { 0x80 } else { 0x60 };
    Ok(insn(1 | mode | size, dst, src, offset, 0).into())
}

fn store(scan: &mut Scan<'_>) -> Parsed<Instruction> {
    let (size, signed) = size(scan)?;
    let (dst, offset) = memory(scan)?;
    if signed {
        return scan.wrong("a store has an unsigned type: u8, u16, u32 or u64");
    }
    scan.expect("=")?;
    if let Some((_, src)) = scan.register() {
        return Ok(insn(3 | 0x60 | size, dst, src, offset, 0).into());
    }
    let imm = constant(scan, size != 0x18)?;
    Ok(insn(2 | 0x60 | size, dst, 0, offset, imm).into())
}

fn atomic(scan: &mut Scan<'_>) -> Parsed<Instruction> {
    let place = scan.skip_spaces();
    let (size, _) = size(scan)?;
    if !matches!(size, 0x00 | 0x18) {
        let text = "atomic operations need u32 or u64";
        return Err(Problem::new(Span::new(place, place), text));
    }
    let (dst, offset) = memory(scan)?;
    let all = [("+=", 0x00), ("|=", 0x40), ("&=", 0x50), ("^=", 0xa0)];
    let Some(imm) = scan.sign(&all) else {
        return scan.wrong("expected `+=`, `|=`, `&=` or `^=`");
    };
    let src = register(scan, 'r')?;
    Ok(insn(3 | 0xc0 | size, dst, src, offset, imm).into())
}

fn call(scan: &mut Scan<'_>) -> Parsed<Instruction> {
    let place = scan.skip_spaces();
    let imm = match scan.number() {
        Some(number) => i32::try_from(number).ok().filter(|number| *number > 0),
        None => {
            let (word, _) = scan.word();
            let name = word.strip_prefix("bpf_").unwrap_or(word);
            // The verifier appends the number to the name.
            if scan.eat("#") {
                scan.number();
            }
            let found = helper(name);
            if found.is_none() {
                let near = helpers().min_by_key(|known| strsim::damerau_levenshtein(known, name));
                let span = Span::new(place, place + word.len());
                let help = format!("did you mean bpf_{}?", near.unwrap_or_default());
                return Err(Problem::new(span, "there is no such function").with_help(help));
            }
            found
        }
    };
    let text = "expected a function name or a number of at least 1";
    let imm = imm.ok_or_else(|| Problem::new(Span::new(place, place), text))?;
    Ok(insn(JUMP | 0x80, 0, 0, 0, imm).into())
}

/// Parses a jump target: `+3`, `pc+3` or a label.
fn goto(scan: &mut Scan<'_>, known: Insn) -> Parsed<Instruction> {
    let place = scan.skip_spaces();
    let before = scan.clone();
    scan.eat("pc");
    if scan.eat("+") || scan.eat("-") {
        *scan = before;
        scan.eat("pc");
        let offset = scan.number().and_then(|number| i16::try_from(number).ok());
        let text = "expected a number of instructions from -32768 to 32767";
        let offset = offset.ok_or_else(|| Problem::new(Span::new(place, place), text))?;
        return Ok(Insn { offset, ..known }.into());
    }
    *scan = before;
    let (name, span) = scan.word();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(Problem::new(span, "expected a label, or +N or -N"));
    }
    let mut read = Instruction::from(known);
    read.label = Some(Spanned::new(name.to_owned(), span));
    Ok(read)
}

fn condition(scan: &mut Scan<'_>) -> Parsed<Instruction> {
    let Some((letter, dst)) = scan.register() else {
        return scan.wrong("expected a register");
    };
    let Some(bits) = scan.sign(&CONDITIONS) else {
        return scan.wrong("expected `==`, `!=`, `<`, `s<`, `&` or another comparison");
    };
    let class = if letter == 'w' { JUMP_32 } else { JUMP };
    let known = operand(scan, letter, insn(class | bits, dst, 0, 0, 0))?;
    scan.expect("goto")?;
    goto(scan, known)
}
