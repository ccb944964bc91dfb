//! Selects a window of a recording and builds reports from it.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use noctule_analysis::{Detail, Found, ReportBuilder, Selection};
use noctule_model::{Batch, CgroupId, FeatureId, Level, Owner};
use noctule_tape::{Batches, Damage, Events, Limits, Span, Stretch, Tape};
use noctule_text::{date_time, escape};

use crate::args::{By, Names, RecordedArgs, SourceArgs};
use crate::config::Host;
use crate::exit::{self, Usage};
use crate::features::{self, When};
use crate::print::utc_offset;
use crate::recording::{self, Recording};
use crate::scope::Scope;
use crate::select;

mod moment;

pub(crate) use moment::moment;

const SECOND_NS: u64 = 1_000_000_000;

/// The result of a live or recorded window.
pub(crate) struct Answer {
    pub(crate) builder: ReportBuilder,
    /// The selected rows.
    pub(crate) selection: Selection,
    /// The exit status to pass on.
    pub(crate) code: u8,
    /// Whether the result covers only a command.
    pub(crate) followed: bool,
    /// Wall-clock times of the first and last batch of a recording, in nanoseconds since 1970;
    /// `None` if it is live.
    pub(crate) recorded: Option<(u64, u64)>,
}

impl Answer {
    /// Returns the first line of the output, which contains the times of a recording.
    pub(crate) fn times(&self) -> String {
        let line = |(from, to)| format!("recorded from {} to {}\n", local(from), local(to));
        self.recorded.map_or_else(String::new, line)
    }
}

/// Returns the level of the rows.
pub(crate) fn level(by: Option<By>, names: &Names, followed: bool) -> Level {
    let default = match followed || !names.pid.is_empty() {
        true => Level::Process,
        false => Level::Container,
    };
    by.map_or(default, Level::from)
}

/// Returns the heading of the column of names.
pub(crate) fn word(by: Option<By>, level: Level) -> &'static str {
    match by {
        Some(By::Command) => "command",
        _ => noctule_text::level_word(level),
    }
}

/// Returns the detail about processes that an output needs.
pub(crate) fn detail(by: Option<By>, names: &Names, followed: bool) -> Detail {
    if !names.pid.is_empty() {
        Detail::Trees
    } else if followed || level(by, names, followed) == Level::Process {
        Detail::Processes
    } else {
        Detail::Groups
    }
}

/// Opens the recording in a directory given by the user.
pub(crate) fn open(folder: &Path) -> Result<Tape> {
    let wrong = match fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some("no such folder"),
        Ok(file) if !file.is_dir() => Some("not a folder"),
        _ => None,
    };
    match wrong {
        Some(wrong) => bail!(Usage(format!(
            "{}: {wrong}; `noctule record -o FOLDER` makes a recording",
            folder.display()
        ))),
        None => Ok(Tape::open(folder)?),
    }
}

/// The start of a window.
struct At<'a> {
    moment: &'a str,
    /// The text that the user typed, as an option or an argument.
    typed: String,
}

impl<'a> At<'a> {
    fn option(moment: &'a str) -> Self {
        Self {
            moment,
            typed: format!("--at {moment}"),
        }
    }
}

pub(crate) struct Window {
    pub(crate) tape: Tape,
    pub(crate) stretch: Stretch,
}

impl Window {
    /// Returns the window of a recording, or `None` if the output is live. `usual` is the length of
    /// the window if only its start is given.
    pub(crate) fn open(
        args: &RecordedArgs,
        duration: Option<Duration>,
        usual: Duration,
    ) -> Result<Option<Self>> {
        let of = |folder| Self::of_option(folder, args.at.as_deref(), duration, usual);
        args.from.as_deref().map(of).transpose()
    }

    /// Returns the window of the recording named by `--from`.
    pub(crate) fn of_option(
        folder: &Path,
        at: Option<&str>,
        duration: Option<Duration>,
        usual: Duration,
    ) -> Result<Self> {
        let tape = open(folder).context("--from")?;
        Self::part(tape, folder, at.map(At::option), duration, usual)
    }

