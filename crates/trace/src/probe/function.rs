//! Functions of the kernel and of programs: the registers at their entry or return.

use super::registers::{ARGUMENTS, REGISTERS, RETURNED, SHIFT};
use crate::format::EventFormat;

/// A named value in a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionValue {
    /// Its name.
    pub name: String,
    /// Its type, as C has it.
    pub declared: String,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u32,
    /// Numbers below zero are possible.
    pub signed: bool,
}

/// What is known of a function where a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionValues {
    /// At its entry: its parameters as far as they are known; the others have numbers.
    Parameters(Vec<FunctionValue>),
    /// At its return: what it returns, which is a number of eight bytes if it is not known.
    Returned(Option<FunctionValue>),
    /// Somewhere in it: registers alone.
    Registers,
}

/// The registers as a format file would describe them, those first that have names of their own.
pub fn function_format(name: &str, values: &FunctionValues) -> EventFormat {
    let mut text = format!("name: {name}\nID: 0\nformat:\n");
    let mut add = |name: &str, declared: &str, at: u32, size: u32, signed: bool| {
        let (offset, signed) = (at + SHIFT, u8::from(signed));
        text += &format!(
            "\tfield:{declared} {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
        );
    };
    match values {
        FunctionValues::Parameters(known) => {
            for (one, at) in known.iter().zip(ARGUMENTS) {
                add(&one.name, &one.declared, at, one.size, one.signed);
            }
            for (number, at) in (1..).zip(ARGUMENTS) {
                add(&format!("arg{number}"), "u64", at, 8, false);
                add(&format!("arg{number}_int"), "int", at, 4, true);
            }
        }
        FunctionValues::Returned(Some(one)) => {
            add("retval", &one.declared, RETURNED, one.size, one.signed);
        }
        FunctionValues::Returned(None) => add("retval", "long", RETURNED, 8, true),
        FunctionValues::Registers => {}
    }
    if matches!(values, FunctionValues::Returned(_)) {
        add("retval_int", "int", RETURNED, 4, true);
    }
    for (name, at) in REGISTERS {
        add(&format!("reg_{name}"), "u64", *at, 8, false);
    }
    EventFormat::parse(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::FieldKind;

    #[test]
    fn parameters_lie_in_their_registers() {
        let value = |name: &str, declared: &str, size, signed| FunctionValue {
            name: name.to_owned(),
            declared: declared.to_owned(),
            size,
            signed,
        };
        let known = vec![
            value("dfd", "int", 4, true),
            value("filename", "const char *", 8, false),
        ];
        let format = function_format("kprobe:f", &FunctionValues::Parameters(known));
        let at = |name: &str| format.field(name).map(|field| (field.offset, field.kind));
        assert_eq!(at("dfd"), Some((ARGUMENTS[0] + SHIFT, FieldKind::Number)));
        assert_eq!(
            at("filename"),
            Some((ARGUMENTS[1] + SHIFT, FieldKind::TextPointer))
        );
        assert_eq!(at("arg1"), at("dfd"));
        assert!(format.field("dfd").is_some_and(|field| field.signed));
        assert!(at("arg6").is_some() && at("arg7").is_none() && at("retval").is_none());
        let format = function_format("kretprobe:f", &FunctionValues::Returned(None));
        assert!(
            format
                .field("retval")
                .is_some_and(|field| field.signed && field.size == 8)
        );
        assert_eq!(
            format.field("arg1"),
            None,
            "the registers are used for other things by then"
        );
        let format = function_format("kprobe:f+4", &FunctionValues::Registers);
        assert_eq!(format.fields.len(), REGISTERS.len());
    }
}
