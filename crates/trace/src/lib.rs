//! Compiles the kernel's grammar for histogram triggers, event triggers and event filters to BPF
//! instructions, without a compiler on the node.
//!
//! A command passes through these stages: [`source`] text, [`parse`] (a tree and a list of
//! problems; it never fails), [`resolve`] (names become fields of the event's [`mod@format`]),
//! [`program`] and [`emit`]. These stages are pure: they read no files and no clock, and need no
//! privileges.

pub mod asm;
pub mod buckets;
pub mod classic;
mod display;
pub mod elf;
pub mod emit;
pub mod format;
pub mod glob;
pub mod identity;
mod lex;
mod modifier;
pub mod operator;
pub mod parse;
pub mod print;
pub mod probe;
pub mod program;
pub mod raw;
pub mod resolve;
pub mod session;
pub mod source;
pub mod synthetic;
pub mod table;
pub mod tree;
pub mod value;
pub mod verifier;
pub mod watch;
