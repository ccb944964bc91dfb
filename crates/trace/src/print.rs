//! An event's own text: its `print fmt`, applied to a record.
//!
//! The format is C, as the kernel's preprocessor left it: text with `%` conversions, then expressions
//! on the record's fields. [`Print::parse`] makes a program of it, once; [`Print::render`] runs it on a
//! record. The text is what the kernel's trace file shows behind the event's name, with these
//! exceptions:
//!
//! - `%p` shows the address, as the file does with the option `hash-ptr` off;
//! - memory outside of the record cannot be read: `%s` of a pointer shows the address in hex, unless
//!   [`Symbols::text`] has the text;
//! - names that the format does not resolve ([`Print::unresolved`]) are shown as `?name?`;
//! - fields outside of a truncated record, and divisions by zero, are shown as `?`;
//! - events of the system `syscalls` have their own line ([`syscall`]).
//!
//! Text of a record is not escaped: control characters are left to the caller.

mod build;
mod call;
mod dump;
mod eval;
mod fields;
mod lex;
mod network;
mod operand;
mod parse;
mod pointer;
mod program;
mod syscall;
mod table;
mod template;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod write;

use std::borrow::Cow;
use std::ops::Range;

use crate::format::{EventFormat, Field};
use crate::source::Problem;

pub use fields::{FieldValue, field_value, fields};
pub use pointer::symbol_text;
pub use syscall::syscall;
pub use table::{FieldTable, TableKind};

/// Looks up the constants of the kernel that a format leaves as names: enumerators, and `HZ` for
/// `jiffies_to_msecs()`. BTF has enumerators by name.
pub type Names<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// The symbol around an address of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The function or variable.
    pub name: Cow<'a, str>,
    /// The module that has it; `None` of the kernel itself.
    pub module: Option<Cow<'a, str>>,
    /// Bytes from the symbol's start.
    pub offset: u64,
    /// Bytes of the symbol.
    pub size: u64,
}

/// Looks up addresses of the kernel.
///
/// Without `CONFIG_KALLSYMS_ALL` the kernel itself finds functions only: `%pS` of other addresses is then
/// the address in hex. An implementation that has more symbols prints more than the kernel.
pub trait Symbols {
    /// The symbol that has this address, for `%pS` and its like.
    fn symbol(&self, address: u64) -> Option<Symbol<'_>>;

    /// The text at this address, for `%s` of a pointer. The file `printk_formats` in tracefs has the
    /// texts that events point to.
    fn text(&self, address: u64) -> Option<Cow<'_, str>> {
        let _ = address;
        None
    }
}

/// No address is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn symbol(&self, _: u64) -> Option<Symbol<'_>> {
        None
    }
}

/// A print format as a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Print {
    pieces: Vec<template::Piece>,
    arguments: Vec<Range<usize>>,
    ops: Vec<program::Op>,
    texts: Vec<String>,
    fields: Vec<Field>,
    tables: Vec<program::Table>,
    unresolved: Vec<String>,
    variables: usize,
}

impl Print {
    /// Reads the event's print format.
    ///
    /// # Errors
    ///
    /// The place in `event.print` that is no expression known here, and why. The caller then shows
    /// [`fields`].
    pub fn parse(event: &EventFormat) -> Result<Self, Problem> {
        Self::parse_with(event, &|_| None)
    }

    /// [`Self::parse`] with the values of constants that the format has as names.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`].
    pub fn parse_with(event: &EventFormat, names: Names<'_>) -> Result<Self, Problem> {
        let mut parser = parse::Parser::new(event, names)?;
        let text = parser.text();
        let text = text.ok_or_else(|| parser.wrong("the format does not begin with text"))?;
        let mut arguments = Vec::new();
        while parser.accept(",") {
            let start = parser.program.ops.len();
            parser.expression()?;
            arguments.push(start..parser.program.ops.len());
        }
        if !parser.is_at_end() {
            return Err(parser.wrong("the expression goes on in an unknown way"));
        }
        let program = parser.program;
        Ok(Self {
            pieces: template::pieces(&text),
            arguments,
            ops: program.ops,
            texts: program.texts,
            fields: program.fields,
            tables: program.tables,
            unresolved: program.unresolved,
            variables: program.variables.len(),
        })
    }

    /// Names that the format leaves open: functions, variables, enumerators. If there are any, the text
    /// of a record can have `?name?` in it, and tables can lack names; [`fields`] then shows more.
    pub fn unresolved(&self) -> &[String] {
        &self.unresolved
    }

    /// Appends the text of a record, which begins with its common fields.
    pub fn render(&self, record: &[u8], symbols: &dyn Symbols, out: &mut String) {
        write::record(self, record, symbols, out);
    }

    /// The names that the format has for values of fields.
    pub fn tables(&self) -> Vec<FieldTable> {
        table::of_fields(self)
    }
}
