//! Figures of what was done, for Prometheus: read from the database when they are asked for.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_store::figures::{self, Durations, Figures, RANGES};
use cleveragents_store::{Engine, Error};
use tokio::sync::Mutex;

/// How long figures are believed. Counting them costs more the more was done.
const BELIEVED: Duration = Duration::from_secs(2);

/// The figures that were counted last.
#[derive(Default)]
pub(crate) struct Counted(Mutex<Option<(Instant, Arc<Figures>)>>);

impl Counted {
    /// The figures, which one who asks counts for all who ask meanwhile.
    pub(crate) async fn now(&self, engine: &Arc<Engine>) -> Result<Arc<Figures>, Error> {
        let mut known = self.0.lock().await;
        if let Some((since, figures)) = known.as_ref()
            && since.elapsed() < BELIEVED
        {
            return Ok(Arc::clone(figures));
        }
        let engine = Arc::clone(engine);
        let counted = crate::blocking(move || engine.read(|reader| figures::gather(reader)));
        let figures = Arc::new(counted.await?);
        *known = Some((Instant::now(), Arc::clone(&figures)));
        Ok(figures)
    }
}

/// The unit in which a duration is told.
#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    #[expect(clippy::cast_precision_loss, reason = "a duration is told in a float")]
    fn of(self, micros: u64) -> f64 {
        match self {
            Self::Seconds => micros as f64 / 1e6,
            Self::Milliseconds => micros as f64 / 1e3,
        }
    }
}

/// Writes figures as OpenMetrics does.
pub(crate) fn write(text: &mut String, figures: &Figures) -> fmt::Result {
    histogram(
        text,
        ("plan_duration_seconds", "How long plans were worked on"),
        Unit::Seconds,
        &labelled("phase", &figures.plans),
    )?;
    counter(text, ("plan_cost_usd", "What plans cost"), |text, name| {
        let cost = Unit::Seconds.of(figures.plan_cost_micro_usd);
        writeln!(text, "{name} {cost}")
    })?;
    for (name, about, count) in [
        (
            "plan_decisions_count",
            "Decisions made for plans",
            figures.decisions,
        ),
        (
            "plan_child_plans_count",
            "Plans that are parts of others",
            figures.child_plans,
        ),
    ] {
        counter(text, (name, about), |text, name| {
            writeln!(text, "{name} {count}")
        })?;
    }
    histogram(
        text,
        ("actor_invocation_duration_ms", "How long actors ran"),
        Unit::Milliseconds,
        &[(String::new(), &figures.runs)],
    )?;
    counter(
        text,
        ("actor_token_usage", "Tokens of models"),
        |text, name| {
            writeln!(
                text,
                "{name}{{direction=\"input\"}} {}",
                figures.input_tokens
            )?;
            writeln!(
                text,
                "{name}{{direction=\"output\"}} {}",
                figures.output_tokens
            )
        },
    )?;
    histogram(
        text,
        ("tool_invocation_duration_ms", "How long tools took"),
        Unit::Milliseconds,
        &labelled("tool", &figures.tools),
    )?;
    counter(
        text,
        ("tool_errors", "How often tools failed"),
        |text, name| {
            for (tool, count) in &figures.tool_errors {
                writeln!(text, "{name}{{tool=\"{}\"}} {count}", escaped(tool))?;
            }
            Ok(())
        },
    )?;
    histogram(
        text,
        (
            "sandbox_operation_duration_ms",
            "How long work on sandboxes took",
        ),
        Unit::Milliseconds,
        &labelled("operation", &figures.sandboxes),
    )
}

fn labelled<'f>(
    label: &str,
    durations: &'f BTreeMap<String, Durations>,
) -> Vec<(String, &'f Durations)> {
    let named = |name: &String| format!("{label}=\"{}\"", escaped(name));
    durations
        .iter()
        .map(|(name, durations)| (named(name), durations))
        .collect()
}

/// A value between quotation marks.
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
        let more = if label.is_empty() { "" } else { "," };
        let mut so_far = 0;
        for (number, count) in durations.counts.iter().enumerate() {
            so_far += count;
            let end = RANGES.get(number);
            let end = end.map_or_else(|| "+Inf".to_owned(), |end| format!("{:?}", unit.of(*end)));
            writeln!(
                text,
                "cleveragents_{name}_bucket{{{label}{more}le=\"{end}\"}} {so_far}"
            )?;
        }
        let labels = if label.is_empty() {
            String::new()
        } else {
            format!("{{{label}}}")
        };
        let sum = unit.of(durations.sum);
        writeln!(text, "cleveragents_{name}_sum{labels} {sum:?}")?;
        writeln!(text, "cleveragents_{name}_count{labels} {so_far}")?;
    }
    Ok(())
}
