//! Tests the kernel's rules with a format that has every kind of field.

mod linked;

use super::*;
use crate::format::EventFormat;
use crate::parse;
use crate::print::Print;
use crate::program::{ConditionKind, Operator};

const FORMAT: &str = "name: probe\nID: 7\nformat:\n\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
\tfield:char comm_now[16];\toffset:8;\tsize:16;\tsigned:0;\n\
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
\tfield:u32 bits;\toffset:28;\tsize:4;\tsigned:0;\n\
\tfield:unsigned long site;\toffset:32;\tsize:8;\tsigned:0;\n\
\tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;\n\
\tfield:__data_loc cpumask_t mask;\toffset:44;\tsize:4;\tsigned:0;\n\
\tfield:const char * path;\toffset:48;\tsize:8;\tsigned:0;\n\
\tfield:u8 mac[6];\toffset:56;\tsize:6;\tsigned:0;\n\
\tfield:int dfd;\toffset:64;\tsize:8;\tsigned:0;\n\n\
print fmt: \"%s\", __print_flags(REC->bits, \"|\", {1, \"A\"}, {2, \"B\"})\n";

/// A node with two containers. One of them has two cgroups.
struct Node;

impl Groups for Node {
    fn current(&self) -> Result<Number, String> {
        Ok(Number::Context(crate::program::Context::Cgroup))
    }

    fn fitting(&self, identity: Identity, fits: Fits) -> Vec<u64> {
        let all = [("web", 1), ("web", 2), ("db", 3)];
        let fitting = all
            .into_iter()
            .filter(|(name, _)| identity == Identity::Container && fits.fits(name));
        fitting.map(|(_, id)| id).collect()
    }
}

