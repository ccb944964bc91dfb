//! Explains why the verifier rejected a program: the problem, the reason, the position and a
//! suggestion.
//!
//! The explanation is derived only from the log's text, so it can be tested without a kernel. Linux
//! 7.3 adds its own explanations, which then take precedence.

mod rules;
#[cfg(test)]
mod tests;

use std::fmt;

use self::rules::{RULES, Rule};

/// The explanation of a rejected program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Kind of the problem.
    pub category: String,
    pub problem: String,
    pub reason: String,
    /// The instruction at which the verifier stopped.
    pub at: Option<At>,
    /// What the user can do; empty if unknown.
    pub suggestion: String,
    /// The verifier's own message.
    pub message: String,
}

/// An instruction and its source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Index of the instruction, from 0.
    pub instruction: u32,
    /// The instruction as the verifier prints it.
    pub text: String,
    /// Source line; `None` if the program has no line information in BTF.
    pub source: Option<Source>,
}

/// A source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Text of the line.
    pub text: String,
    /// File and line number, if the kernel prints them (Linux 6.8).
    pub place: Option<(String, u32)>,
}

/// Explains a rejection by its log, which may be empty, and the system's error number.
pub fn explain(log: &str, errno: i32) -> Explanation {
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    if let Some(native) = kernel_explanation(&lines) {
        return native;
    }
    // The last message is the reason. The message before it may be more precise, because it
    // contains offset and size.
    let messages = lines
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, line)| is_message(line));
    let mut last = None;
    for (index, line) in messages.take(4) {
        last = last.or(Some((index, *line)));
        if let Some((rule, parts)) = RULES
            .iter()
            .find_map(|r| Some((r, match_pattern(r.pattern, line)?)))
        {
            return apply_rule(rule, &parts, line, last_instruction(&lines[..index]));
        }
    }
    match last {
        Some((index, line)) => Explanation {
            category: "verifier".to_owned(),
            problem: line.to_owned(),
            reason: "noctule has no explanation for this message of the verifier".to_owned(),
            at: last_instruction(&lines[..index]),
            suggestion: "the whole log (-v) shows the verifier's state at each step".to_owned(),
            message: line.to_owned(),
        },
        None => explain_errno(errno),
    }
}

fn apply_rule(rule: &Rule, parts: &[&str], line: &str, at: Option<At>) -> Explanation {
    let fill = |text: &str| {
        let mut text = text.to_owned();
        for (number, part) in parts.iter().enumerate() {
            text = text.replace(&format!("{{{number}}}"), part);
        }
        text
    };
    let mut reason = fill(rule.reason);
    if let Some(words) = at.as_ref().and_then(|at| argument(at, parts.first()?)) {
        reason += &format!("; {words}");
    }
    Explanation {
        category: rule.category.to_owned(),
        problem: fill(rule.problem),
        reason,
        at,
        suggestion: rule.suggestion.to_owned(),
        message: line.to_owned(),
    }
}

/// Describes a register at a call as an argument: `R2` is the second argument.
fn argument(at: &At, register: &str) -> Option<String> {
    let number: u32 = register.strip_prefix('R')?.parse().ok()?;
    let called = at.text.split_once("call ")?.1;
    let called = called.split_once('#').map_or(called, |(name, _)| name);
    (1..=5)
        .contains(&number)
        .then(|| format!("this is argument {number} of {called}"))
}

/// Returns the parts of the line that match `{}` in the pattern, or `None` if the line does not
/// match.
fn match_pattern<'a>(pattern: &str, line: &'a str) -> Option<Vec<&'a str>> {
    let mut pieces = pattern.split("{}");
    let mut rest = line.strip_prefix(pieces.next()?)?;
    let mut parts = Vec::new();
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            // The last piece must match the end of the line.
            parts.push(rest.strip_suffix(piece)?);
            return Some(parts);
        }
        let (part, after) = rest.split_once(piece)?;
        parts.push(part);
        rest = after;
    }
    rest.is_empty().then_some(parts)
}

/// Whether a line is a message, and not an instruction, register state, source line, statistic or
/// backtrace.
fn is_message(line: &str) -> bool {
    let statistics = [
        "processed ",
        "verification time ",
        "stack depth ",
        "max_states ",
        "func#",
        "mark_",
    ];
    let states = [
        "from ",
        "last_idx ",
        "regs=",
        "parent ",
        "arg#",
        "Global function ",
        "Func#",
    ];
    let numbered = line.split_once(':').is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    let registers = line.starts_with(" R")
        || line.starts_with('R') && line.contains('=') && !line.contains(' ');
    !(line.trim().is_empty()
        || line.starts_with(';')
        || numbered
        || registers
        || statistics
            .iter()
            .chain(&states)
            .any(|begin| line.starts_with(begin))
        || line.starts_with("caller:")
        || line.starts_with("callee:")
        || line.starts_with("BEGIN PROG")
        || line.contains("frame1:"))
}

