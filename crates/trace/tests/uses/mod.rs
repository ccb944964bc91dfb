//! What each field of an event can be used for. The tests of the binary have it too, for all events of
//! the kernel that they run on.

use noctule_trace::emit::emit;
use noctule_trace::format::{EventFormat, FieldKind};
use noctule_trace::identity::Identity;
use noctule_trace::parse;
use noctule_trace::print::Print;
use noctule_trace::probe::Probe;
use noctule_trace::program::{Context, Number};
use noctule_trace::resolve::{self, Fits, Groups, Scope};

struct NoGroups;

impl Groups for NoGroups {
    fn current(&self) -> Result<Number, String> {
        Ok(Number::Context(Context::Cgroup))
    }

    fn fitting(&self, _: Identity, _: Fits) -> Vec<u64> {
        Vec::new()
    }
}

/// Why a trigger is not compiled; `Ok`: it is.
fn compile(format: &EventFormat, trigger: &str) -> Result<(), String> {
    let (tree, problems) = parse::hist(trigger);
    assert_eq!(problems, [], "{}: {trigger}", format.name);
    let tables = Print::parse(format)
        .map(|print| print.tables())
        .unwrap_or_default();
    let scope = Scope {
        probe: Probe::Tracepoint,
        format,
        tables: &tables,
        function: &|_| None,
        groups: &NoGroups,
        cpus: 2,
    };
    let resolved = resolve::hist(&tree, &scope);
    let (program, _) = resolved.map_err(|problems| problems[0].text.clone())?;
    emit(&program).map(drop).map_err(|error| error.to_string())
}

/// One trigger with every field that a program can read: numbers as values, text as keys (two of it,
/// which are long), both in the filter.
#[allow(dead_code, reason = "of the tests of the binary")]
pub(crate) fn trigger(format: &EventFormat) -> String {
    let (mut keys, mut values) = (vec!["common_pid".to_owned()], Vec::new());
    let mut filter = vec!["common_cpu >= 0".to_owned()];
    for field in &format.fields {
        let name = &field.name;
        match field.kind {
            FieldKind::Number => {
                values.push(name.clone());
                filter.push(format!("{name} != 77"));
            }
            FieldKind::Text | FieldKind::DynamicText { .. } | FieldKind::TextPointer => {
                if keys.len() < 3 {
                    keys.push(name.clone());
                }
                filter.push(format!("{name} ~ \"*x\""));
            }
            FieldKind::CpuMask { .. } => filter.push(format!("{name} & CPUS{{0}}")),
            FieldKind::Address
            | FieldKind::Array { .. }
            | FieldKind::DynamicArray { .. }
            | FieldKind::Bytes => {}
        }
    }
    let values = match values.as_slice() {
        [] => String::new(),
        values => format!(":vals={}", values.join(",")),
    };
    format!("keys={}{values} if {}", keys.join(","), filter.join(" || "))
}

/// Checks each field as key, value and in a filter; how many of these are compiled and refused.
pub(crate) fn check(format: &EventFormat) -> (usize, usize) {
    let mut counts = (0, 0);
    for field in &format.fields {
        let name = &field.name;
        let not_a_number = format!("`{name}` is {}: not a number", field.declared);
        let text = "Expecting numeric field";
        // The reason against a key, a value and a filter, and a filter of this type.
        let (key, value, filter, condition) = match field.kind {
            FieldKind::Number => ("", "", "", format!("{name} > 1 && {name} & 3")),
            FieldKind::Text | FieldKind::DynamicText { .. } | FieldKind::TextPointer => {
                ("", text, "", format!("{name} == \"x\" || {name} ~ \"*x\""))
            }
            FieldKind::CpuMask { .. } => (
                "A set of CPUs is no key",
                text,
                "",
                format!("{name} & CPUS{{0-3}}"),
            ),
            // No tracepoint has one.
            FieldKind::Address => panic!("{name}"),
            FieldKind::Array { .. } | FieldKind::DynamicArray { .. } | FieldKind::Bytes => {
                let reason = not_a_number.as_str();
                (reason, reason, reason, format!("{name} == 1"))
            }
        };
        let triggers = [
            (key, format!("keys={name}")),
            (value, format!("keys=common_pid:vals={name}")),
            (filter, format!("keys=common_pid if {condition}")),
        ];
        for (reason, trigger) in triggers {
            let said = compile(format, &trigger).err().unwrap_or_default();
            assert_eq!(said, reason, "{}: {trigger}", format.name);
            if reason.is_empty() {
                counts.0 += 1;
            } else {
                counts.1 += 1;
            }
        }
    }
    counts
}
