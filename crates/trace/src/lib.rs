//! The trigger language: the kernel's grammar for histogram triggers, event triggers and event
//! filters, compiled to BPF instructions without a compiler on the node.
//!
//! The way of a command: `source` text -> [`parse`] (a tree and a list of problems; it never fails)
//! -> `resolve` (names become fields of the event's [`mod@format`]) -> `lower` -> `emit`. All of these are
//! pure: they read no file and no clock, and need no privilege.

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
