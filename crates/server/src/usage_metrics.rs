//! Usage metrics of plans, actors, tools and sandboxes for Prometheus, read from the database on request.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_application::{
    DURATION_BUCKET_BOUNDS, Durations, Services, StoreError, UsageMetrics,
};
use tokio::sync::Mutex;

/// Maximum age of cached metrics: counting takes longer as the database grows.
const CACHE_TIME: Duration = Duration::from_secs(2);

/// The latest metrics.
#[derive(Default)]
pub(crate) struct MetricsCache(Mutex<Option<(Instant, Arc<UsageMetrics>)>>);

impl MetricsCache {
    /// Returns the metrics. Concurrent requests share one query.
    pub(crate) async fn get(&self, services: &Services) -> Result<Arc<UsageMetrics>, StoreError> {
        let mut known = self.0.lock().await;
        if let Some((counted_at, metrics)) = known.as_ref()
            && counted_at.elapsed() < CACHE_TIME
        {
            return Ok(Arc::clone(metrics));
        }
        let usage = services.usage();
        let counted = crate::blocking(move || usage.metrics());
        let metrics = Arc::new(counted.await?);
        *known = Some((Instant::now(), Arc::clone(&metrics)));
        Ok(metrics)
    }
}

/// The unit of a duration metric.
#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    #[expect(clippy::cast_precision_loss, reason = "metrics hold floats")]
    fn convert_micros(self, micros: u64) -> f64 {
        match self {
            Self::Seconds => micros as f64 / 1e6,
            Self::Milliseconds => micros as f64 / 1e3,
        }
    }
}

/// Writes metrics in the OpenMetrics format.
pub(crate) fn write(text: &mut String, metrics: &UsageMetrics) -> fmt::Result {
    histogram(
        text,
        ("plan_duration_seconds", "Duration of work on plans"),
        Unit::Seconds,
        &labelled("phase", &metrics.plans),
    )?;
    counter(text, ("plan_cost_usd", "Cost of plans"), |text, name| {
        let cost = Unit::Seconds.convert_micros(metrics.plan_cost_micro_usd);
        writeln!(text, "{name} {cost}")
    })?;
    for (name, about, count) in [
        (
            "plan_decisions_count",
            "Decisions made for plans",
            metrics.decisions,
        ),
        ("plan_child_plans_count", "Child plans", metrics.child_plans),
    ] {
        counter(text, (name, about), |text, name| {
            writeln!(text, "{name} {count}")
        })?;
    }
    histogram(
        text,
        (
            "actor_invocation_duration_ms",
            "Duration of actor invocations",
        ),
        Unit::Milliseconds,
        &[(String::new(), &metrics.runs)],
    )?;
    counter(
        text,
        ("actor_token_usage", "Tokens used by models"),
        |text, name| {
            writeln!(
                text,
                "{name}{{direction=\"input\"}} {}",
                metrics.input_tokens
            )?;
            writeln!(
                text,
                "{name}{{direction=\"output\"}} {}",
                metrics.output_tokens
            )
        },
    )?;
    histogram(
        text,
        ("tool_invocation_duration_ms", "Duration of tool calls"),
        Unit::Milliseconds,
        &labelled("tool", &metrics.tools),
    )?;
    counter(text, ("tool_errors", "Failed tool calls"), |text, name| {
        for (tool, count) in &metrics.tool_errors {
            writeln!(text, "{name}{{tool=\"{}\"}} {count}", escaped(tool))?;
        }
        Ok(())
    })?;
    histogram(
        text,
        (
            "sandbox_operation_duration_ms",
            "Duration of sandbox operations",
        ),
        Unit::Milliseconds,
        &labelled("operation", &metrics.sandboxes),
    )
}

fn labelled<'f>(
    label: &str,
    durations: &'f BTreeMap<String, Durations>,
) -> Vec<(String, &'f Durations)> {
    let label_pair = |name: &String| format!("{label}=\"{}\"", escaped(name));
    durations
        .iter()
        .map(|(name, durations)| (label_pair(name), durations))
        .collect()
}

/// Escapes a label value.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn counter(
    text: &mut String,
    (name, about): (&str, &str),
    values: impl FnOnce(&mut String, &str) -> fmt::Result,
) -> fmt::Result {
    writeln!(text, "# HELP cleveragents_{name} {about}.")?;
    writeln!(text, "# TYPE cleveragents_{name} counter")?;
    values(text, &format!("cleveragents_{name}_total"))
}

fn histogram(
    text: &mut String,
    (name, about): (&str, &str),
    unit: Unit,
    all: &[(String, &Durations)],
) -> fmt::Result {
    writeln!(text, "# HELP cleveragents_{name} {about}.")?;
    writeln!(text, "# TYPE cleveragents_{name} histogram")?;
    for (label, durations) in all {
        let separator = if label.is_empty() { "" } else { "," };
        let mut cumulative = 0;
        for (number, count) in durations.counts.iter().enumerate() {
            cumulative += count;
            let end = DURATION_BUCKET_BOUNDS.get(number);
            let end = end.map_or_else(
                || "+Inf".to_owned(),
                |end| format!("{:?}", unit.convert_micros(*end)),
            );
            writeln!(
                text,
                "cleveragents_{name}_bucket{{{label}{separator}le=\"{end}\"}} {cumulative}"
            )?;
        }
        let labels = if label.is_empty() {
            String::new()
        } else {
            format!("{{{label}}}")
        };
        let sum = unit.convert_micros(durations.sum);
        writeln!(text, "cleveragents_{name}_sum{labels} {sum:?}")?;
        writeln!(text, "cleveragents_{name}_count{labels} {cumulative}")?;
    }
    Ok(())
}
