//! What a bare word stands for.

use super::Resolver;
use crate::format::{Field, FieldKind};
use crate::identity::Identity;
use crate::program::{Context, FieldRead, Number, Text};
use crate::source::Span;
use crate::tree::{Expr, ExprKind, Modifier, Name};

/// What a word stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A number.
    Number(Typed),
    /// Text.
    Text(Text),
    /// The owner of a cgroup, of which this is the id.
    Owner(Identity, Number),
    /// An IP address in the record.
    Address {
        /// Bytes from the record's start.
        offset: u32,
    },
    /// A set of CPUs in the record.
    CpuMask {
        /// The word with its offset and length.
        word: u32,
        /// The offset counts from the end of the word.
        relative: bool,
    },
}

/// A number, with what is known of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) number: Number,
    /// Bytes that it has in the record; a constant that it is compared with is cut to as many.
    pub(super) size: u32,
    pub(super) signed: bool,
}

impl Typed {
    pub(super) const fn wide(number: Number, signed: bool) -> Self {
        Self {
            number,
            size: 8,
            signed,
        }
    }
}

/// Size and sign of an argument of a system call that takes less than the register in which it comes. The kernel's
/// description has eight unsigned bytes, of which the upper half is whatever the caller left there.
fn argument_type(field: &Field) -> Option<(u32, bool)> {
    if (field.size, field.signed) != (8, false) {
        return None;
    }
    let declared = field.declared.trim_start_matches("const ");
    match declared {
        "int" | "s32" | "__s32" | "pid_t" | "clockid_t" | "timer_t" | "mqd_t" | "key_t"
        | "key_serial_t" | "rwf_t" => Some((4, true)),
        "unsigned int" | "unsigned" | "uid_t" | "gid_t" | "qid_t" | "u32" | "__u32" => {
            Some((4, false))
        }
        "umode_t" | "u16" | "__u16" => Some((2, false)),
        // The kernel's enumerations of calls have no negative value.
        _ if declared.starts_with("enum ") => Some((4, false)),
        _ => None,
    }
}

impl Resolver<'_> {
    /// What a name stands for: a field of the event first, as in the kernel.
    pub(super) fn name(&mut self, name: &Name, span: Span) -> Option<Meaning> {
        if let Some(event) = &name.event
            && event.event != self.scope.format.name
        {
            let own = &self.scope.format.name;
            let help = format!("only fields of `{own}` are there");
            return self.wrong_with(span, "Couldn't find event", help);
        }
        let fields = self.scope.format.fields.iter();
        if let Some(field) = fields.clone().find(|field| field.name == name.field) {
            return self.field(&field.clone(), span);
        }
        match name.field.as_str() {
            "common_pid" => self.known(Context::Pid, 4, true, span),
            "common_tgid" => self.known(Context::Tgid, 4, true, span),
            "cpu" | "CPU" | "common_cpu" => self.known(Context::Cpu, 4, false, span),
            "latency" if self.has_latency => {
                let latency = Number::Context(Context::Latency);
                Some(Meaning::Number(Typed::wide(latency, false)))
            }
            "common_timestamp" => self.known(Context::Time, 8, false, span),
            "comm" | "COMM" | "common_comm" => {
                self.thread_is_known(span)?;
                Some(Meaning::Text(Text::Comm))
            }
            "common_type" => {
                let id = Number::Constant(self.scope.format.id);
                Some(Meaning::Number(Typed::wide(id, false)))
            }
            "common_flags" | "common_preempt_count" => {
                self.wrong(span, format!("A BPF program cannot read `{}`", name.field))
            }
            "stacktrace" | "common_stacktrace" => {
                let help = "`keys=stacktrace`, alone or among other keys";
                self.wrong_with(span, "A stack is a key only", help)
            }
            word => match Identity::named(word).filter(|_| name.event.is_none()) {
                Some(identity) => {
                    self.thread_is_known(span)?;
                    match self.scope.groups.current() {
                        Ok(id) => Some(Meaning::Owner(identity, id)),
                        Err(words) => self.wrong(span, words),
                    }
                }
                None => self.not_found(name, span),
            },
        }
    }

    /// What is known of every event, where the probe knows it.
    fn known(&mut self, context: Context, size: u32, signed: bool, span: Span) -> Option<Meaning> {
        if matches!(context, Context::Pid | Context::Tgid) {
            self.thread_is_known(span)?;
        }
        Some(Meaning::Number(Typed {
            number: Number::Context(context),
            size,
            signed,
        }))
    }

    /// The thread that runs has to do with the event.
    pub(super) fn thread_is_known(&mut self, span: Span) -> Option<()> {
        if self.scope.probe.has_thread() {
            return Some(());
        }
        let text = "The thread that runs has nothing to do with this event";
        self.wrong(span, text)
    }

    fn field(&mut self, field: &Field, span: Span) -> Option<Meaning> {
        let argument = argument_type(field).filter(|_| self.in_filter);
        let (size, signed) = argument.unwrap_or((field.size, field.signed));
        let read = FieldRead {
            offset: field.offset
                + if cfg!(target_endian = "big") {
                    field.size - size
                } else {
                    0
                },
            size,
            signed,
        };
        Some(match field.kind {
            FieldKind::Number => Meaning::Number(Typed {
                number: Number::Field(read),
                size,
                signed,
            }),
            FieldKind::Text => Meaning::Text(Text::Field {
                offset: field.offset,
                size: field.size,
            }),
            FieldKind::DynamicText { relative } => Meaning::Text(Text::Dynamic {
                word: field.offset,
                relative,
            }),
            FieldKind::TextPointer => Meaning::Text(Text::Pointer {
                field: read,
                user: false,
            }),
            FieldKind::Address => Meaning::Address {
                offset: field.offset,
            },
            FieldKind::CpuMask { relative } => Meaning::CpuMask {
                word: field.offset,
                relative,
            },
            FieldKind::Array { .. } | FieldKind::DynamicArray { .. } | FieldKind::Bytes => {
                let words = format!("`{}` is {}: not a number", field.name, field.declared);
                return self.wrong(span, words);
            }
        })
    }

    /// What an operand of a comparison stands for, if it is one word with or without a modifier;
    /// the outer `None`: it is something else.
    pub(super) fn operand(&mut self, expr: &Expr) -> Option<Option<Meaning>> {
        match &expr.kind {
            ExprKind::Name(name) => Some(self.name(name, expr.span)),
            ExprKind::Modified(inner, modifier) => {
                let ExprKind::Name(name) = &inner.kind else {
                    return None;
                };
                let user = match modifier.node {
                    Modifier::UserString => true,
                    Modifier::KernelString => false,
                    _ => return None,
                };
                Some(self.pointer(name, inner.span, user, modifier.span))
            }
            _ => None,
        }
    }

    /// Text behind the field, whatever its type says of that.
    pub(super) fn pointer(
        &mut self,
        name: &Name,
        span: Span,
        user: bool,
        modifier: Span,
    ) -> Option<Meaning> {
        match self.name(name, span)? {
            Meaning::Text(Text::Pointer { field, .. }) => {
                Some(Meaning::Text(Text::Pointer { field, user }))
            }
            Meaning::Number(Typed {
                number: Number::Field(field),
                ..
            }) if field.size == 8 => Some(Meaning::Text(Text::Pointer { field, user })),
            _ => self.wrong(modifier, "Illegal operation for field type"),
        }
    }
}
