//! Fuzzes the resolver, which must return programs or errors. The first line of the input is a
//! trigger, the second defines a synthetic event, and the rest is the format of an event.

#![no_main]

use libfuzzer_sys::fuzz_target;
use noctule_trace::emit::emit;
use noctule_trace::format::EventFormat;
use noctule_trace::identity::Identity;
use noctule_trace::parse;
use noctule_trace::print::{Print, Symbol, Symbols};
use noctule_trace::probe::Probe;
use noctule_trace::program::{Context, Number};
use noctule_trace::resolve::{Fits, Function, Groups, Linkable, Scope, linked};
use noctule_trace::synthetic::Synthetic;
use noctule_trace::tree::EventName;

struct Node;

impl Groups for Node {
    fn current(&self) -> Result<Number, String> {
        Ok(Number::Context(Context::Cgroup))
    }

    fn fitting(&self, _: Identity, _: Fits) -> Vec<u64> {
        vec![1, 2]
    }
}

impl Symbols for Node {
    fn symbol(&self, _: u64) -> Option<Symbol<'_>> {
        None
    }
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(3, '\n');
    let (Some(trigger), Some(definition), Some(format)) = (lines.next(), lines.next(), lines.next())
    else {
        return;
    };
    let Ok(format) = EventFormat::parse(format) else {
        return;
    };
    let print = Print::parse(&format);
    let tables = print.as_ref().map(Print::tables).unwrap_or_default();
    if let Ok(print) = &print {
        print.render(bytes, &Node, &mut String::new());
    }
    let synthetic: Vec<_> = Synthetic::parse(definition, 1).into_iter().collect();
    let (tree, _) = parse::hist(trigger);
    let function = |_: Function<'_>| Some((0x1000, 64));
    let scope = |probe, format| Scope {
        probe,
        format,
        tables: &tables,
        function: &function,
        groups: &Node,
        cpus: 2,
    };
    let linkable = |event: &str, scope, synthetic| Linkable {
        event: EventName {
            system: "one".to_owned(),
            event: event.to_owned(),
        },
        hist: &tree,
        scope,
        first: None,
        synthetic,
    };
    let mut all = vec![
        linkable("two", scope(Probe::Tracepoint, &format), None),
        linkable("three", scope(Probe::Tracepoint, &format), None),
    ];
    if let Some(made) = synthetic.first() {
        all.push(linkable("made", scope(Probe::Synthetic, &made.format), Some(0)));
    }
    if let Ok(programs) = linked(&all, &synthetic, false) {
        for program in programs.iter().flat_map(|(programs, _)| programs) {
            let _ = emit(program);
        }
    }
});
