//! Checks the possible uses of each field of an event. The binary's tests include this module for
//! all events of the running kernel.

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

/// Compiles a trigger, or returns the reason why it is rejected.
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

/// Builds a trigger that uses every readable field: numbers as values, two strings as keys, and
/// both in the filter.
#[allow(dead_code, reason = "used by the tests of the binary")]
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

/// Checks each field as a key, as a value and in a filter. Returns the numbers of accepted and
/// rejected triggers.
pub(crate) fn check(format: &EventFormat) -> (usize, usize) {
    let mut counts = (0, 0);
    for field in &format.fields {
        let name = &field.name;
        let not_a_number = format!("`{name}` is {}, not a number", field.declared);
        let text = "Expecting numeric field";
        // Expected reasons for a key, a value and a filter, and a filter for this type.
        let (key, value, filter, condition) = match field.kind {
            FieldKind::Number => ("", "", "", format!("{name} > 1 && {name} & 3")),
            FieldKind::Text | FieldKind::DynamicText { .. } | FieldKind::TextPointer => {
                ("", text, "", format!("{name} == \"x\" || {name} ~ \"*x\""))
            }
            FieldKind::CpuMask { .. } => (
                "A set of CPUs cannot be a key",
                text,
                "",
                format!("{name} & CPUS{{0-3}}"),
            ),
            // Tracepoints have no field of this kind.
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
            let actual = compile(format, &trigger).err().unwrap_or_default();
            assert_eq!(actual, reason, "{}: {trigger}", format.name);
            if reason.is_empty() {
                counts.0 += 1;
            } else {
                counts.1 += 1;
            }
        }
    }
    counts
}
