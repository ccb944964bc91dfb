//! The resource use of a process or group: the fields of a row, and the names of counters.

use noctule_model::{Counter, Counters, Measurable as _, Measured};

use crate::{Field, Type, Value};

/// The resource use of a row.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// The counters of the row.
    pub counters: Counters,
    /// The counters that are measured.
    pub measured: Measured,
    /// The frequency of reference cycles, if known.
    pub nominal_hertz: Option<u64>,
    /// CPU time by package in nanoseconds; empty if the machine has only one package.
    pub package_ns: Vec<(i32, u64)>,
}

impl Usage {
    fn count(&self, counter: Counter) -> Option<Value<'_>> {
        let count = self.measured.value(&self.counters, counter);
        count.map(Value::from)
    }

    fn seconds(&self, counter: Counter) -> Option<Value<'_>> {
        let ns = self.measured.value(&self.counters, counter);
        ns.map(Value::seconds)
    }
}

/// A field of a row.
#[derive(Debug)]
pub struct UsageField {
    /// The key, meaning and value.
    pub field: Field<Usage>,
    /// The counter, if the value comes from a single counter.
    pub counter: Option<NamedCounter>,
}

#[derive(Clone, Copy, Debug)]
pub struct NamedCounter {
    pub counter: Counter,
    /// The counter's column in recordings.
    pub column: &'static str,
    /// The counter's title in `top`.
    pub title: &'static str,
}

/// Returns the keys and values that are known, in order.
pub fn values(usage: &Usage) -> impl Iterator<Item = (&'static str, Value<'_>)> {
    let fields = USAGE.iter().map(|row| &row.field);
    fields.filter_map(|field| Some((field.key, (field.get)(usage)?)))
}

/// Returns the column of a counter in recordings.
pub fn column(counter: Counter) -> String {
    match counter {
        Counter::Wait(_) => format!("wait_{}_ns", counter.part()),
        Counter::PreemptedBy(_) => format!("preempted_by_{}", counter.part()),
        Counter::Softirq(_) => format!("softirqs_{}", counter.part()),
        Counter::Blocked(_) => format!("blocked_{}_ns", counter.part()),
        _ => named(counter).map_or_else(String::new, |row| row.column.to_owned()),
    }
}

/// Returns the title of a counter in `top`.
pub fn title(counter: Counter) -> String {
    match counter {
        Counter::Wait(_) => format!("wait {}", counter.part()),
        Counter::PreemptedBy(_) => format!("preempt. {}", counter.part()),
        Counter::Softirq(_) => format!("softirq {}", counter.part()),
        Counter::Blocked(_) => format!("blocked {}", counter.part()),
        _ => named(counter).map_or_else(String::new, |row| row.title.to_owned()),
    }
}

fn named(counter: Counter) -> Option<&'static NamedCounter> {
    let mut named = USAGE.iter().filter_map(|row| row.counter.as_ref());
    named.find(|row| row.counter == counter)
}

/// Defines the field of one counter. The getter is a method of [`Usage`].
macro_rules! counter {
    ($counter:ident, $key:literal, $type:ident $get:ident, $column:literal, $title:literal, $help:literal) => {
        UsageField {
            field: Field {
                key: $key,
                value_type: Type::$type,
                help: $help,
                get: |usage| usage.$get(Counter::$counter),
            },
            counter: Some(NamedCounter {
                counter: Counter::$counter,
                column: $column,
                title: $title,
            }),
        }
    };
}

