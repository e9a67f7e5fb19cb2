//! Repositories, one module per entity. Each function takes the transaction it works in.

pub mod attempts;
pub mod audit;
pub mod blobs;
pub mod budgets;
pub mod changesets;
pub mod child_plans;
pub mod context_summaries;
pub mod contexts;
pub mod decisions;
pub mod definitions;
pub mod events;
pub mod invariants;
pub mod invocations;
pub mod item_sources;
pub mod leases;
pub mod messages;
pub mod permission_rules;
mod plan_queries;
mod plan_rollbacks;
pub mod plan_steps;
pub mod plans;
pub mod pools;
pub mod projects;
pub mod pushes;
pub mod request_keys;
pub mod resource_types;
pub mod resources;
pub mod runs;
pub mod sandboxes;
pub mod search;
pub mod sessions;
pub mod tasks;
pub mod tokens;
pub mod tracker_outbox;
pub mod turns;
pub mod usage_metrics;
pub mod validations;
pub mod work_items;

use cleveragents_domain::check_filter;
use cleveragents_domain::identity::Namespaces;
use serde_json::Value;

use crate::error::Error;

/// Namespaces as a statement parameter: `*` for all, `-` for all except `local`, otherwise the names separated by
/// commas. Statements test membership with `REPLACE`, which is case-sensitive.
fn visible(namespaces: &Namespaces) -> String {
    match namespaces {
        Namespaces::All => "*".to_owned(),
        Namespaces::AllButLocal => "-".to_owned(),
        Namespaces::Only(names) => names
            .iter()
            .flat_map(|name| [",", name.as_str(), ","])
            .collect(),
    }
}

/// Escapes a text for a `LIKE` pattern with the escape character `!`. Refuses texts that are too long.
fn like_text(text: &str) -> Result<String, Error> {
    check_filter(text)?;
    Ok(text
        .replace('!', "!!")
        .replace('%', "!%")
        .replace('_', "!_"))
}

/// Parses JSON that this crate wrote.
fn stored_json<T: serde::de::DeserializeOwned>(what: &'static str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::stored(what, format!("is not valid JSON: {error}")))
}

/// Serializes JSON. Maps with text keys always serialize.
fn json_text(value: &Value) -> String {
    value.to_string()
}
