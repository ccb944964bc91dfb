//! Tests of `noctule probes` against tracefs.

use serde_json::Value;

use super::hist::Hist;
use super::support::expect::{has_shared_libc, skip_because};
use super::support::tracefs::Tracefs;
use super::support::{self, of_this_thread, wait_until};

fn text(args: &[&str]) -> String {
    let output = support::noctule(&[&["probes"], args].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&text(&[args, &["--json"]].concat())).expect("JSON")
}

/// Other tests may register probes at the same time, but the kernel's own events do not change.
#[test]
fn every_event_that_can_be_enabled_is_listed() {
    let _machine = support::shared();
    let tracefs = Tracefs::mount();
    let events = || {
        let text = tracefs.read("available_events");
        let mut all: Vec<_> = text.lines().map(str::to_owned).collect();
        all.sort_unstable_by(|a, b| a.split(':').cmp(b.split(':')));
        all
    };
    wait_until("the list stays the same", || {
        let before = events();
        let listed = text(&[]);
        before == events() && listed.lines().eq(before.iter().map(String::as_str))
    });
}

/// Compares all fields of all events with the format files.
#[test]
fn fields_match_the_format_files() {
    let _machine = support::shared();
    let tracefs = Tracefs::mount();
    let answer = json(&["-v", "*"]);
    let mut fields = 0;
    for event in answer["events"].as_array().expect("a list") {
        let name = event["event"].as_str().expect("a name");
        // Other tests create and remove events of this group.
        if name.starts_with("noctule_test:") {
            continue;
        }
        let format = tracefs.read(&format!("events/{}/format", name.replacen(':', "/", 1)));
        let id = format.lines().find_map(|line| line.strip_prefix("ID: "));
        assert_eq!(id, Some(event["id"].to_string()).as_deref(), "{name}");
        for field in event["fields"].as_array().expect("a list") {
            let number = |key: &str| field[key].as_u64().expect("a number");
            let signed = u8::from(field["signed"] == true);
            let place = format!(
                ";\toffset:{};\tsize:{};\tsigned:{signed};",
                number("offset"),
                number("size")
            );
            let field = field["name"].as_str().expect("a name");
            let stands = |line: &str| line.contains(field) && line.ends_with(&place);
            assert!(
                format.lines().any(stands),
                "{name} {field} {place}\n{format}"
            );
            fields += 1;
        }
        let all = format.matches("\n\tfield:").count();
        let common = format.matches("common_").count().min(4);
        let listed = event["fields"].as_array().map_or(0, Vec::len);
        assert_eq!(listed + common, all, "{name}\n{format}");
    }
    assert!(fields > 5000, "{fields}");
}

#[test]
fn value_names_and_patterns_are_listed() {
    let _machine = support::shared();
    let softirq = text(&["-v", "irq:softirq_entry"]);
    assert!(softirq.starts_with("irq:softirq_entry\n  vec  unsigned int  offset 8, size 4\n"));
    assert!(
        softirq.contains("    values: HI=0x0, TIMER=0x1, NET_TX=0x2"),
        "{softirq}"
    );
    let of_system = text(&["irq"]);
    assert!(
        of_system.lines().all(|line| line.starts_with("irq:")),
        "{of_system}"
    );
    assert!(of_system.lines().count() >= 5, "{of_system}");
    assert_eq!(text(&["softirq_entry"]), "irq:softirq_entry\n");
    assert_eq!(
        text(&["sched:sched_process_ex[ei]c"]),
        "sched:sched_process_exec\n"
    );
}

#[test]
fn a_pattern_without_events_is_an_error_with_the_nearest_name() {
    let _machine = support::shared();
    let output = support::noctule(&["probes", "sched:sched_swich"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("did you mean sched:sched_switch?"),
        "{errors}"
    );
}

/// A uprobe in the kernel's list, removed when dropped.
struct Registered<'a>(&'a Tracefs, &'a str);

impl<'a> Registered<'a> {
    fn new(tracefs: &'a Tracefs, name: &'a str, definition: &str) -> Self {
        tracefs.append("uprobe_events", definition);
        Self(tracefs, name)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0
            .append("uprobe_events", &format!("-:noctule_test/{}", self.1));
    }
}

/// A uprobe that the test registers in the kernel is listed with its definition.
#[test]
fn registered_probes_are_listed_with_their_definition() {
    let _machine = support::shared();
    let tracefs = Tracefs::mount();
    let name = format!("probe_{}", std::process::id());
    let definition = format!("p:noctule_test/{name} {}:0x1000", support::NOCTULE);
    let _registered = Registered::new(&tracefs, &name, &definition);
    let listed = json(&["-v", &format!("noctule_test:{name}")]);
    let shown = listed["events"][0]["definition"]
        .as_str()
        .expect("a definition");
    assert!(
        shown.starts_with(&format!("p:noctule_test/{name} ")),
        "{shown}"
    );
    let text = text(&["-v", &name]);
    assert!(
        text.contains(&format!("  registered as {shown}\n")),
        "{text}"
    );
}

#[test]
fn a_registered_uprobe_is_counted_and_not_traced() {
    let _machine = support::shared();
    needs!("cpu_time");
    if !has_shared_libc() {
        return skip_because("the tests are linked without the C library of the system");
    }
    let tracefs = Tracefs::mount();
    let name = format!("counted_{}", std::process::id());
    let (file, offset) = place_in_file(libc::getpriority as *const ());
    let definition = format!("p:noctule_test/{name} {file}:{offset:#x}");
    let _registered = Registered::new(&tracefs, &name, &definition);
    let event = format!("noctule_test:{name}");
    let trigger = format!("keys=arg2_int if {} && arg2_int == 0", of_this_thread());
    let hist = Hist::start(&event, &trigger, &["--json"]);
    for _ in 0..20 {
        #[allow(unsafe_code, reason = "the library has it from here")]
        // SAFETY: the function only reads.
        unsafe {
            libc::getpriority(libc::PRIO_PROCESS, 0);
        }
    }
    let answer = hist.end_json();
    assert_eq!(answer["hits"], 20, "{answer}");
    let alone = support::noctule(&["trace", &event, "--for=1ms"]);
    let errors = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(3), "{errors}");
    assert!(errors.contains("is a registered uprobe"), "{errors}");
    let beside = support::noctule(&["trace", &event, "sched:sched_process_exec", "--for=1ms"]);
    let errors = String::from_utf8_lossy(&beside.stderr);
    assert!(beside.status.success(), "{errors}");
    assert!(
        errors.contains("continuing with the other events"),
        "{errors}"
    );
}

/// Returns the file that contains code of this process, and the offset of the code.
fn place_in_file(code: *const ()) -> (String, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
    let hex = |text: &str| usize::from_str_radix(text, 16).expect("a number");
    let place = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-')?;
        let mapping = hex(start)..hex(end);
        let is_of = mapping.contains(&code.addr());
        is_of.then(|| {
            let offset = code.addr() - mapping.start + hex(words[2]);
            (words[5].to_owned(), offset)
        })
    };
    maps.lines().find_map(place).expect("the code is mapped")
}
