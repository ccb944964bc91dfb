//! The JSON of one group in a time span, for the page: those figures of `noctule why` that the
//! agent keeps.

use noctule_analysis::{Account, OwnerId, PairSum, Party, TimeSpanQuery, TimelineView};
use noctule_model::{Cause, Counter, CpuWeight, Level};
use serde::Serialize;

use super::history::{HurtJson, OwnerVerdict, PartyJson, name};
use super::owner::OwnerJson;
use super::settings::SettingsJson;
use super::waits::{Named, blocked};
use super::{seconds, to_string};

/// Maximum number of culprits and of victims.
const PARTIES: usize = 8;
/// Maximum number of culprits whose processes are listed.
const WITH_PROCESSES: usize = 3;

/// Values that are read from files or from the last batch.
#[derive(Debug, Default)]
pub struct GroupFacts {
    /// The group's settings; `None` for a recording and until they are read.
    pub settings: Option<GroupSettings>,
    /// Whether the power comes from the model in the configuration instead of a meter.
    pub is_model: bool,
    /// Whether the processes may be shown and belong to the requested span.
    pub has_processes: bool,
    /// The time of the verdict, in nanoseconds since 1970; the end of the span by default.
    pub judged_unix_ns: Option<u64>,
}

/// The settings of a group, as read from the kernel's files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSettings {
    /// Number of CPUs that the group's quota allows.
    pub limit: Option<f64>,
    pub weight: Option<CpuWeight>,
    pub idle: Option<bool>,
    /// CPUs that the group's threads may use.
    pub allowed: Option<Vec<u32>>,
    /// The kernel's PSI `some avg10` of the CPU, in percent.
    pub pressure: Option<f64>,
}

/// A process of a group, over the last interval.
#[derive(Clone, Debug, Serialize)]
pub struct GroupProcess {
    #[serde(rename = "process.pid")]
    pub pid: u32,
    #[serde(rename = "process.executable.name")]
    pub name: String,
    #[serde(
        rename = "process.command_line",
        skip_serializing_if = "Option::is_none"
    )]
    pub command_line: Option<String>,
    /// Number of CPUs that the process used.
    pub cpus: f64,
}

/// Returns the API's response to `group`; `None` if no owner has this number. `processes` returns
/// the busiest processes of a party.
pub fn group_json(
    view: &TimelineView,
    id: OwnerId,
    query: &TimeSpanQuery,
    facts: &GroupFacts,
    mut processes: impl FnMut(&Party) -> Vec<GroupProcess>,
) -> Option<String> {
    let party = view.parties.get(&id)?;
    let span = view.range(query);
    let owner = span.owners.iter().find(|it| it.id == id);
    let has_waits = span.has_waits();
    let causes = owner.filter(|_| has_waits).map(|owner| {
        let measured = Cause::ALL.into_iter();
        let measured = measured.filter(|cause| span.measured.has(Counter::Wait(*cause)));
        let causes = measured.map(|it| (it.name(), seconds(owner.wait_ns[it as usize])));
        Named(causes.collect())
    });
    let mut listed = |party: &Party| facts.has_processes.then(|| processes(party));
    let own = listed(party);
    let mut side = |is: &dyn Fn(&PairSum) -> Option<OwnerId>, with: usize| {
        let pairs = span.pairs.iter();
        let found = pairs.filter_map(|pair| Some((is(pair)?, pair.wait_ns)));
        let rows = (0..)
            .zip(found.take(PARTIES))
            .filter_map(|(place, (id, wait_ns))| {
                let party = view.parties.get(&id)?;
                Some(SideJson {
                    party: PartyJson::new(Some(id), party, wait_ns),
                    processes: if place < with { listed(party) } else { None },
                })
            });
        rows.collect::<Vec<_>>()
    };
    let culprits = side(
        &|it| (it.victim == id).then_some(it.culprit),
        WITH_PROCESSES,
    );
    let victims = side(&|it| (it.culprit == id).then_some(it.victim), 0);
    let covered = span.buckets.iter().map(|step| step.covered_ns).sum();
    let at = facts.judged_unix_ns.unwrap_or(query.to_unix_ns);
    let judged = view.judged_at(at).filter(|_| has_waits);
    let findings = judged.map(|window| &window.findings);
    let hurt = findings.and_then(|all| all.iter().find(|hurt| hurt.id == Some(id)));
    let account = view.account(id, span.from_unix_ns, query.to_unix_ns);
    Some(to_string(&Answer {
        id,
        name: name(party),
        owner: OwnerJson::of_party(party, Level::Container),
        from: span.from_unix_ns,
        to: query.to_unix_ns,
        cpus: span.cpus,
        covered: seconds(covered),
        cpu: owner.map(|it| seconds(it.cpu_ns)),
        wait: owner
            .filter(|_| has_waits)
            .map(|it| seconds(it.waited_ns())),
        hurts: owner.filter(|_| has_waits).map(|it| seconds(it.hurts_ns)),
        causes,
        energy: owner.and_then(|it| span.watts(it)).map(|watts| Energy {
            watts,
            is_model: facts.is_model,
        }),
        account: account.as_ref().filter(|_| has_waits).map(AccountJson::new),
        verdict: judged.map(|window| OwnerVerdict::of(id, &window.verdicts())),
        hurt: hurt.map(HurtJson::new),
        culprits,
        victims,
        processes: own,
        settings: facts.settings.as_ref().map(LimitsJson::new),
    }))
}

