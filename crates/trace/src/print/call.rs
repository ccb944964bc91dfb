//! Parses calls in a print format: the kernel's helpers for trace events, and compiler builtins.

use crate::source::Problem;

use super::parse::Parser;
use super::program::{Cast, Function, Op, Table};
use super::value::{Binary, Kind};

impl Parser<'_> {
    /// Parses the arguments of the named call, after its opening parenthesis. A call of an unknown
    /// function becomes a placeholder.
    pub(super) fn call(&mut self, name: &str) -> Result<(), Problem> {
        match name {
            "__print_flags" | "__print_flags_u64" => self.names(true),
            "__print_symbolic" | "__print_symbolic_u64" => self.names(false),
            "__print_hex" => self.function(Function::Hex { spaced: true }),
            "__print_hex_str" => self.function(Function::Hex { spaced: false }),
            "__print_array" => self.function(Function::Array),
            "__print_dynamic_array" => self.dynamic_array(),
            "__print_hex_dump" => self.function(Function::HexDump),
            "__print_ns_to_secs" => self.function(Function::Seconds),
            "__print_ns_without_secs" => self.function(Function::Nanoseconds),
            "__get_str"
            | "__get_rel_str"
            | "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr"
            | "__get_rel_sockaddr"
            | "__get_buf" => self.dynamic(Op::Dynamic),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                self.dynamic(Op::DynamicLength)
            }
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                self.dynamic(Op::Dynamic)?;
                self.program.push(Op::Call(Function::Bitmask));
                Ok(())
            }
            "__builtin_expect" => self.expectation(),
            "__builtin_constant_p" => {
                self.program.number(0, Kind::I32);
                self.skip_to_close()
            }
            "__builtin_bswap16" | "__fswab16" | "__swab16" => self.function(Function::Swap(2)),
            "__builtin_bswap32" | "__fswab32" | "__swab32" => self.function(Function::Swap(4)),
            "__builtin_bswap64" | "__fswab64" | "__swab64" => self.function(Function::Swap(8)),
            "jiffies_to_msecs" => self.jiffies(name, 1_000),
            "jiffies_to_usecs" => self.jiffies(name, 1_000_000),
            _ => self.unknown_call(name),
        }
    }

    /// Parses the arguments of a function that are all expressions.
    fn function(&mut self, function: Function) -> Result<(), Problem> {
        for argument in 0..function.arity() {
            if argument > 0 {
                self.expect(",")?;
            }
            self.expression()?;
        }
        self.expect(")")?;
        self.program.push(Op::Call(function));
        Ok(())
    }

    fn unknown_call(&mut self, name: &str) -> Result<(), Problem> {
        self.program.unknown(name);
        self.skip_to_close()
    }

    /// Parses `FIELD)`, a plain field name.
    fn dynamic(&mut self, op: fn(usize) -> Op) -> Result<(), Problem> {
        let name = self.expect_word()?;
        match self.program.field(self.event, name) {
            Some(index) => self.program.push(op(index)),
            None => self.program.unknown(name),
        }
        self.expect(")")
    }

    /// Parses `FIELD, ELEMENT_SIZE)`.
    fn dynamic_array(&mut self) -> Result<(), Problem> {
        let name = self.expect_word()?;
        let Some(index) = self.program.field(self.event, name) else {
            return self.unknown_call(name);
        };
        self.expect(",")?;
        let start = self.program.ops.len();
        self.expression()?;
        let size = self.program.take_constant(start);
        let size = size.ok_or_else(|| self.wrong("the size of an element is not a constant"))?;
        self.program.push(Op::Dynamic(index));
        self.program.push(Op::DynamicLength(index));
        self.program.push(Op::Int(size));
        self.program.push(Op::Binary(Binary::Divide));
        self.program.push(Op::Int(size));
        self.program.push(Op::Call(Function::Array));
        self.expect(")")
    }

    /// Parses `VALUE, EXPECTED)` and drops the expected value.
    fn expectation(&mut self) -> Result<(), Problem> {
        self.expression()?;
        self.expect(",")?;
        let len = self.program.ops.len();
        self.expression()?;
        self.program.drop_to(len);
        self.expect(")")
    }

    /// Converts jiffies to `units` per second. This needs a known `HZ` that divides `units`.
    fn jiffies(&mut self, name: &str, units: u64) -> Result<(), Problem> {
        let hz = (self.names)("HZ").and_then(|hz| u64::try_from(hz).ok());
        let factor = hz.filter(|hz| *hz > 0 && units.is_multiple_of(*hz));
        let Some(factor) = factor.map(|hz| units / hz) else {
            return self.unknown_call(name);
        };
        self.expression()?;
        self.program.number(factor, Kind::U64);
        self.program.push(Op::Binary(Binary::Multiply));
        self.program.push(Op::Cast(Cast::Int(Kind::U32)));
        self.expect(")")
    }

    /// Parses `VALUE, "delimiter", {NUMBER, "name"}, ...)`; `__print_symbolic` has no delimiter.
    fn names(&mut self, flags: bool) -> Result<(), Problem> {
        let start = self.program.ops.len();
        self.expression()?;
        let argument = start..self.program.ops.len();
        self.expect(",")?;
        let mut delimiter = None;
        if flags {
            let text = self.text();
            delimiter = Some(text.ok_or_else(|| self.wrong("the delimiter is missing here"))?);
            self.expect(",")?;
        }
        let mut table = Table {
            argument,
            delimiter,
            entries: Vec::new(),
            complete: true,
        };
        self.entries(&mut table)?;
        self.program.tables.push(table);
        let index = self.program.tables.len() - 1;
        self.program.push(Op::Call(Function::Names(index)));
        Ok(())
    }

    /// Parses entries up to the closing parenthesis. As in the kernel, an entry without a name ends
    /// the table.
    fn entries(&mut self, table: &mut Table) -> Result<(), Problem> {
        let mut ended = false;
        loop {
            if self.accept(")") {
                return Ok(());
            }
            self.expect("{")?;
            // `{ }` is an entry without a name.
            if self.accept("}") {
                ended = true;
                continue;
            }
            let len = self.program.ops.len();
            self.expression()?;
            let number = self.program.take_constant(len);
            self.expect(",")?;
            match self.text() {
                Some(name) if !ended => match number {
                    Some(number) => table.entries.push((number.bits, name)),
                    None => table.complete = false,
                },
                Some(_) => {}
                None => {
                    self.expression()?;
                    let null = self.program.take_constant(len);
                    if null.is_none_or(|null| null.bits != 0) {
                        return Err(self.wrong("the preceding name is not a string"));
                    }
                    ended = true;
                }
            }
            self.accept(",");
            self.expect("}")?;
            self.accept(",");
        }
    }
}