/// The fields of a row, in the order in which formats write them.
#[rustfmt::skip]
pub const USAGE: &[UsageField] = &[
    counter!(CpuTime, "cpu.seconds", Number seconds, "cpu_ns", "CPU time",
        "time on a CPU"),
    counter!(Cycles, "cpu.cycles", Integer count, "cycles", "cycles",
        "CPU cycles"),
    counter!(ReferenceCycles, "cpu.reference_cycles", Integer count, "reference_cycles", "ref. cycles",
        "cycles at the nominal frequency"),
    counter!(Instructions, "cpu.instructions", Integer count, "instructions", "instructions",
        "retired instructions"),
    counter!(CacheMisses, "cpu.cache_misses", Integer count, "cache_misses", "cache misses",
        "last-level cache misses"),
    counter!(SiblingBusy, "cpu.sibling_busy_seconds", Number seconds, "sibling_busy_ns", "sibling busy",
        "time on a CPU while the other hardware thread of its core (SMT) was also busy"),
    PACKAGES,
    FREQUENCY,
    counter!(PageReads, "page_cache.reads", Integer count, "page_cache_reads", "page reads",
        "pages read through the page cache"),
    counter!(PageWrites, "page_cache.writes", Integer count, "page_cache_writes", "page writes",
        "page-cache pages dirtied"),
    SOFTIRQS,
    counter!(SwitchesVoluntary, "switches.voluntary", Integer count, "switches_voluntary", "voluntary sw.",
        "voluntary context switches"),
    counter!(SwitchesPreempted, "switches.preempted", Integer count, "switches_preempted", "preempted",
        "context switches because of preemption by another thread; if waits are not measured, also \
         because of a CPU quota"),
    counter!(SwitchesThrottled, "switches.throttled", Integer count, "switches_throttled", "throttled",
        "context switches because a CPU quota had run out"),
    WAIT,
    BLOCKED,
];

const PACKAGES: UsageField = UsageField {
    field: Field {
        key: "cpu.seconds_by_package",
        value_type: Type::Numbers,
        help: "time on a CPU by package (socket), with the kernel's package ids as keys; only on \
               machines with several packages",
        get: |usage| {
            let packages = usage.package_ns.iter();
            let packages = packages.map(|(id, ns)| (id.to_string(), *ns as f64 / 1e9));
            (!usage.package_ns.is_empty()).then(|| Value::Numbers(packages.collect()))
        },
    },
    counter: None,
};

const FREQUENCY: UsageField = UsageField {
    field: Field {
        key: "cpu.frequency_hertz",
        value_type: Type::Number,
        help: "average CPU frequency while running; absent if nothing ran",
        get: |usage| {
            let counters = &usage.counters;
            let hertz = counters.frequency_hertz(usage.measured, usage.nominal_hertz);
            hertz.filter(|hertz| hertz.is_finite()).map(Value::Number)
        },
    },
    counter: None,
};

const SOFTIRQS: UsageField = UsageField {
    field: Field {
        key: "softirqs",
        value_type: Type::Counts,
        help: "number of softirqs by vector: `hi`, `timer`, `net_tx`, `net_rx`, `block`, \
               `irq_poll`, `tasklet`, `sched`, `hrtimer`, `rcu`",
        get: |usage| {
            let value = |it| usage.measured.value(&usage.counters, it);
            let count = |it: Counter| Some((it.part(), value(it)?));
            let counts: Vec<_> = Counter::SOFTIRQS.into_iter().filter_map(count).collect();
            (!counts.is_empty()).then_some(Value::Counts(counts))
        },
    },
    counter: None,
};

const WAIT: UsageField = UsageField {
    field: Field {
        key: "wait.seconds",
        value_type: Type::Number,
        help: "run-queue latency: time that threads were runnable but not running, including \
               the elapsed part of waits that have not ended",
        // If a cause is not measured, its time is counted under another cause.
        get: |usage| {
            let waits = Counter::WAITS.into_iter();
            let waits = waits.filter_map(|wait| usage.measured.value(&usage.counters, wait));
            waits.reduce(|a, b| a + b).map(Value::seconds)
        },
    },
    counter: None,
};

const BLOCKED: UsageField = UsageField {
    field: Field {
        key: "blocked.seconds",
        value_type: Type::Numbers,
        help: "time that threads were blocked, in seconds, by class ([blocked.md](blocked.md)): \
               `poll`, `timer`, `pipe`, `unix`, `lock`, `loopback`, `network`, `disk`, \
               `filesystem`, `memory`, `writeback`, `child`, `stopped`, `other`",
        get: |usage| {
            let seconds = |it: Counter| (it.part().to_owned(), usage.counters[it] as f64 / 1e9);
            let measured = usage.measured.has_blocked();
            measured.then(|| Value::Numbers(Counter::BLOCKED.map(seconds).to_vec()))
        },
    },
    counter: None,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_counter_has_a_column_and_a_title_of_its_own() {
        for name in [column, title] {
            let names: BTreeSet<String> = Counter::all().map(name).collect();
            assert_eq!(names.len(), Counter::COUNT);
            assert!(!names.contains(""));
        }
    }
}
