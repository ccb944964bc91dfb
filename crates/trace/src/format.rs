//! Parses the `format` file of an event in tracefs: the layout of its record.
//!
//! Offset, size and signedness always come from this file and never from C types, because the C
//! type can be misleading. For example, a `pid_t` in the event of a system call has eight bytes.

/// The layout of an event's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFormat {
    /// Name of the event, without its system.
    pub name: String,
    /// Id of the event, with which perf opens the event.
    pub id: u64,
    /// `common_type` and the other fields of every event. BPF programs at a tracepoint cannot read
    /// these.
    pub common: Vec<Field>,
    pub fields: Vec<Field>,
    /// The unparsed text after `print fmt:`.
    pub print: String,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// The type as the kernel writes it, including the length of an array: `char[16]`, `const char
    /// *`.
    pub declared: String,
    /// Offset in the record, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    pub signed: bool,
    pub kind: FieldKind,
}

/// The kind of a field, which determines how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// A number of one, two, four or eight bytes: an integer, an enumeration, or a pointer to
    /// anything but text.
    Number,
    /// Text in the record itself, up to its first NUL: `char comm[16]`.
    Text,
    /// Text in the record that is located by a word. The low half of the word is the offset, and
    /// the high half is the length including the NUL.
    DynamicText {
        /// Whether the offset counts from the end of the word (`__rel_loc`).
        relative: bool,
    },
    /// A pointer to text, in the kernel or in user space: `const char * filename`.
    TextPointer,
    /// A set of CPUs, located like dynamic text.
    CpuMask {
        /// See [`Self::DynamicText`].
        relative: bool,
    },
    /// Consecutive numbers in the record.
    Array {
        /// Size of one number in bytes.
        element: u32,
    },
    /// Consecutive numbers, located like dynamic text.
    DynamicArray {
        /// Size of one number in bytes.
        element: u32,
        /// See [`Self::DynamicText`].
        relative: bool,
    },
    /// An IP address of either version, in 16 bytes. Occurs only in records that noctule builds.
    Address,
    /// A structure or another type whose fields are unknown.
    Bytes,
}

/// An error: a line of a format file cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the event's format: {problem}")]
pub struct FormatError {
    /// Line number, from 1.
    pub line: usize,
    pub problem: &'static str,
}

impl EventFormat {
    /// Parses the `format` file of an event of this system, and keeps only the fields that programs
    /// can read.
    ///
    /// Programs at a system call can read only its number and its arguments
    /// (`perf_call_bpf_enter`). Later kernels also list copies of text (`__data_loc char[]
    /// __filename_val`), which programs cannot read.
    ///
    /// # Errors
    ///
    /// See [`Self::parse`].
    pub fn parse_of(system: &str, text: &str) -> Result<Self, FormatError> {
        let mut event = Self::parse(text)?;
        if system == "syscalls" {
            event.fields.retain(|field| field.is_dynamic().is_none());
        }
        Ok(event)
    }

    /// Parses a `format` file. Skips unknown lines, which later kernels may add.
    ///
    /// # Errors
    ///
    /// Returns an error if the event has no name or id, or if a field has no name or invalid
    /// numbers.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut event = Self::default();
        let mut id = None;
        // The print format comes last and may contain line breaks.
        let (text, print) = text.split_once("\nprint fmt:").unwrap_or((text, ""));
        print.trim().clone_into(&mut event.print);
        let lines = (1..).zip(text.lines());
        for (line, words) in lines {
            let wrong = |problem| FormatError { line, problem };
            if let Some(name) = words.strip_prefix("name:") {
                name.trim().clone_into(&mut event.name);
            } else if let Some(number) = words.strip_prefix("ID:") {
                let number = number.trim().parse();
                id = Some(number.map_err(|_| wrong("the id of the event is not a number"))?);
            } else if let Some(field) = words.trim_start().strip_prefix("field:") {
                let field = Field::parse(field).map_err(wrong)?;
                if field.name.starts_with("common_") && event.fields.is_empty() {
                    event.common.push(field);
                } else {
                    event.fields.push(field);
                }
            }
        }
        let none = |problem| FormatError { line: 1, problem };
        event.id = id.ok_or_else(|| none("the event has no id"))?;
        if event.name.is_empty() {
            return Err(none("the event has no name"));
        }
        Ok(event)
    }

    /// Returns the field with this name, including common fields.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let mut all = self.fields.iter().chain(&self.common);
        all.find(|field| field.name == name)
    }
}

