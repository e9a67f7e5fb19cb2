//! Measures turns of the program with an endpoint on loopback, and its text search.

mod first_token;
mod programs;
mod search;
mod work;

use std::path::Path;

use serde_json::{Map, json};

use crate::{Findings, Row};

/// A row that compares two durations or sizes, each the best or the median of several rounds.
fn row(name: &str, (ours, other): (f64, f64), unit: &'static str, note: String) -> Row {
    Row {
        name: name.to_owned(),
        ours,
        other,
        ratio: ours / other,
        unit,
        note,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs the comparisons whose peers are available.
pub(crate) fn measure(
    agents: &Path,
    codex: Option<&Path>,
    rg: Option<&Path>,
    files: usize,
) -> anyhow::Result<Findings> {
    let mut rows = first_token::measure(agents)?;
    if let Some(codex) = codex {
        rows.extend(work::measure(agents, codex)?);
    }
    if let Some(rg) = rg {
        rows.extend(search::measure(agents, rg, files)?);
    }
    Ok(Findings {
        rows,
        ours: Map::new(),
        counts: json!({"files": files, "calls": work::CALLS}),
    })
}
