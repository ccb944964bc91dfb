//! Why the verifier refuses a program, in words: the problem, the reason, the place and what to do.
//!
//! From the text of its log alone, so that it is tested without a kernel. Linux 7.3 begins to say it
//! itself; then its own words are shown.

mod rules;
#[cfg(test)]
mod tests;

use std::fmt;

use self::rules::{RULES, Rule};

/// What is known of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The kind of problem.
    pub category: String,
    /// What is wrong.
    pub problem: String,
    /// Why it is.
    pub reason: String,
    /// The instruction at which the verifier stopped.
    pub at: Option<At>,
    /// What can be done; empty: nothing is known.
    pub suggestion: String,
    /// The verifier's own line.
    pub message: String,
}

/// An instruction, and the line of source that it was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Its number, from 0.
    pub instruction: u32,
    /// Its text, as the verifier prints it.
    pub text: String,
    /// The line of source; `None`: the program has no BTF with lines.
    pub source: Option<Source>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The line itself.
    pub text: String,
    /// File and number, where the kernel says them (Linux 6.8).
    pub place: Option<(String, u32)>,
}

/// Explains a refusal by its log and the number of the system's error. The log may be empty.
pub fn explain(log: &str, errno: i32) -> Explanation {
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    if let Some(native) = native(&lines) {
        return native;
    }
    // The last message is the reason, the one before it may be more exact (offset and size).
    let said = lines
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, line)| is_message(line));
    let mut last = None;
    for (index, line) in said.take(4) {
        last = last.or(Some((index, *line)));
        if let Some((rule, parts)) = RULES.iter().find_map(|r| Some((r, fit(r.pattern, line)?))) {
            return by_rule(rule, &parts, line, at(&lines[..index]));
        }
    }
    match last {
        Some((index, line)) => Explanation {
            category: "verifier".to_owned(),
            problem: line.to_owned(),
            reason: "the verifier's own words; there is no explanation of them here".to_owned(),
            at: at(&lines[..index]),
            suggestion: "the whole log (-v) shows what the verifier knew at each step".to_owned(),
            message: line.to_owned(),
        },
        None => without_log(errno),
    }
}

fn by_rule(rule: &Rule, parts: &[&str], line: &str, at: Option<At>) -> Explanation {
    let fill = |text: &str| {
        let mut text = text.to_owned();
        for (number, part) in parts.iter().enumerate() {
            text = text.replace(&format!("{{{number}}}"), part);
        }
        text
    };
    let mut reason = fill(rule.reason);
    if let Some(words) = at.as_ref().and_then(|at| argument(at, parts.first()?)) {
        reason += &format!("; it is {words}");
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

/// `R2` at a call is the second argument.
fn argument(at: &At, register: &str) -> Option<String> {
    let number: u32 = register.strip_prefix('R')?.parse().ok()?;
    let called = at.text.split_once("call ")?.1;
    let called = called.split_once('#').map_or(called, |(name, _)| name);
    (1..=5)
        .contains(&number)
        .then(|| format!("argument {number} of {called}"))
}

/// The parts of a line for which `{}` stands; `None`: it does not fit.
fn fit<'a>(pattern: &str, line: &'a str) -> Option<Vec<&'a str>> {
    let mut pieces = pattern.split("{}");
    let mut rest = line.strip_prefix(pieces.next()?)?;
    let mut parts = Vec::new();
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            // The last piece stands at the end.
            parts.push(rest.strip_suffix(piece)?);
            return Some(parts);
        }
        let (part, after) = rest.split_once(piece)?;
        parts.push(part);
        rest = after;
    }
    rest.is_empty().then_some(parts)
}

/// Whether a line is neither an instruction, a state, source, a figure nor the way there.
fn is_message(line: &str) -> bool {
    let figures = [
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
        || figures
            .iter()
            .chain(&states)
            .any(|begin| line.starts_with(begin))
        || line.starts_with("caller:")
        || line.starts_with("callee:")
        || line.starts_with("BEGIN PROG")
        || line.contains("frame1:"))
}

/// The last instruction of these lines, with the source that stands before it.
fn at(lines: &[&str]) -> Option<At> {
    let (index, mut found) = lines.iter().enumerate().rev().find_map(|(index, line)| {
        let (number, rest) = line.split_once(": (")?;
        let instruction = number.parse().ok()?;
        let (_, text) = rest.split_once(") ")?;
        // Behind the instruction stands what the verifier knows of the registers.
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

/// `; return *value; @ file.c:14`, or without the place.
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

/// The kernel's own explanation (Linux 7.3).
fn native(lines: &[&str]) -> Option<Explanation> {
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
        at: at(&lines[..begin]),
        suggestion: part("Suggestion:"),
        message: lines[begin].to_owned(),
    })
}

/// The kernel refused it before the verifier looked at it.
fn without_log(errno: i32) -> Explanation {
    let (problem, reason, suggestion) = match errno {
        1 | 13 => (
            "this process may not load this kind of program",
            "EPERM: a right is missing, or the kernel is locked down and has no such programs",
            "run as root, or with CAP_BPF, CAP_PERFMON and, for network programs, CAP_NET_ADMIN; \
             noctule doctor says what this kernel allows",
        ),
        7 => (
            "the program has too many instructions",
            "E2BIG: more than a million, or than 4,096 without CAP_BPF",
            "split it by tail calls",
        ),
        12 => (
            "there is not enough memory",
            "ENOMEM: also the limit of the cgroup and, before Linux 5.11, RLIMIT_MEMLOCK",
            "raise the limit: ulimit -l unlimited",
        ),
        22 => (
            "this kernel does not have this kind of program, or not with these options",
            "EINVAL: program type, attach type, flags or an instruction field that it does not know",
            "bpftool feature probe lists the kinds that this kernel has",
        ),
        524 => (
            "this kernel does not support what the program asks for",
            "ENOTSUPP: mostly a target without a trampoline on this architecture",
            "use a kprobe or a tracepoint instead",
        ),
        _ => (
            "the kernel refused the program",
            "without a word from the verifier",
            "dmesg may say more",
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