impl Field {
    /// Parses `char prev_comm[16];  offset:8;  size:16;  signed:0;`.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut parts = text.split(';').map(str::trim);
        let declaration = parts.next().unwrap_or_default();
        let (mut offset, mut size, mut signed) = (None, None, None);
        for part in parts {
            let Some((key, value)) = part.split_once(':') else {
                continue;
            };
            let number = || {
                value
                    .parse()
                    .map_err(|_| "the offset or size of the field is not a number")
            };
            match key {
                "offset" => offset = Some(number()?),
                "size" => size = Some(number()?),
                "signed" => signed = Some(value != "0"),
                _ => {}
            }
        }
        let (declared, name) = split_declaration(declaration).ok_or("the field has no name")?;
        let size = size.ok_or("the field has no size")?;
        let mut field = Self {
            kind: FieldKind::Bytes,
            declared,
            name,
            offset: offset.ok_or("the field has no offset")?,
            size,
            signed: signed.unwrap_or(false),
        };
        field.kind = field.kind();
        Ok(field)
    }

    /// Returns `Some` if the record holds only a word with the location of the field. The value is
    /// true if the offset counts from the end of that word (`__rel_loc` instead of `__data_loc`).
    /// For some types, only the declaration shows this.
    pub fn is_dynamic(&self) -> Option<bool> {
        match self.kind {
            FieldKind::DynamicText { relative }
            | FieldKind::CpuMask { relative }
            | FieldKind::DynamicArray { relative, .. } => Some(relative),
            _ if self.declared.starts_with("__data_loc ") => Some(false),
            _ if self.declared.starts_with("__rel_loc ") => Some(true),
            _ => None,
        }
    }

    /// Applies the kernel's rule: an array or pointer whose type contains `char` is text.
    fn kind(&self) -> FieldKind {
        let declared = self.declared.as_str();
        if declared == crate::probe::IP_ADDRESS && self.size == 16 {
            return FieldKind::Address;
        }
        let of_text = declared.contains("char");
        for (word, relative) in [("__data_loc ", false), ("__rel_loc ", true)] {
            if let Some(rest) = declared.strip_prefix(word) {
                return match element_size(rest) {
                    _ if of_text => FieldKind::DynamicText { relative },
                    _ if rest.contains("cpumask_t") => FieldKind::CpuMask { relative },
                    Some(element) => FieldKind::DynamicArray { element, relative },
                    None => FieldKind::Bytes,
                };
            }
        }
        if let Some((element, length)) = declared.split_once('[') {
            if of_text {
                return FieldKind::Text;
            }
            let length = length.trim_end_matches(']').parse::<u32>();
            let element = match length {
                // A symbolic length (`[IFNAMSIZ]`): the size follows from the element's type.
                Ok(0) | Err(_) => element_size(element),
                Ok(length) => Some(self.size / length),
            };
            return match element {
                Some(element @ (1 | 2 | 4 | 8)) => FieldKind::Array { element },
                _ => FieldKind::Bytes,
            };
        }
        if of_text && declared.ends_with('*') {
            return FieldKind::TextPointer;
        }
        let is_struct = declared.starts_with("struct ") && !declared.ends_with('*');
        match self.size {
            1 | 2 | 4 | 8 if !is_struct => FieldKind::Number,
            _ => FieldKind::Bytes,
        }
    }
}

/// Splits a declaration into type and name. The length of an array follows the name or, with
/// `__data_loc`, is part of the type.
fn split_declaration(text: &str) -> Option<(String, String)> {
    let (words, length) = match text.find('[') {
        Some(at) if text.ends_with(']') => text.split_at(at),
        _ => (text, ""),
    };
    let words = words.trim_end();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = words.trim_end_matches(is_name).len();
    let (kind, name) = words.split_at(name);
    let kind = kind.trim();
    if kind.is_empty() || name.is_empty() {
        return None;
    }
    Some((format!("{kind}{length}"), name.to_owned()))
}

