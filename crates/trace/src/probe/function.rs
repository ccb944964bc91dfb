//! The record of a function's entry or return: the registers.

use super::registers::{ARGUMENTS, REGISTERS, RETURNED, SHIFT};
use crate::format::EventFormat;

/// A named value in a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionValue {
    pub name: String,
    /// The C type of the value.
    pub declared: String,
    /// Size in bytes: 1, 2, 4 or 8.
    pub size: u32,
    pub signed: bool,
}

/// The values that are known at a position in a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionValues {
    /// At the entry: the known parameters. Unknown parameters have numbers.
    Parameters(Vec<FunctionValue>),
    /// At the return: the return value. Without a known type, it is an eight-byte number.
    Returned(Option<FunctionValue>),
    /// At an offset in the function: only registers.
    Registers,
}

/// Describes the registers like a format file. Registers with a special name come first.
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
    fn parameters_have_their_registers() {
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
            "argument registers are clobbered by then"
        );
        let format = function_format("kprobe:f+4", &FunctionValues::Registers);
        assert_eq!(format.fields.len(), REGISTERS.len());
    }
}
