//! [`UsageMetrics`]: what plans, actors, tools and sandboxes did, counted from the stored rows, so that it survives
//! restarts and includes other processes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::stored_json;
use crate::error::Error;
use crate::transaction::Reader;

/// The upper ends of the ranges into which durations are counted, in microseconds.
pub const RANGES: &[u64] = &[
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
    3_600_000_000,
];

/// How many tools are told apart; names come from models too.
const TOOLS: u64 = 200;

/// How often something took how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durations {
    /// How many there are in each of [`RANGES`], and beyond the last.
    pub counts: Vec<u64>,
    /// All together, in microseconds.
    pub sum: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            counts: vec![0; RANGES.len() + 1],
            sum: 0,
        }
    }
}

impl Durations {
    fn add(&mut self, range: usize, count: u64, sum: u64) {
        if let Some(known) = self.counts.get_mut(range) {
            *known += count;
            self.sum += sum;
        }
    }

    fn observe(&mut self, micros: u64) {
        let range = RANGES.iter().position(|end| micros <= *end);
        self.add(range.unwrap_or(RANGES.len()), 1, micros);
    }
}

/// What was done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageMetrics {
    /// How long plans were worked on, by phase.
    pub plans: BTreeMap<String, Durations>,
    /// What plans cost, in millionths of a dollar.
    pub plan_cost_micro_usd: u64,
    /// How many decisions were made for plans.
    pub decisions: u64,
    /// How many plans are parts of others.
    pub child_plans: u64,
    /// How long actors ran.
    pub runs: Durations,
    /// How many tokens models read.
    pub input_tokens: u64,
    /// How many tokens models wrote.
    pub output_tokens: u64,
    /// How long tools took, by tool.
    pub tools: BTreeMap<String, Durations>,
    /// How often a tool failed, by tool.
    pub tool_errors: BTreeMap<String, u64>,
    /// How long work on sandboxes took: `create` and `commit`.
    pub sandboxes: BTreeMap<String, Durations>,
}

/// Counts what was done so far.
pub fn gather(reader: &mut dyn Reader) -> Result<UsageMetrics, Error> {
    let mut metrics = UsageMetrics::default();
    let mut row = reader
        .query_first(
            "SELECT (SELECT CAST(COALESCE(SUM(cost_micro_usd), 0) AS BIGINT) FROM plans), \
             (SELECT COUNT(*) FROM plan_decisions), \
             (SELECT COUNT(*) FROM plans WHERE parent_plan_id IS NOT NULL), \
             (SELECT CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) FROM sessions), \
             (SELECT CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) FROM sessions)",
            &[],
        )?
        .ok_or_else(|| Error::stored("the metrics", "are missing"))?;
    metrics.plan_cost_micro_usd = row.take()?;
    metrics.decisions = row.take()?;
    metrics.child_plans = row.take()?;
    metrics.input_tokens = row.take()?;
    metrics.output_tokens = row.take()?;
    let runs = by_range("''", "runs WHERE ended_at IS NOT NULL", "ended_at");
    reader.query_each(&runs, &[], &mut |mut row| {
        let _label: String = row.take()?;
        let (range, count, sum): (u64, u64, u64) = (row.take()?, row.take()?, row.take()?);
        metrics.runs.add(range_index(range), count, sum);
        Ok(())
    })?;
    let often = format!(
        "tool_invocations WHERE outcome IN ('succeeded', 'failed') AND tool IN \
         (SELECT tool FROM tool_invocations GROUP BY tool ORDER BY COUNT(*) DESC, tool LIMIT {TOOLS})"
    );
    reader.query_each(
        &by_range("tool", &often, "finished_at"),
        &[],
        &mut |mut row| {
            let tool: String = row.take()?;
            let (range, count, sum): (u64, u64, u64) = (row.take()?, row.take()?, row.take()?);
            let durations = metrics.tools.entry(tool).or_default();
            durations.add(range_index(range), count, sum);
            Ok(())
        },
    )?;
    let errors = format!(
        "SELECT tool, COUNT(*) FROM tool_invocations WHERE outcome = 'failed' \
         GROUP BY tool ORDER BY 2 DESC, tool LIMIT {TOOLS}"
    );
    reader.query_each(&errors, &[], &mut |mut row| {
        metrics.tool_errors.insert(row.take()?, row.take()?);
        Ok(())
    })?;
    worked(reader, &mut metrics)?;
    Ok(metrics)
}

fn range_index(range: u64) -> usize {
    usize::try_from(range).unwrap_or(RANGES.len())
}

/// A statement that counts durations by a label and by range.
fn by_range(label: &str, from: &str, end: &str) -> String {
    let took = format!("({end} - started_at)");
    let ranges: Vec<String> = RANGES
        .iter()
        .enumerate()
        .map(|(number, range)| format!("WHEN {took} <= {range} THEN {number}"))
        .collect();
    let ranges = ranges.join(" ");
    let beyond = RANGES.len();
    format!(
        "SELECT {label}, CAST(CASE {ranges} ELSE {beyond} END AS BIGINT), COUNT(*), \
         CAST(SUM(CASE WHEN {took} > 0 THEN {took} ELSE 0 END) AS BIGINT) FROM {from} GROUP BY 1, 2"
    )
}

/// How long phases of plans and work on sandboxes took, from the log: from the event that begins it to the one that
/// ends it. The order of the index is used, which holds no messages.
fn worked(reader: &mut dyn Reader, metrics: &mut UsageMetrics) -> Result<(), Error> {
    let mut begun: Option<(String, String, i64)> = None;
    reader.query_each(
        "SELECT subject, kind, payload, occurred_at FROM events \
         WHERE kind <> 'session.message_appended' AND kind IN ('plan.phase_changed', 'plan.state_changed', \
         'plan.applied', 'plan.cancelled', 'plan.errored', 'sandbox.creating', 'sandbox.created', \
         'sandbox.applying', 'sandbox.applied', 'sandbox.apply_undone') ORDER BY subject, position",
        &[],
        &mut |mut row| {
            let (subject, kind): (String, String) = (row.take()?, row.take()?);
            let payload: String = row.take()?;
            let at: i64 = row.take()?;
            let what = match kind.as_str() {
                "sandbox.creating" => Moment::Begins("create".to_owned()),
                "sandbox.applying" => Moment::Begins("commit".to_owned()),
                other if other.starts_with("sandbox.") => Moment::Ends,
                _ => of_plan(&stored_json("the payload of an event", &payload)?),
            };
            match what {
                Moment::Begins(name) => begun = Some((subject, name, at)),
                Moment::Ends => {
                    if let Some((whose, name, since)) = begun.take()
                        && whose == subject
                    {
                        let of = if kind.starts_with("sandbox.") {
                            &mut metrics.sandboxes
                        } else {
                            &mut metrics.plans
                        };
                        let took = u64::try_from(at - since).unwrap_or_default();
                        of.entry(name).or_default().observe(took);
                    }
                }
                Moment::Neither => {}
            }
            Ok(())
        },
    )
}

enum Moment {
    Begins(String),
    Ends,
    Neither,
}

/// What the move of a plan means: a phase is worked on from `processing` until it is in any other state.
fn of_plan(payload: &Value) -> Moment {
    let to = payload
        .get("to")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let from = payload
        .get("from")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match to.split_once('/') {
        Some((phase, "processing")) => Moment::Begins(phase.to_owned()),
        _ if from.ends_with("/processing") => Moment::Ends,
        _ => Moment::Neither,
    }
}