    /// Returns the window of the recording named by an argument.
    pub(crate) fn of(
        folder: &Path,
        at: Option<&str>,
        duration: Option<Duration>,
        usual: Duration,
    ) -> Result<Self> {
        Self::part(open(folder)?, folder, at.map(At::option), duration, usual)
    }

    /// Returns the window for an argument that also contains a start time.
    pub(crate) fn of_place(
        typed: &str,
        (folder, moment): (&Path, &str),
        duration: Option<Duration>,
    ) -> Result<Self> {
        let typed = typed.to_owned();
        let at = At { moment, typed };
        Self::part(open(folder)?, folder, Some(at), duration, Duration::MAX)
    }

    fn part(
        tape: Tape,
        folder: &Path,
        at: Option<At<'_>>,
        duration: Option<Duration>,
        usual: Duration,
    ) -> Result<Self> {
        warn(tape.damages());
        let spans = tape.spans();
        // A span without batches is selected only by its time, unless there is no other span.
        let with_batches = spans.iter().rfind(|span| span.batches() > 0);
        let Some(last) = with_batches.or(spans.last()) else {
            bail!(nothing_in(&tape, folder));
        };
        let length = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let stretch = match (at, duration) {
            (None, None) => Stretch::whole(*last),
            (None, Some(duration)) => tape
                .part_before_end(last, length(duration), u64::MAX)
                .unwrap_or_else(|| Stretch::whole(*last)),
            (Some(at), duration) => {
                let length = length(duration.unwrap_or(usual));
                Self::from_moment(&tape, (folder, &spans), last, &at, length)?
            }
        };
        if stretch.is_cut {
            tracing::warn!("the recording ends at {}", local(stretch.to_unix_ns));
        }
        Ok(Self { tape, stretch })
    }

    /// Returns the stretch that begins at `at` and lasts for `length_ns`.
    fn from_moment(
        tape: &Tape,
        (folder, spans): (&Path, &[Span]),
        last: &Span,
        at: &At<'_>,
        length_ns: u64,
    ) -> Result<Stretch> {
        let At {
            moment: text,
            typed,
        } = at;
        let back = moment::before_end(text);
        if let Some(part) = back.and_then(|back| tape.part_before_end(last, back, length_ns)) {
            return Ok(part);
        }
        // Times are displayed in whole seconds, so a window that starts at the displayed time of
        // the first batch must also be found.
        let is_shown = |span: &Span, at: u64| span.has(at.saturating_add(SECOND_NS - 1));
        let is_recorded = |at| {
            let has = |span: &Span| span.has(at) || is_shown(span, at);
            spans.iter().any(has)
        };
        let from = moment::moment_in(text, last.end_unix_ns, &is_recorded);
        let from = from.map_err(|words| Usage(format!("{typed}: {words}")))?;
        let shown = |span: &&Span| is_shown(span, from);
        // If a clock was set back, a time can occur twice. The later occurrence is selected.
        let has = spans.iter().rfind(|span| span.has(from));
        let span = has.or_else(|| spans.iter().find(shown));
        let span = span.ok_or_else(|| outside(folder, typed, spans))?;
        if moment::is_of_day_before(text, from, last.end_unix_ns) {
            let (from, end) = (local(from), local(last.end_unix_ns));
            tracing::warn!("{typed}: interpreted as {from}, because the recording ends at {end}");
        }
        let times: usize = spans.iter().map(|it| tape.times_shown(it, from)).sum();
        if times > 1 {
            tracing::warn!(
                "{typed}: the clock was set back, so this time occurs {times} times: using the \
                 last one; a time relative to the end (-10m) is unambiguous"
            );
        }
        Ok(tape.part(span, from, length_ns))
    }

