//! Renders the text of an event: its `print fmt` applied to a record.
//!
//! The format is preprocessed C: a string with `%` conversions, then expressions on the fields of
//! the record. [`Print::parse`] compiles it once; [`Print::render`] runs the result on a record.
//! The text equals the text in the kernel's trace file after the name of the event, with these
//! exceptions:
//!
//! - `%p` shows the address, as the trace file does with the option `hash-ptr` off.
//! - Memory outside of the record cannot be read: `%s` of a pointer shows the address in hex,
//!   unless [`Symbols::text`] returns the text.
//! - Names that the format does not resolve ([`Print::unresolved`]) are shown as `?name?`.
//! - Fields outside of a truncated record, and divisions by zero, are shown as `?`.
//! - Events of the system `syscalls` have their own format ([`syscall`]).
//!
//! Text of a record is not escaped: the caller must handle control characters.

mod build;
mod call;
mod dump;
mod eval;
mod fields;
mod layout;
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

/// Looks up kernel constants that a format refers to by name: enumerators, whose names BTF
/// contains, and `HZ` for `jiffies_to_msecs()`.
pub type Names<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// The symbol that contains a kernel address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name of the function or variable.
    pub name: Cow<'a, str>,
    /// The module that contains the symbol; `None` for the kernel itself.
    pub module: Option<Cow<'a, str>>,
    /// Distance from the start of the symbol, in bytes.
    pub offset: u64,
    /// Size of the symbol in bytes.
    pub size: u64,
}

/// Resolves kernel addresses.
///
/// Without `CONFIG_KALLSYMS_ALL`, the kernel itself finds only functions, and prints other
/// addresses of `%pS` in hex. An implementation that knows more symbols prints more than the
/// kernel.
pub trait Symbols {
    /// Returns the symbol that contains this address, for `%pS` and similar conversions.
    fn symbol(&self, address: u64) -> Option<Symbol<'_>>;

    /// Returns the text at this address, for `%s` of a pointer. The tracefs file `printk_formats`
    /// lists the strings that events point to.
    fn text(&self, address: u64) -> Option<Cow<'_, str>> {
        let _ = address;
        None
    }
}

/// Resolves no addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn symbol(&self, _: u64) -> Option<Symbol<'_>> {
        None
    }
}

/// A compiled print format.
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
    /// Compiles the event's print format.
    ///
    /// # Errors
    ///
    /// Returns the position in `event.print` of an unsupported expression, with the reason. The
    /// caller then shows [`fields`] instead.
    pub fn parse(event: &EventFormat) -> Result<Self, Problem> {
        Self::parse_with(event, &|_| None)
    }

    /// Like [`Self::parse`], with a lookup for named constants.
    ///
    /// # Errors
    ///
    /// See [`Self::parse`].
    pub fn parse_with(event: &EventFormat, names: Names<'_>) -> Result<Self, Problem> {
        let mut parser = parse::Parser::new(event, names)?;
        let text = parser.text();
        let text = text.ok_or_else(|| parser.wrong("the format does not start with a string"))?;
        let mut arguments = Vec::new();
        while parser.accept(",") {
            let start = parser.program.ops.len();
            parser.expression()?;
            arguments.push(start..parser.program.ops.len());
        }
        if !parser.is_at_end() {
            return Err(parser.wrong("unexpected text after the expression"));
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

    /// Returns the names that the format does not resolve: functions, variables, enumerators. If
    /// there are any, rendered text can contain `?name?`, and tables can lack names. For such a
    /// format [`fields`] shows more.
    pub fn unresolved(&self) -> &[String] {
        &self.unresolved
    }

    /// Appends the text of a record, which starts with its common fields.
    pub fn render(&self, record: &[u8], symbols: &dyn Symbols, out: &mut String) {
        write::record(self, record, symbols, out);
    }

    /// Returns the names that the format assigns to values of fields.
    pub fn tables(&self) -> Vec<FieldTable> {
        table::field_tables(self)
    }
}
