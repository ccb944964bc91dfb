//! Tests triggers of several events: the values that they read and store, and their problems.

use super::*;
use crate::program::{Action, Linked, Read, Source, Text, When};
use crate::synthetic::Synthetic;
use crate::tree::EventName;

/// Resolves triggers of `one.first`, `one.second`, and the synthetic event `made`.
fn resolve(triggers: &[&str]) -> Result<Vec<Linked>, (usize, String, usize)> {
    let synthetic = [Synthetic::parse("made u64 lat; pid_t pid; char comm[16]", 9).unwrap()];
    let trees: Vec<_> = triggers
        .iter()
        .map(|text| {
            let (tree, problems) = parse::hist(text);
            assert_eq!(problems, [], "{text}");
            tree
        })
        .collect();
    with_scope(|scope| {
        let names = ["first", "second", "made"];
        let all: Vec<_> = names
            .iter()
            .zip(&trees)
            .map(|(name, hist)| Linkable {
                event: EventName {
                    system: "one".to_owned(),
                    event: (*name).to_owned(),
                },
                hist,
                scope: match *name {
                    "made" => Scope {
                        probe: Probe::Synthetic,
                        format: &synthetic[0].format,
                        ..*scope
                    },
                    _ => *scope,
                },
                first: None,
                synthetic: (*name == "made").then_some(0),
            })
            .collect();
        let made = linked(&all, &synthetic, false)
            .map_err(|(at, problems)| (at, problems[0].text.clone(), problems[0].span.start))?;
        for (programs, _) in &made {
            crate::emit::emit(&programs[0]).unwrap();
        }
        Ok(made
            .into_iter()
            .map(|(mut programs, _)| programs.remove(0).linked)
            .collect())
    })
}

const SET: &str = "keys=pid:ts0=common_timestamp.usecs,text=comm_now,other=bits";

#[test]
fn only_variables_that_are_read_are_stored() {
    let made = resolve(&[
        SET,
        "keys=pid:lat=common_timestamp.usecs-$ts0:onmatch(one.first).made($lat,pid,one.first.comm_now)",
        "keys=lat:vals=pid.max if comm == \"x\"",
    ])
    .unwrap();
    let [first, second, _] = made.as_slice() else {
        panic!("{made:?}");
    };
    let stored: Vec<_> = first.sets.iter().map(|set| set.at).collect();
    // The time, and the field that the action refers to, are stored; no trigger reads `text`.
    assert_eq!(stored, [Some(0), None, None, Some(8)]);
    assert_eq!(first.kept, 8 + 8 + 16);
    let read = |at, text, once| Read {
        table: 0,
        at,
        text,
        once,
    };
    assert_eq!(
        second.reads,
        [read(0, None, true), read(8, Some(16), false)]
    );
    assert_eq!((second.kept, second.table), (0, 1));
    let [Action::Emit(emit)] = second.actions.as_slice() else {
        panic!("{:?}", second.actions);
    };
    let values: Vec<_> = emit
        .fields
        .iter()
        .map(|field| field.value.clone())
        .collect();
    assert_eq!(values[0], Source::Number(Number::Own(0)));
    assert_eq!(values[2], Source::Text(Text::Read { index: 1, room: 16 }));
    // The program that counts the synthetic event is nested.
    assert_eq!(emit.programs.len(), 1);
    assert_eq!(emit.programs[0].linked.table, 2);
}

#[test]
fn immediate_actions_share_the_maximum_between_cpus() {
    let made = resolve(&[
        "keys=comm:c=bits:onmax($c).save(pid,comm_now):onmax($c).made($c,pid,comm):onchange($c).save2()",
    ]);
    assert_eq!(
        made,
        Err((0, "Couldn't find synthetic event".to_owned(), 87))
    );
    let made =
        resolve(&["keys=comm:c=bits:onmax($c).save(pid,comm_now):onmax($c).made($c,pid,comm)"]);
    let made = made.unwrap();
    let tracks: Vec<_> = made[0]
        .actions
        .iter()
        .map(|action| match action {
            Action::Track(track) => (track.when, track.at, track.saved),
            Action::Emit(_) => panic!("{action:?}"),
        })
        .collect();
    assert_eq!(
        tracks,
        [(When::Greater, None, 0), (When::Greater, Some(0), 1)]
    );
    assert_eq!(made[0].kept, 8);
}

#[test]
fn a_stack_cannot_be_a_variable() {
    let made = resolve(&["keys=pid:st=common_stacktrace"]);
    assert_eq!(made, Err((0, "A stack can only be a key".to_owned(), 12)));
}

#[test]
fn trigger_problems_have_the_kernels_texts() {
    let others = "`one.first` has different keys, so its variables cannot be looked up from here";
    // The triggers, the index of the wrong trigger, the reason, and the source at that position.
    let cases: [(&[&str], usize, &str, &str); 13] = [
        (&["keys=pid:a=$b"], 0, "Couldn't find variable", "$b"),
        (
            &[SET, "keys=pid:a=$ts1"],
            1,
            "Couldn't find variable",
            "$ts1",
        ),
        (
            &[SET, "keys=pid:a=two.first.$ts0"],
            1,
            "Couldn't find variable",
            "two.first.$ts0",
        ),
        (&[SET, "keys=comm:a=$ts0"], 1, others, "$ts0"),
        (&[SET, "keys=pid,bits:a=$ts0"], 1, others, "$ts0"),
        (
            &[SET, "keys=pid:a=$text+1"],
            1,
            "String type can not be an operand in expression",
            "$text+1",
        ),
        (
            &[SET, "keys=$ts0"],
            1,
            "Using variable references in keys not supported",
            "$ts0",
        ),
        (
            &[SET, "keys=pid if $ts0 > 1"],
            1,
            "A variable cannot be used here",
            "$ts0 > 1",
        ),
        (
            &["keys=pid:a=bits,a=pid"],
            0,
            "Variable already defined",
            "a=pid",
        ),
        (
            &["keys=pid:a=bits:onmax($a).snapshot():onchange($a).snapshot()"],
            0,
            "Can't have more than one snapshot() action per hist",
            "snapshot()",
        ),
        (
            &["keys=pid:a=comm:onmax($a).save(pid)"],
            0,
            "Couldn't find onmax or onchange variable",
            "onmax($a).save(pid)",
        ),
        (
            &["keys=pid:a=bits:onmax($a).save(pid):onmax($a).save(bits)"],
            0,
            "Can't have more than one save() action per hist",
            "save(bits)",
        ),
        (
            &["keys=pid:onmatch(one.first).made(bits,pid,comm)"],
            0,
            "Matching event histogram not found",
            "onmatch(one.first).made(bits,pid,comm)",
        ),
    ];
    for (triggers, which, words, place) in cases {
        let wrong = resolve(triggers).unwrap_err();
        let at = triggers[which].len() - place.len();
        assert_eq!(wrong, (which, words.to_owned(), at), "{triggers:?}");
        assert!(triggers[which].ends_with(place), "{place}");
    }
    // Both triggers set the variable.
    let both = resolve(&[SET, "keys=pid:ts0=bits", "keys=lat:x=$ts0"]);
    assert!(both.is_err_and(|(at, words, _)| at == 2 && words.contains("not unique")));
    let one = resolve(&[SET, "keys=pid:ts0=bits", "keys=lat:x=one.second.$ts0"]);
    assert!(one.is_ok(), "{one:?}");
}