    pub(crate) fn events(&self) -> Events<'_> {
        self.stretch.events(&self.tape)
    }

    pub(crate) fn batches(&self) -> Batches<'_> {
        self.stretch.batches(&self.tape)
    }

    /// Reads the batches of the window that a report needs.
    pub(crate) fn answer(&self, by: Option<By>, names: &Names) -> Result<Answer> {
        self.answer_and_show_needed(by, names, &mut |_| {})
    }

    /// Like [`Self::answer`], but passes each batch that it reads to `show`. Together these batches
    /// contain every row of the window.
    pub(crate) fn answer_and_show_needed(
        &self,
        by: Option<By>,
        names: &Names,
        show: &mut dyn FnMut(&Batch),
    ) -> Result<Answer> {
        let detail = detail(by, names, self.is_of_command());
        self.gather(self.batches(), (names, detail), show, |batches| {
            batches.next_for_report()
        })
    }

    /// Like [`Self::answer`], but for a report about waits of groups. Omits processes, unless some
    /// are selected.
    pub(crate) fn answer_of_groups(&self, names: &Names) -> Result<Answer> {
        if self.is_of_command() || !names.pid.is_empty() {
            return self.answer(Some(By::Process), names);
        }
        let batches = self.stretch.batches_of_groups(&self.tape);
        self.gather(batches, (names, Detail::Groups), &mut |_| {}, |batches| {
            batches.next_for_report()
        })
    }

    /// Reads every batch of the window and passes it to `show`.
    pub(crate) fn answer_and_show(
        &self,
        by: Option<By>,
        names: &Names,
        show: &mut dyn FnMut(&Batch),
    ) -> Result<Answer> {
        let detail = detail(by, names, self.is_of_command());
        self.gather(self.batches(), (names, detail), show, |batches| {
            batches.next()
        })
    }

    fn gather(
        &self,
        mut batches: Batches<'_>,
        (names, detail): (&Names, Detail),
        show: &mut dyn FnMut(&Batch),
        next: impl Fn(&mut Batches<'_>) -> Option<Batch>,
    ) -> Result<Answer> {
        let mut sought = Sought::of(names)?;
        let Some(first) = batches.next() else {
            warn(batches.damages().iter());
            bail!(
                "no batch in this part of the recording can be read; {}",
                why(batches.damages())
            );
        };
        sought.note(&first);
        show(&first);
        let (begun, started) = (first.sequence, first.time_unix_ns);
        let mut last = begun;
        let mut builder = ReportBuilder::new(first).with(detail);
        let mut ended = started;
        while let Some(batch) = next(&mut batches) {
            sought.note(&batch);
            show(&batch);
            (last, ended) = (batch.sequence, batch.time_unix_ns);
            builder.add(batch);
        }
        warn(batches.damages().iter());
        if last == begun && !batches.damages().is_empty() {
            bail!(
                "only one batch of this part of the recording can be read, from {}; {}",
                local(started),
                why(batches.damages())
            );
        }
        if last == begun {
            bail!(
                "there is only one batch between {} and {}: use a longer --for",
                local(self.stretch.from_unix_ns),
                local(self.stretch.to_unix_ns)
            );
        }
        Ok(Answer {
            builder,
            selection: sought.selection()?,
            code: exit::DONE,
            followed: self.is_of_command(),
            recorded: Some((started, ended)),
        })
    }

    /// Returns whether the recording followed a command.
    pub(crate) fn is_of_command(&self) -> bool {
        !self.command().is_empty()
    }

    /// Returns the recorded command; empty if the whole machine was recorded.
    pub(crate) fn command(&self) -> &[String] {
        let first = self.tape.segments().get(self.stretch.span.segments.0);
        first.map_or(&[], |segment| &segment.meta().command)
    }

    /// Returns an error with the recorded reason if the feature was off.
    pub(crate) fn need(answer: &Answer, feature: FeatureId) -> Result<()> {
        let report = answer.builder.report(Level::Container, false);
        let needed = features::need_one(&report.features, &[feature], When::Recorded);
        needed
            .map(drop)
            .map_err(|words| recorded_reason_error(&words))
    }
}

/// Returns an error if all requested kinds of events were off when the window started.
pub(crate) fn need_kinds(first: &Batch, scope: &Scope) -> Result<()> {
    let needed = features::need_kinds(&first.features, scope, When::Recorded);
    needed.map_err(|words| recorded_reason_error(&words))
}

/// Returns the error with the recorded reason, which is escaped because it comes from a file.
fn recorded_reason_error(words: &str) -> anyhow::Error {
    anyhow!(escape(words))
}