fn with_scope<T>(what: impl FnOnce(&Scope<'_>) -> T) -> T {
    with_format(FORMAT, what)
}

fn with_format<T>(format: &str, what: impl FnOnce(&Scope<'_>) -> T) -> T {
    let format = EventFormat::parse(format).unwrap();
    let tables = Print::parse(&format).unwrap().tables();
    let function = |wanted: Function<'_>| match wanted {
        Function::Named("schedule") | Function::At(0x1000..0x1040) => Some((0x1000, 0x40)),
        _ => None,
    };
    what(&Scope {
        probe: Probe::Tracepoint,
        format: &format,
        tables: &tables,
        function: &function,
        groups: &Node,
        cpus: 2,
    })
}

fn filter_of(text: &str) -> Result<Condition, Vec<Problem>> {
    let (expr, problems) = parse::filter(text);
    assert_eq!(problems, [], "{text}");
    with_scope(|scope| filter(&expr, scope))
}

/// Returns text and position of the first problem.
fn problem(text: &str) -> (String, usize) {
    let problems = filter_of(text).unwrap_err();
    (problems[0].text.clone(), problems[0].span.start)
}

#[test]
fn accepts_filters_of_the_kernel() {
    let accepted = [
        "comm_now ~ \"b[a-c]sh?\"",
        "!(pid > 3)",
        "bits & 3",
        "CPU & CPUS{0-1}",
        "CPU & CPUS{all}",
        "CPU & CPUS{0 1}",
        "mask & CPUS{0-N:1/2,7}",
        "mask & CPUS{0-1,70}",
        "mask == CPUS{3}",
        "site.function == schedule",
        "site.function != 0x1001",
        "path.ustring ~ \"*passwd*\"",
        "comm_now == 'bash' && pid != 3 || common_pid == 1",
        "comm == \"x\"",
        "name != \"x\"",
        "pid == bits",
        "pid + 1 == 3",
        "(pid ^ bits) % 3 == 1",
        "pid in {1, 2, 3}",
        "name in {\"a\", \"b\"}",
        "common_tgid == 1 && common_cpu == 0",
    ];
    for text in accepted {
        assert!(filter_of(text).is_ok(), "{text}: {:?}", filter_of(text));
    }
}

#[test]
fn rejects_filters_with_the_kernels_texts() {
    let rejected = [
        ("pdi == 1", "Field not found", 0),
        ("comm == bash", "Invalid value (did you forget quotes)?", 8),
        ("pid == bash", "Invalid value (did you forget quotes)?", 7),
        ("pid == \"x\"", "Expecting numeric field", 7),
        ("comm_now == 3", "Expecting string field", 12),
        ("comm_now > \"x\"", "Illegal operation for field type", 9),
        ("site.function > schedule", "Invalid operator", 14),
        ("site.function == none", "Function not found", 17),
        ("site.function == 0x1040", "Function not found", 17),
        ("site.function == -1", "Function not found", 17),
        ("stacktrace == 1", "A stack can only be a key", 0),
        (
            "bits.function == schedule",
            "Illegal operation for field type",
            0,
        ),
        (
            "pid.ustring == \"x\"",
            "Illegal operation for field type",
            4,
        ),
        ("CPU & CPUS{3-1}", "Invalid cpulist", 6),
        ("CPU & CPUS{0-7:3/2}", "Invalid cpulist", 6),
        ("pid / 0 == 1", "Division by zero", 6),
        ("comm == \"systemd-journald\"", "Operand too long", 8),
        ("comm_now != \"systemd-journald\"", "Operand too long", 12),
        (
            "common_flags == 1",
            "A BPF program cannot read `common_flags`",
            0,
        ),
        ("mac == 1", "`mac` is u8[6], not a number", 0),
        ("pid == 1 && pdi == 2", "Field not found", 12),
    ];
    for (text, words, at) in rejected {
        assert_eq!(problem(text), (words.to_owned(), at), "{text}");
    }
    let near = filter_of("pdi == 1").unwrap_err();
    assert_eq!(near[0].help.as_deref(), Some("did you mean `pid`?"));
}

#[test]
fn an_address_means_its_function() {
    let kind = |text: &str| filter_of(text).unwrap().kind;
    let named = kind("site.function == schedule");
    assert_eq!(kind("site.function == 0x1000"), named);
    assert_eq!(kind("site.function == 4159"), named);
    assert_eq!(
        kind("site.function in {0x001001}"),
        kind("site.function in {schedule}")
    );
}

#[test]
fn constants_are_truncated_to_the_field() {
    let constant = |text: &str| match filter_of(text).unwrap().kind {
        ConditionKind::Compare { right, signed, .. } => (right, signed),
        other => panic!("{other:?}"),
    };
    let all = Number::Constant(u64::MAX);
    assert_eq!(constant("pid == 4294967295"), (all.clone(), true));
    assert_eq!(constant("pid == -1"), (all.clone(), true));
    assert_eq!(
        constant("bits == -1"),
        (Number::Constant(0xffff_ffff), false)
    );
    assert_eq!(constant("site == -1"), (all, false));
}

/// The format declares the argument as eight unsigned bytes, the size of the register. The system
/// call takes four signed bytes.
#[test]
fn compares_system_call_arguments_with_their_real_type() {
    let filter = filter_of("dfd == -100").unwrap();
    let ConditionKind::Compare {
        left: Number::Field(field),
        right,
        signed,
        ..
    } = filter.kind
    else {
        panic!("{filter:?}");
    };
    assert_eq!((field.size, field.signed, signed), (4, true, true));
    assert_eq!(right, Number::Constant((-100_i64).cast_unsigned()));
}

#[test]
fn argument_sizes_follow_their_declared_type() {
    let cases = [
        ("umode_t", 2, false),
        ("const clockid_t", 4, true),
        ("const int", 4, true),
        ("__s32", 4, true),
        ("const __u32", 4, false),
        ("const enum landlock_rule_type", 4, false),
        ("size_t", 8, false),
    ];
    for (declared, size, is_signed) in cases {
        let format = FORMAT.replace("field:int dfd", &format!("field:{declared} dfd"));
        let (expr, _) = parse::filter("dfd > 3");
        let kind = with_format(&format, |scope| filter(&expr, scope)).map(|it| it.kind);
        let Ok(ConditionKind::Compare {
            left: Number::Field(field),
            ..
        }) = kind
        else {
            panic!("{declared}: {kind:?}");
        };
        assert_eq!((field.size, field.signed), (size, is_signed), "{declared}");
    }
}

#[test]
fn parses_cpu_lists_like_the_kernel() {
    let of = |list: &str| condition::cpu_list(list, 8);
    assert_eq!(of("all"), Some((0..8).collect()));
    assert_eq!(of("6-N,1"), Some(vec![1, 6, 7]));
    assert_eq!(of("0-6:2/3 3"), Some(vec![0, 1, 3, 4, 6]));
    assert_eq!(of("all:1/4"), Some(vec![0, 4]));
    for wrong in ["", " ", "3-1", "0-7:3/2", "0-7:1/0", "x", "0-1024"] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
    assert_eq!(
        condition::ranges(&[0, 1, 2, 5, 7, 8]),
        [(0, 3), (5, 1), (7, 2)]
    );
}

#[test]
fn text_comparison_errors_suggest_quotes() {
    let problems = filter_of("comm == name").unwrap_err();
    let help = problems[0].help.as_deref();
    assert_eq!(
        help,
        Some("fields can only be compared if both are numbers")
    );
    let problems = filter_of("comm == bash").unwrap_err();
    assert_eq!(problems[0].help.as_deref(), Some("write \"bash\""));
}

#[test]
fn filter_arithmetic_keeps_the_sign() {
    let of = |text: &str| match filter_of(text).unwrap().kind {
        ConditionKind::Compare {
            left: Number::Binary(operator, ..),
            signed,
            ..
        } => (operator, signed),
        other => panic!("{other:?}"),
    };
    assert_eq!(of("pid / 4096 > 0"), (Operator::SignedDivided, true));
    assert_eq!(of("pid % 2 == 1"), (Operator::SignedRemainder, true));
    assert_eq!(of("pid >> 12 > 0"), (Operator::SignedShiftRight, true));
    assert_eq!(of("bits - 80 > 0"), (Operator::Minus, true));
    for (text, operator) in [
        ("bits / 2 > 0", Operator::Divided),
        ("site % 2 == 1", Operator::Remainder),
        ("site >> 12 > 0", Operator::ShiftRight),
    ] {
        assert_eq!(of(text), (operator, false), "{text}");
    }
}

#[test]
fn owners_resolve_to_their_cgroups() {
    let ids = |text: &str| match filter_of(text).unwrap().kind {
        ConditionKind::OneOf(_, ids) => (true, ids),
        ConditionKind::Not(inner) => match inner.kind {
            ConditionKind::OneOf(_, ids) => (false, ids),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(ids("container == \"web\""), (true, vec![1, 2]));
    assert_eq!(ids("container != \"db\""), (false, vec![3]));
    assert_eq!(ids("container ~ \"*b\""), (true, vec![1, 2, 3]));
    assert_eq!(ids("container ~ \"!w*\""), (false, vec![1, 2]));
    assert_eq!(ids("pod != \"none\""), (false, vec![]));
    let rejected = [
        ("unit == \"none\"", "No unit has this name", 8),
        (
            "container == web",
            "Invalid value (did you forget quotes)?",
            13,
        ),
        (
            "container > \"web\"",
            "Illegal operation for field type",
            10,
        ),
        ("container == 3", "Expecting string field", 13),
        ("container + 1 == 3", "Expecting numeric field", 0),
    ];
    for (text, words, at) in rejected {
        assert_eq!(problem(text), (words.to_owned(), at), "{text}");
    }
    let info = hist_of("keys=pod,container:sort=pod").unwrap().1.info;
    assert_eq!(
        info,
        "hist:keys=pod,container:vals=hitcount:sort=pod:size=2048"
    );
}

fn hist_of(text: &str) -> Result<(crate::program::Program, crate::table::Table), Vec<Problem>> {
    let (tree, problems) = parse::hist(text);
    assert_eq!(problems, [], "{text}");
    with_scope(|scope| hist(&tree, scope))
}

#[test]
fn a_key_can_have_only_one_stack() {
    let problems = hist_of("keys=pid,stacktrace,common_stacktrace").unwrap_err();
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert_eq!(
        (problem.text.as_str(), problem.span.start),
        ("A key can have only one stack", 20)
    );
}

#[test]
fn trigger_info_follows_the_kernels_format() {
    let cases = [
        (
            "keys=pid",
            "hist:keys=pid:vals=hitcount:sort=hitcount:size=2048",
        ),
        (
            "key=site.sym,pid:val=bits:sort=bits.descending,pid:size=100:name=x if bits > 64",
            "hist:name=x:keys=site.sym,pid:vals=hitcount,bits:sort=bits.descending,pid:size=128 if bits > 64",
        ),
        (
            "keys=common_stacktrace:vals=hitcount,bits.avg,bits.p99",
            "hist:keys=common_stacktrace:vals=hitcount,bits.avg,bits.p99:sort=hitcount:size=2048",
        ),
        (
            "keys=bits.flags:vals=site.hex:nohitcount",
            "hist:keys=bits.flags:vals=site.hex:sort=hitcount:size=2048:nohitcount",
        ),
    ];
    for (text, info) in cases {
        assert_eq!(hist_of(text).unwrap().1.info, info);
    }
}

#[test]
fn shared_tables_need_equal_sort_and_size() {
    use crate::table::Clause;
    let joined = |first: &str, second: &str| {
        let (first, _) = parse::hist(first);
        let (mut tree, _) = parse::hist(second);
        tree.fill_from(&first);
        with_scope(|scope| {
            let (own, mut table) = hist(&first, scope).unwrap();
            let (other, alone) = hist(&tree, scope).unwrap();
            let joined = table.join(&own, &other, alone.clone());
            joined
                .map(|()| alone.info)
                .map_err(|differs| differs.clause)
        })
    };
    let first = "keys=pid:vals=bits:sort=bits.descending:size=256";
    let info = "hist:keys=pid:vals=hitcount,bits:sort=bits.descending:size=256";
    let cases = [
        (first, "keys=pid:vals=bits", Ok(info)),
        (
            first,
            "keys=pid:vals=bits:sort=bits.descending:size=200",
            Ok(info),
        ),
        (first, "keys=pid:vals=bits:sort=bits", Err(Clause::Sort)),
        (first, "keys=pid:vals=bits:size=2048", Err(Clause::Size)),
        (first, "keys=pid", Err(Clause::Rows)),
        ("keys=pid", "keys=pid:sort=pid", Err(Clause::Sort)),
        ("keys=pid", "keys=pid:size=128", Err(Clause::Size)),
        (
            "keys=pid",
            "keys=pid:sort=hitcount:size=2048",
            Ok("hist:keys=pid:vals=hitcount:sort=hitcount:size=2048"),
        ),
    ];
    for (first, second, expected) in cases {
        let got = joined(first, second);
        let got = got.as_ref().map(String::as_str).map_err(|clause| *clause);
        assert_eq!(got, expected, "{first} and {second}");
    }
}

#[test]
fn percentiles_on_many_cpus_reduce_the_default_size() {
    let size = |text: &str, cpus| {
        let (tree, problems) = parse::hist(text);
        assert_eq!(problems, []);
        let made = with_scope(|scope| hist(&tree, &Scope { cpus, ..*scope }));
        let table = made.unwrap().1;
        assert!(table.info.contains(&format!(":size={}", table.size)));
        table.size
    };
    let percentile = "keys=pid:vals=bits.p99";
    let sizes = [2, 32, 33, 64, 128, 512, 4096].map(|cpus| size(percentile, cpus));
    assert_eq!(sizes, [2048, 2048, 1024, 1024, 512, 128, 128]);
    assert_eq!(size("keys=pid:vals=bits", 512), 2048);
    assert_eq!(size("keys=pid:vals=bits.p99:size=2048", 512), 2048);
}

#[test]
fn equal_aggregates_are_stored_once() {
    let (program, table) = hist_of("keys=pid:vals=bits,bits.avg,bits.max").unwrap();
    assert_eq!(program.values.len(), 2);
    let names: Vec<_> = table
        .values
        .iter()
        .map(|value| value.name.as_str())
        .collect();
    assert_eq!(names, ["bits", "bits.avg", "bits.max"]);
}

#[test]
fn rejects_histograms_with_the_kernels_texts() {
    let rejected = [
        (
            "keys=pid:sort=bits",
            "Sort field must be a key or a val",
            14,
        ),
        (
            "keys=pid:sort=pid,pid,pid",
            "Too many sort fields (Max = 2)",
            22,
        ),
        ("keys=pid:sort=pid.hex", "Invalid sort modifier", 18),
        ("keys=pid.percent", "Invalid field modifier", 9),
        ("keys=pid.execname", "Invalid field modifier", 9),
        ("keys=pid:vals=bits.log2", "Invalid field modifier", 19),
        ("keys=pid.flags", "Invalid field modifier", 9),
        ("keys=pid:vals=comm_now", "Expecting numeric field", 14),
        ("keys=pid:size=64", "Invalid size of the table", 14),
        ("keys=hitcount", "Field not found", 5),
        ("keys=pid:vals=stacktrace", "A stack can only be a key", 14),
        ("keys=common_stacktrace+1", "A stack can only be a key", 5),
        (
            "keys=pid:nohitcount",
            "Can't set nohitcount without another value",
            9,
        ),
    ];
    for (text, words, at) in rejected {
        let problems = hist_of(text).unwrap_err();
        let first = (problems[0].text.as_str(), problems[0].span.start);
        assert_eq!(first, (words, at), "{text}");
    }
}

fn latency_of(text: &str) -> Result<([crate::program::Program; 2], String), Vec<Problem>> {
    let (tree, problems) = parse::hist(text);
    assert_eq!(problems, [], "{text}");
    with_scope(|scope| latency(&tree, scope, scope)).map(|(pair, table)| (pair, table.info))
}

#[test]
fn events_are_paired_by_a_common_key() {
    use crate::program::{Context, Pair};
    let text = "on=pid==bits,comm:keys=latency.log2:vals=latency.p99,latency.usecs if latency > 5";
    let ([first, second], info) = latency_of(text).unwrap();
    let (Pair::First(early), Pair::Second(late)) = (&first.pair, &second.pair) else {
        panic!("{first:?}");
    };
    assert_eq!(early.len(), 2);
    assert_eq!(early[1], late[1]);
    assert_ne!(early[0], late[0]);
    assert_eq!(first.filter, None);
    let latency = Number::Context(Context::Latency);
    assert_eq!(second.values[0].number, latency);
    let expected = "hist:on=pid == bits,comm:keys=latency.log2:vals=hitcount,latency.p99,latency.usecs\
                    :sort=hitcount:size=2048 if latency > 5";
    assert_eq!(info, expected);
    let rejected = [
        ("keys=pid", "Missing `on=`", 0),
        ("on=pid==name:keys=pid", "These fields cannot be equal", 3),
        (
            "on=comm_now==name:keys=pid",
            "Both string fields must have the same size",
            3,
        ),
        ("on=none:keys=pid", "Field not found", 3),
        ("on=latency:keys=pid", "Field not found", 3),
    ];
    for (text, words, at) in rejected {
        let problems = latency_of(text).unwrap_err();
        let first = (problems[0].text.as_str(), problems[0].span.start);
        assert_eq!(first, (words, at), "{text}");
    }
    let alone = hist_of("on=pid:keys=pid").unwrap_err();
    assert_eq!(alone[0].text, "`on=` needs two events");
    assert!(hist_of("keys=latency").is_err());
}
