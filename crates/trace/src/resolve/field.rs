//! Resolves bare words.

use super::Resolver;
use crate::format::{Field, FieldKind};
use crate::identity::Identity;
use crate::program::{Context, FieldRead, Number, Text};
use crate::source::Span;
use crate::tree::{Expr, ExprKind, Modifier, Name};

/// The meaning of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Number(Typed),
    Text(Text),
    /// The owner of the cgroup with this id.
    Owner(Identity, Number),
    /// An IP address in the record.
    Address {
        /// Offset in the record.
        offset: u32,
    },
    /// A set of CPUs in the record.
    CpuMask {
        /// Offset of the word that holds the set's offset and length.
        word: u32,
        /// Whether the set's offset counts from the end of the word.
        relative: bool,
    },
}

/// A number with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) number: Number,
    /// Size in the record, in bytes. Constants in comparisons are truncated to it.
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

/// Returns size and sign of a system call argument that is shorter than its register. The kernel
/// declares eight unsigned bytes, but the upper half holds whatever the caller left there.
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
        // The kernel's enumerations of system calls have no negative values.
        _ if declared.starts_with("enum ") => Some((4, false)),
        _ => None,
    }
}

impl Resolver<'_> {
    /// Resolves a name. As in the kernel, fields of the event come first.
    pub(super) fn name(&mut self, name: &Name, span: Span) -> Option<Meaning> {
        if let Some(event) = &name.event
            && event.event != self.scope.format.name
        {
            let own = &self.scope.format.name;
            let help = format!("only fields of `{own}` can be used here");
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
                self.require_thread(span)?;
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
                let help = "use `keys=stacktrace`, alone or with other keys";
                self.wrong_with(span, "A stack can only be a key", help)
            }
            word => match Identity::named(word).filter(|_| name.event.is_none()) {
                Some(identity) => {
                    self.require_thread(span)?;
                    match self.scope.groups.current() {
                        Ok(id) => Some(Meaning::Owner(identity, id)),
                        Err(words) => self.wrong(span, words),
                    }
                }
                None => self.not_found(name, span),
            },
        }
    }

    /// Resolves a context value, if the probe provides it.
    fn known(&mut self, context: Context, size: u32, signed: bool, span: Span) -> Option<Meaning> {
        if matches!(context, Context::Pid | Context::Tgid) {
            self.require_thread(span)?;
        }
        Some(Meaning::Number(Typed {
            number: Number::Context(context),
            size,
            signed,
        }))
    }

    /// Reports a problem if the current thread is unrelated to the event.
    pub(super) fn require_thread(&mut self, span: Span) -> Option<()> {
        if self.scope.probe.has_thread() {
            return Some(());
        }
        let text = "The current thread is unrelated to this event";
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
                let words = format!("`{}` is {}, not a number", field.name, field.declared);
                return self.wrong(span, words);
            }
        })
    }

    /// Resolves an operand of a comparison that is a single word, with or without a modifier.
    /// Returns `None` for any other expression.
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

    /// Resolves the text that a field points to, regardless of the field's type.
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