/// Explains why a recording contains no window.
pub(crate) fn nothing_in(tape: &Tape, folder: &Path) -> String {
    let folder = folder.display();
    if tape.damages().next().is_some() {
        return format!(
            "{folder}: no batch in the recording can be read; `noctule tape info` shows the damage"
        );
    }
    format!(
        "{folder}: the recording is empty: it ended before the first batch was written; record for \
         longer, for example with `noctule record -o FOLDER --for 10s`"
    )
}

/// Adds the owners of a batch's groups.
pub(crate) fn note(owners: &mut HashMap<CgroupId, Arc<Owner>>, batch: &Batch) {
    for row in &batch.cgroups {
        if let Some(owner) = &row.owner {
            owners.insert(row.id, owner.clone());
        }
    }
}

/// The selected names, and which of them have been found.
pub(crate) struct Sought<'a> {
    names: &'a Names,
    selection: Selection,
    /// The last owner of each group.
    owners: HashMap<CgroupId, Arc<Owner>>,
    /// Names found among all owners so far.
    found: Found,
    /// Pids that have not been found.
    unseen: HashSet<u32>,
}

impl<'a> Sought<'a> {
    pub(crate) fn of(names: &'a Names) -> Result<Self> {
        Ok(Self {
            names,
            selection: select::recorded(names)?,
            owners: HashMap::new(),
            found: Found::default(),
            unseen: names.pid.iter().copied().collect(),
        })
    }

    /// Searches a batch for the names and pids that were not found yet.
    pub(crate) fn note(&mut self, batch: &Batch) {
        if self.is_found() {
            return;
        }
        for row in &batch.cgroups {
            let Some(owner) = &row.owner else { continue };
            if self.owners.get(&row.id) != Some(owner) {
                self.selection.note(&mut self.found, owner);
                self.owners.insert(row.id, owner.clone());
            }
        }
        if !self.unseen.is_empty() {
            for row in batch.processes.iter().chain(&batch.exited) {
                self.unseen.remove(&row.id.pid);
            }
        }
    }

    /// Returns whether all names have been found.
    pub(crate) fn is_found(&self) -> bool {
        self.unseen.is_empty() && self.selection.is_found(&self.found)
    }

    /// Returns the selection, or an error if a name was not found.
    pub(crate) fn selection(self) -> Result<Selection> {
        let owners: Vec<&Owner> = self.owners.values().map(|owner| &**owner).collect();
        if let Some(missing) = self.selection.missing(&self.found, &owners) {
            return Err(select::nothing_fits(missing, false).into());
        }
        if let Some(pid) = self.names.pid.iter().find(|pid| self.unseen.contains(pid)) {
            bail!(Usage(format!(
                "--pid {pid}: no such process was recorded in this window; `noctule stat --from \
                 FOLDER --by process` lists the recorded ones"
            )));
        }
        Ok(self.selection)
    }
}

/// Logs the damage. The undamaged data of the recording is still used.
pub(crate) fn warn<'a>(damages: impl Iterator<Item = &'a Damage>) {
    for damage in damages {
        tracing::warn!("{}", escape(&damage.to_string()));
    }
}

/// Explains why data cannot be read.
fn why(damages: &[Damage]) -> &'static str {
    let removed = damages.iter().all(|damage| damage.offset.is_none());
    match removed && !damages.is_empty() {
        true => {
            "the rest was removed while it was being read, because the recording reached its \
             limits"
        }
        false => "`noctule tape info` shows the damage",
    }
}

/// Opens the recording for a live window, if the user requested one.
pub(crate) fn keep(args: &SourceArgs, of: (&Host, &[OsString])) -> Result<Option<Recording>> {
    let open = |folder: &std::path::PathBuf| {
        Recording::open(folder, recording::SEGMENT, Limits::default(), of)
    };
    args.tape.as_ref().map(open).transpose()
}

fn local(unix_ns: u64) -> String {
    date_time(unix_ns, utc_offset(unix_ns))
}