/// Finds the last instruction in these lines, and the source line before it.
fn last_instruction(lines: &[&str]) -> Option<At> {
    let (index, mut found) = lines.iter().enumerate().rev().find_map(|(index, line)| {
        let (number, rest) = line.split_once(": (")?;
        let instruction = number.parse().ok()?;
        let (_, text) = rest.split_once(") ")?;
        // The register state follows the instruction.
        let text = text.split(" ; ").next().unwrap_or(text).trim_end();
        let text = text.split("\t;").next().unwrap_or(text).trim_end();
        Some((
            index,
            At {
                instruction,
                text: text.to_owned(),
                source: None,
            },
        ))
    })?;
    found.source = lines[..index].iter().rev().find_map(|line| source(line));
    Some(found)
}

/// Parses `; return *value; @ file.c:14`; the position is optional.
fn source(line: &str) -> Option<Source> {
    let text = line.strip_prefix("; ")?;
    let place = text.rsplit_once(" @ ").and_then(|(_, place)| {
        let (file, number) = place.rsplit_once(':')?;
        Some((file.to_owned(), number.parse().ok()?))
    });
    let text = match &place {
        Some(_) => text.rsplit_once(" @ ").map_or(text, |(text, _)| text),
        None => text,
    };
    Some(Source {
        text: text.trim().to_owned(),
        place,
    })
}

/// Parses the kernel's own explanation (Linux 7.3).
fn kernel_explanation(lines: &[&str]) -> Option<Explanation> {
    let begin = lines
        .iter()
        .position(|line| line.starts_with("Verification failed: "))?;
    let head = lines[begin].strip_prefix("Verification failed: ")?;
    let (category, problem) = head.split_once(": ").unwrap_or(("verifier", head));
    let part = |name: &str| {
        let find = |line: &&str| Some(line.trim().strip_prefix(name)?.trim().to_owned());
        lines[begin..].iter().find_map(find).unwrap_or_default()
    };
    Some(Explanation {
        category: category.to_owned(),
        problem: problem.to_owned(),
        reason: part("Reason:"),
        at: last_instruction(&lines[..begin]),
        suggestion: part("Suggestion:"),
        message: lines[begin].to_owned(),
    })
}

/// Explains an error that the kernel returned before verification.
fn explain_errno(errno: i32) -> Explanation {
    let (problem, reason, suggestion) = match errno {
        1 | 13 => (
            "this process may not load this kind of program",
            "EPERM: a capability is missing, or kernel lockdown forbids such programs",
            "run as root, or with CAP_BPF, CAP_PERFMON and, for network programs, CAP_NET_ADMIN; \
             noctule doctor shows what this kernel allows",
        ),
        7 => (
            "the program has too many instructions",
            "E2BIG: more than a million instructions, or more than 4,096 without CAP_BPF",
            "split it with tail calls",
        ),
        12 => (
            "there is not enough memory",
            "ENOMEM: this includes the cgroup's limit and, before Linux 5.11, RLIMIT_MEMLOCK",
            "raise the limit: ulimit -l unlimited",
        ),
        22 => (
            "this kernel does not support this program type or these options",
            "EINVAL: unknown program type, attach type, flag or instruction field",
            "bpftool feature probe lists the program types of this kernel",
        ),
        524 => (
            "this kernel does not support a feature of the program",
            "ENOTSUPP: usually the architecture has no trampoline for this target",
            "use a kprobe or a tracepoint instead",
        ),
        _ => (
            "the kernel rejected the program",
            "the verifier gave no reason",
            "dmesg may have details",
        ),
    };
    Explanation {
        category: "kernel".to_owned(),
        problem: problem.to_owned(),
        reason: reason.to_owned(),
        at: None,
        suggestion: suggestion.to_owned(),
        message: String::new(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.category, self.problem)?;
        write!(f, "\n  reason: {}", self.reason)?;
        if !self.message.is_empty() && self.message != self.problem {
            write!(f, "\n  verifier: {}", self.message)?;
        }
        if let Some(at) = &self.at {
            if let Some(source) = &at.source {
                match &source.place {
                    Some((file, line)) => write!(f, "\n  at: {file}:{line}: {}", source.text)?,
                    None => write!(f, "\n  at: {}", source.text)?,
                }
                write!(f, "\n      instruction {}: {}", at.instruction, at.text)?;
            } else {
                write!(f, "\n  at: instruction {}: {}", at.instruction, at.text)?;
            }
        }
        if !self.suggestion.is_empty() {
            write!(f, "\n  help: {}", self.suggestion)?;
        }
        Ok(())
    }
}
