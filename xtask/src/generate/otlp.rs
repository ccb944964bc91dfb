//! Generates docs/otlp.md from the metric table and its names in OpenTelemetry.

use std::fmt::Write as _;

use noctule_model::{Kind, METRICS, Metric, OtelKind, OtelMetric, SELF_METRICS};

const HEAD: &str = include_str!("otlp.txt");

pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "\n| name | attributes | unit | instrument | in `/metrics` |\n|---|---|---|---|---|\n",
    );
    for metric in METRICS {
        // Levels without a name in the semantic conventions share a line.
        let levels = metric.source.levels();
        let (own, standard): (Vec<&str>, Vec<&str>) = levels
            .iter()
            .partition(|level| OtelMetric::new(level, metric).name.starts_with("noctule."));
        for level in standard {
            line(&mut page, level, metric, &OtelMetric::new(level, metric));
        }
        if let [one] = own[..] {
            line(&mut page, one, metric, &OtelMetric::new(one, metric));
        } else if let Some(first) = own.first() {
            let mut otel = OtelMetric::new(first, metric);
            let (begin, several) = (format!("noctule.{first}."), own.join("\\|"));
            otel.name = otel
                .name
                .replacen(&begin, &format!("noctule.({several})."), 1);
            line(&mut page, &format!("({several})"), metric, &otel);
        }
    }
    for metric in SELF_METRICS {
        line(&mut page, "", metric, &OtelMetric::new("", metric));
    }
    page
}

fn line<S>(page: &mut String, level: &str, metric: &Metric<S>, otel: &OtelMetric) {
    let fixed = otel.attributes.iter();
    let fixed = fixed.map(|(key, value)| format!("`{key}={value}`"));
    let labels = metric.labels.iter().map(|label| format!("`{label}`"));
    let attributes: Vec<String> = fixed.chain(labels).collect();
    let instrument = match otel.kind {
        OtelKind::Sum => "counter",
        OtelKind::UpDownSum => "up-down counter",
        OtelKind::Gauge => "gauge",
        OtelKind::ExponentialHistogram => "exponential histogram",
    };
    let separator = if level.is_empty() { "" } else { "_" };
    let suffix = if metric.kind == Kind::Counter {
        "_total"
    } else {
        ""
    };
    let _ = writeln!(
        page,
        "| `{}` | {} | `{}` | {instrument} | `noctule_{level}{separator}{}{suffix}` |",
        otel.name,
        attributes.join(", "),
        otel.unit,
        metric.name
    );
}