fn outside(folder: &Path, typed: &str, spans: &[Span]) -> anyhow::Error {
    let spans = spans.iter().map(|span| {
        let (from, to) = (local(span.from_unix_ns), local(span.to_unix_ns));
        format!("{from} to {to}")
    });
    let spans: Vec<String> = spans.collect();
    let (folder, spans) = (folder.display(), spans.join(", and "));
    Usage(format!(
        "{typed}: nothing was recorded then; {folder} covers {spans}"
    ))
    .into()
}

#[cfg(test)]
mod tests {
    use noctule_model::{EventKind, EventKinds, Feature};

    use super::*;

    /// Records one second in which process 7 ran.
    fn recorded(folder: &Path) {
        recorded_for(folder, 2, 300);
    }

    /// Like `recorded`, but with a batch each second and segments of `segment_s` seconds.
    fn recorded_for(folder: &Path, seconds: u64, segment_s: u64) {
        let recorder = recorder(folder, segment_s);
        for tick in 1..=seconds {
            record(&recorder, tick, 1_790_000_000 + tick);
        }
        assert!(recorder.close(Duration::from_secs(30)), "room");
    }

    fn recorder(folder: &Path, segment_s: u64) -> noctule_tape::Recorder {
        let options = noctule_tape::Options {
            folder: folder.to_owned(),
            segment_ns: segment_s * SECOND_NS,
            limits: Limits::default(),
            meta: noctule_tape::Meta {
                run: "one".into(),
                ..noctule_tape::Meta::default()
            },
            on_thread: || {},
        };
        noctule_tape::Recorder::open(options).expect("a folder")
    }

    /// Adds a batch taken at this second of the wall clock.
    fn record(recorder: &noctule_tape::Recorder, tick: u64, second: u64) {
        while !recorder.has_room() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let id = noctule_model::ProcessId {
            pid: 7,
            start_ns: 1,
        };
        recorder.batch(&Batch {
            sequence: tick,
            time_unix_ns: second * SECOND_NS,
            taken_ns: tick * SECOND_NS,
            processes: vec![noctule_model::ProcessRow {
                id,
                ..noctule_model::ProcessRow::default()
            }],
            ..Batch::default()
        });
    }

    fn refused<T>(result: Result<T>, words: &str) {
        let error = result.err().expect("it is wrong");
        assert!(error.is::<Usage>(), "{error:#}");
        let said = format!("{error:#}");
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn unrecorded_processes_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        recorded(folder);
        let window = Window::of(folder, None, None, Duration::MAX).expect("a recording");
        let asked = |pid| Names {
            pid,
            ..Names::default()
        };
        assert!(window.answer(None, &asked(vec![7])).is_ok());
        assert!(window.answer_of_groups(&asked(vec![7])).is_ok());
        let words = "--pid 77777: no such process was recorded in this window";
        let none = asked(vec![7, 77777]);
        refused(window.answer(None, &none), words);
        refused(window.answer_of_groups(&none), words);
        refused(window.answer_and_show(None, &none, &mut |_| {}), words);
    }

    #[test]
    fn reasons_from_a_recording_are_escaped() {
        let first = Batch {
            features: Arc::from([
                Feature::off(FeatureId::TcpEvents, "no \x1b[31mhook"),
                Feature::on(FeatureId::ProcessEvents, ""),
            ]),
            ..Batch::default()
        };
        let of = |kinds: &[EventKind]| {
            let scope = Scope {
                kinds: EventKinds::of(kinds),
                ..Scope::default()
            };
            need_kinds(&first, &scope).map_err(|error| error.to_string())
        };
        assert_eq!(of(&[EventKind::Process, EventKind::Tcp]), Ok(()));
        let words = "tcp_events was off when this was recorded: no \\u{1b}[31mhook";
        assert_eq!(of(&[EventKind::Tcp]), Err(words.to_owned()));
    }