#[derive(Serialize)]
struct Answer<'a> {
    id: OwnerId,
    name: String,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    #[serde(rename = "from_unix_nano")]
    from: u64,
    #[serde(rename = "to_unix_nano")]
    to: u64,
    cpus: u32,
    #[serde(rename = "covered_seconds")]
    covered: f64,
    #[serde(rename = "cpu.seconds", skip_serializing_if = "Option::is_none")]
    cpu: Option<f64>,
    #[serde(rename = "wait.seconds", skip_serializing_if = "Option::is_none")]
    wait: Option<f64>,
    #[serde(rename = "hurts.seconds", skip_serializing_if = "Option::is_none")]
    hurts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causes: Option<Named<f64>>,
    #[serde(flatten)]
    energy: Option<Energy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<AccountJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<OwnerVerdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hurt: Option<HurtJson<'a>>,
    culprits: Vec<SideJson<'a>>,
    victims: Vec<SideJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<GroupProcess>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<LimitsJson<'a>>,
}

/// The mean power charged to the group.
#[derive(Serialize)]
struct Energy {
    #[serde(rename = "energy.watts")]
    watts: f64,
    #[serde(rename = "energy.is_model")]
    is_model: bool,
}

/// How the group's threads spent their time, in the judged windows of the span.
#[derive(Serialize)]
struct AccountJson {
    from_unix_nano: u64,
    to_unix_nano: u64,
    judged_seconds: f64,
    #[serde(rename = "cpu.seconds")]
    cpu: f64,
    #[serde(rename = "wait.seconds")]
    wait: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<Named<f64>>,
}

/// A culprit or victim of the group, with its busiest processes.
#[derive(Serialize)]
struct SideJson<'a> {
    #[serde(flatten)]
    party: PartyJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<GroupProcess>>,
}

#[derive(Serialize)]
struct LimitsJson<'a> {
    #[serde(rename = "cpu.limit", skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
    #[serde(flatten)]
    settings: SettingsJson<'a>,
}

impl AccountJson {
    fn new(account: &Account) -> Self {
        Self {
            from_unix_nano: account.from_unix_ns,
            to_unix_nano: account.to_unix_ns,
            judged_seconds: seconds(account.judged_ns),
            cpu: seconds(account.cpu_ns),
            wait: seconds(account.wait_ns),
            blocked: account.has_blocked.then(|| blocked(&account.blocked_ns)),
        }
    }
}

impl<'a> LimitsJson<'a> {
    fn new(of: &'a GroupSettings) -> Self {
        Self {
            limit: of.limit,
            settings: SettingsJson::new(of.weight, of.idle, of.allowed.as_deref(), of.pressure),
        }
    }
}