/// Returns the size of a kernel type in bytes, or `None` for an unknown type.
fn element_size(declared: &str) -> Option<u32> {
    let name = declared.split('[').next().unwrap_or_default();
    let mut words = name.split_whitespace().filter(|word| *word != "const");
    let (first, second) = (words.next()?, words.next());
    match (first, second) {
        _ if name.contains('*') => Some(8),
        ("unsigned" | "signed", Some(kind)) => element_size(kind),
        ("u8" | "s8" | "__u8" | "__s8" | "char" | "bool" | "uint8_t" | "int8_t", _) => Some(1),
        ("u16" | "s16" | "__u16" | "__s16" | "__be16" | "__le16" | "short" | "uint16_t", _) => {
            Some(2)
        }
        ("u32" | "s32" | "__u32" | "__s32" | "__be32" | "__le32" | "int" | "uint32_t", _) => {
            Some(4)
        }
        ("unsigned", None) | ("enum", Some(_)) => Some(4),
        ("u64" | "s64" | "__u64" | "__s64" | "__be64" | "__le64" | "long" | "uint64_t", _) => {
            Some(8)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\n\
print fmt: \"prev_comm=%s\", REC->prev_comm\n";

    #[test]
    fn parses_a_format() {
        let event = EventFormat::parse(SWITCH).unwrap();
        assert_eq!((event.name.as_str(), event.id), ("sched_switch", 372));
        assert_eq!(event.common.len(), 2);
        let comm = event.field("prev_comm").unwrap();
        assert_eq!((comm.offset, comm.size), (8, 16));
        assert_eq!(
            (comm.declared.as_str(), comm.kind),
            ("char[16]", FieldKind::Text)
        );
        let state = event.field("prev_state").unwrap();
        assert!(state.signed && state.kind == FieldKind::Number);
        assert!(event.field("common_pid").unwrap().signed);
        assert_eq!(event.print, "\"prev_comm=%s\", REC->prev_comm");
    }

    #[test]
    fn a_print_format_extends_to_the_end() {
        let event = EventFormat::parse("name: a\nID: 1\nprint fmt: \"a\nb\", REC->a\n").unwrap();
        assert_eq!(event.print, "\"a\nb\", REC->a");
    }

    #[test]
    fn system_call_formats_keep_only_arguments() {
        let text = "name: sys_enter_chdir\nID: 1\n\
                    \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
                    \tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;\n\
                    \tfield:__data_loc char[] __filename_val;\toffset:24;\tsize:4;\tsigned:0;\n\
                    \tfield:__rel_loc odd_t[] odd;\toffset:28;\tsize:4;\tsigned:0;\n";
        let names = |system| {
            let event = EventFormat::parse_of(system, text).unwrap();
            let names = event.fields.into_iter().map(|field| field.name);
            names.collect::<Vec<_>>()
        };
        assert_eq!(names("syscalls"), ["__syscall_nr", "filename"]);
        assert_eq!(names("other").len(), 4);
    }

    #[test]
    fn field_kinds_follow_the_kernels_rules() {
        use FieldKind::*;
        let cases = [
            (
                "__data_loc char[] name",
                4,
                "__data_loc char[]",
                DynamicText { relative: false },
            ),
            (
                "__rel_loc char[] name",
                4,
                "__rel_loc char[]",
                DynamicText { relative: true },
            ),
            (
                "__data_loc cpumask_t mask",
                4,
                "__data_loc cpumask_t",
                CpuMask { relative: false },
            ),
            (
                "__data_loc u64[] v",
                4,
                "__data_loc u64[]",
                DynamicArray {
                    element: 8,
                    relative: false,
                },
            ),
            (
                "__data_loc unsigned int[] v",
                4,
                "__data_loc unsigned int[]",
                DynamicArray {
                    element: 4,
                    relative: false,
                },
            ),
            ("const char * filename", 8, "const char *", TextPointer),
            ("const void *ptr", 8, "const void *", Number),
            ("struct mm_struct * mm", 8, "struct mm_struct *", Number),
            ("enum xfs_group_type type", 4, "enum xfs_group_type", Number),
            ("__u8 saddr[4]", 4, "__u8[4]", Array { element: 1 }),
            (
                "unsigned long args[6]",
                48,
                "unsigned long[6]",
                Array { element: 8 },
            ),
            ("struct in6_addr a", 16, "struct in6_addr", Bytes),
            ("struct pair a", 8, "struct pair", Bytes),
            ("bool x", 1, "bool", Number),
            (
                "u8 name[IFNAMSIZ]",
                16,
                "u8[IFNAMSIZ]",
                Array { element: 1 },
            ),
            ("odd three", 3, "odd", Bytes),
        ];
        for (text, size, declared, kind) in cases {
            let line = format!("{text};\toffset:8;\tsize:{size};\tsigned:0;");
            let field = Field::parse(&line).unwrap();
            assert_eq!(
                (field.declared.as_str(), field.kind),
                (declared, kind),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_formats_are_rejected_with_a_reason() {
        let cases = [
            ("", 1, "the event has no id"),
            ("ID: 1\n", 1, "the event has no name"),
            ("name: a\nID: x\n", 2, "the id of the event is not a number"),
            (
                "name: a\nID: 1\n\tfield:;\toffset:1;\tsize:1;",
                3,
                "the field has no name",
            ),
            (
                "ID: 1\n\tfield:int a;\toffset:1;",
                2,
                "the field has no size",
            ),
            (
                "ID: 1\n\tfield:int a;\tsize:1;",
                2,
                "the field has no offset",
            ),
            (
                "ID: 1\n\tfield:int a;\toffset:-1;\tsize:1;",
                2,
                "the offset or size of the field is not a number",
            ),
        ];
        for (text, line, problem) in cases {
            let error = EventFormat::parse(text).unwrap_err();
            assert_eq!(error, FormatError { line, problem }, "{text:?}");
        }
    }
}