    #[test]
    fn window_starting_in_damage_reports_it() {
        let folder = tempfile::tempdir().expect("a folder");
        recorded_for(folder.path(), 40, 10);
        let segments = fs::read_dir(folder.path()).expect("a folder");
        let segments = segments.map(|it| it.expect("an entry").path());
        let mut segments: Vec<_> = segments.filter(|it| it.is_dir()).collect();
        segments.sort();
        let tape = Tape::open(folder.path()).expect("a recording");
        let next = tape.segments()[1].span().expect("batches").0;
        let next = next / SECOND_NS - 1_790_000_000;
        fs::write(segments[0].join("node.arrows"), "").expect("room");
        let said = |at: u64, seconds| {
            let (at, length) = (
                (1_790_000_000 + at).to_string(),
                Duration::from_secs(seconds),
            );
            let window = Window::of(folder.path(), Some(&at), Some(length), Duration::MAX);
            let answer = window.expect("a recording").answer(None, &Names::default());
            answer.map_or_else(|error| error.to_string(), |_| String::new())
        };
        let nothing = said(2, next - 3);
        assert!(nothing.starts_with("no batch in this part"), "{nothing}");
        assert_eq!(said(2, 30), "");
        let one = said(2, next - 2);
        assert!(one.contains("only one batch of this part"), "{one}");
    }

    /// The agent removes the oldest segments during the read.
    #[test]
    fn answer_covers_the_segments_that_remain() {
        let folder = tempfile::tempdir().expect("a folder");
        recorded_for(folder.path(), 45, 10);
        let window = Window::of(folder.path(), None, None, Duration::MAX).expect("a recording");
        let segments = window.tape.segments();
        assert!(segments.len() > 3);
        let answer = || window.answer(None, &Names::default());
        let begin = |answer: Answer| answer.recorded.expect("it is recorded").0;
        assert_eq!(begin(answer().expect("all")), 1_790_000_001 * SECOND_NS);
        let remove = |segment: &noctule_tape::Segment| {
            fs::remove_dir_all(segment.path()).expect("our folder");
        };
        segments[..2].iter().for_each(remove);
        let left = segments[2].span().expect("batches").0;
        assert_eq!(begin(answer().expect("the others")), left);
        let groups = window.answer_of_groups(&Names::default());
        assert_eq!(begin(groups.expect("the others")), left);
        segments[2..].iter().for_each(remove);
        let said = answer().err().expect("nothing is left").to_string();
        assert!(
            said.contains("the rest was removed while it was being read"),
            "{said}"
        );
    }

    /// The clock was set back by ten minutes, 20 s before the last batch.
    #[test]
    fn window_length_ignores_a_clock_set_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = recorder(folder.path(), 300);
        let wall = |tick: u64| 1_790_000_000 + tick - u64::from(tick > 1180) * 600;
        for tick in 1..=1200 {
            record(&recorder, tick, wall(tick));
        }
        assert!(recorder.close(Duration::from_secs(60)), "room");
        let window = |at: Option<&str>, seconds| {
            let length = Some(Duration::from_secs(seconds));
            let window = Window::of(folder.path(), at, length, Duration::MAX);
            window.expect("a recording").stretch.numbers()
        };
        assert_eq!(window(None, 100), (1100, 1200));
        assert_eq!(window(Some("-1m"), 30), (1140, 1170));
        let at = |tick| window(Some(&wall(tick).to_string()), 100);
        assert_eq!(at(500), (500, 600));
        assert_eq!(at(1130), (1130, 1200));
        // This time occurred twice; the later occurrence is selected.
        assert_eq!(at(590), (1190, 1200));
    }

    #[test]
    fn wrong_place_is_quoted_as_typed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        recorded(folder);
        let early = "1990-01-01T00:00";
        let place = |moment| Window::of_place("x@y", (folder, moment), None);
        refused(place(early), "x@y: nothing was recorded then");
        refused(place("soon"), "x@y: must be a time of day");
        let option = |at| Window::of_option(folder, Some(at), None, Duration::MAX);
        refused(option(early), "--at 1990-01-01T00:00: nothing was");
        refused(option("soon"), "--at soon: must be a time of day");
        let none = folder.join("none");
        let words = "none: no such folder; `noctule record -o FOLDER` makes a recording";
        refused(open(&none), words);
        refused(Window::of_option(&none, None, None, Duration::MAX), words);
        refused(open(&folder.join("lock")), "lock: not a folder");
    }
}
