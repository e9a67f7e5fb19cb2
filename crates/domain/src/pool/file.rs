//! Parses a pool from its YAML file. Every error gives line, column and a fix.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{
    CODE_TIER, ItemQuery, OutcomeRules, PoolBudgets, PoolDefinition, PoolLimits, PoolRole,
    PoolShare, Tier,
};
use crate::yaml::{self, Expand, Fault, Variables};
use crate::{
    ActorName, DefinitionFault, Hint, MicroUsd, Name, Priority, Severity, Ttl, WorkItemKind,
    WorkItemState, checked_labels,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PoolHeader {
    /// Version of the format: 3.0.
    #[schemars(with = "Option<Value>")]
    version: Option<Spanned<Value>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PoolFile {
    cleveragents: Option<PoolHeader>,
    /// Name: `namespace/name`; without a namespace it is in `local/`.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// One sentence.
    #[schemars(with = "Option<String>")]
    description: Option<Spanned<String>>,
    #[schemars(with = "PoolRole")]
    role: Spanned<PoolRole>,
    /// Project whose items the pool works on.
    #[schemars(with = "String")]
    project: Spanned<String>,
    #[serde(default)]
    query: QueryEntry,
    /// States from which the pool takes items; those of its role when not given.
    #[schemars(with = "Option<Vec<WorkItemState>>")]
    states: Option<Vec<Spanned<WorkItemState>>>,
    /// Action whose plans do the work; the built-in one of the role when not given.
    #[schemars(with = "Option<String>")]
    action: Option<Spanned<String>>,
    /// Actor that reviews the results of plans.
    #[schemars(with = "Option<String>")]
    reviewer: Option<Spanned<String>>,
    /// Actors, cheapest first. The roles `merge` and `watch` run no model and have no tiers.
    #[serde(default)]
    tiers: Vec<TierEntry>,
    /// Failed attempts per tier before the next tier: 2 when not given.
    #[schemars(with = "Option<u32>", range(min = 1, max = 20))]
    attempts_per_tier: Option<Spanned<u32>>,
    #[serde(default)]
    limits: LimitsEntry,
    #[serde(default)]
    share: ShareEntry,
    #[serde(default)]
    budget: BudgetEntry,
    #[serde(default)]
    outcomes: OutcomesEntry,
}

/// The items that the pool works on. A field that is left out accepts everything.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QueryEntry {
    #[schemars(with = "Option<Vec<WorkItemKind>>")]
    kinds: Option<Vec<Spanned<WorkItemKind>>>,
    /// Labels that an item needs, all of them.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    labels: Vec<Spanned<String>>,
    /// Labels that an item must not have.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    without_labels: Vec<Spanned<String>>,
    #[serde(default)]
    milestones: Vec<String>,
    minimum_priority: Option<Priority>,
    maximum_points: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TierEntry {
    /// Name, such as `cheap`.
    #[schemars(with = "String")]
    name: Spanned<String>,
    #[schemars(with = "String")]
    actor: Spanned<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LimitsEntry {
    /// Attempts that run at the same time, on all machines together: 1 when not given.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000))]
    workers: Option<Spanned<u32>>,
    /// Items of the pool with a change that is not merged.
    #[schemars(with = "Option<u32>", range(min = 1))]
    open_changes: Option<Spanned<u32>>,
    /// Maximum number of items of the project per state. A full queue stops the pool.
    #[serde(default)]
    downstream: BTreeMap<WorkItemState, u32>,
    /// Time that an item may spend in a state before the user gets it, such as `12h` or `3d`: 3d when not given.
    #[schemars(with = "Option<String>")]
    deadline: Option<Spanned<String>>,
    /// Duration of the lease of an attempt without a heartbeat, such as `5m`.
    #[schemars(with = "Option<String>")]
    lease: Option<Spanned<String>>,
    /// Maximum number of consecutive attempts that end without being charged, such as failures of the environment, before
    /// the user gets the item: 5 when not given.
    #[schemars(with = "Option<u32>", range(min = 1, max = 100))]
    uncharged_attempts: Option<Spanned<u32>>,
    /// Times that a change may be sent back before the user gets the item: 3 when not given.
    #[schemars(with = "Option<u32>", range(min = 1, max = 100))]
    review_rounds: Option<Spanned<u32>>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShareEntry {
    /// Weight among all pools: 1 when not given.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000))]
    weight: Option<Spanned<u32>>,
    /// Workers that the pool gets before others get more than their own minimum: 0 when not given.
    #[schemars(with = "Option<u32>", range(max = 1000))]
    minimum: Option<Spanned<u32>>,
}

/// Maximum amounts in US dollars.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BudgetEntry {
    /// Reserved for each attempt before it starts: 1 when not given.
    #[schemars(with = "Option<f64>", range(min = 0))]
    attempt: Option<Spanned<f64>>,
    #[schemars(with = "Option<f64>", range(min = 0))]
    item: Option<Spanned<f64>>,
    #[schemars(with = "Option<f64>", range(min = 0))]
    day: Option<Spanned<f64>>,
    #[schemars(with = "Option<f64>", range(min = 0))]
    total: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutcomesEntry {
    /// Findings of this severity or worse block a review: `high` when not given.
    blocking_severity: Option<Severity>,
    /// Names of gates that have to pass.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    required_gates: Vec<Spanned<String>>,
    /// Confidence in percent below which findings are not filed as new: 50 when not given.
    #[schemars(with = "Option<u8>", range(max = 100))]
    minimum_confidence: Option<Spanned<u8>>,
    /// Labels that triage may set.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    labels: Vec<Spanned<String>>,
}

fn rule<T>(
    place: &Spanned<T>,
    message: impl Into<String>,
    fix: impl Into<Hint>,
) -> DefinitionFault {
    DefinitionFault::Rule(Fault::at(place, message).fixed_by(fix))
}

/// Checks that a number is in a range.
fn bounded(
    given: Option<&Spanned<u32>>,
    field: &str,
    range: std::ops::RangeInclusive<u32>,
    default: u32,
) -> Result<u32, DefinitionFault> {
    let Some(given) = given else {
        return Ok(default);
    };
    if range.contains(&given.value) {
        return Ok(given.value);
    }
    Err(rule(
        given,
        format!("`{field}` cannot be {}", given.value),
        format!("write a number from {} to {}", range.start(), range.end()),
    ))
}

/// Parses a duration such as `90s`, `5m`, `12h` or `3d`.
fn seconds(written: &Spanned<String>, field: &str) -> Result<u64, DefinitionFault> {
    let text = written.value.trim();
    let wrong = || {
        rule(
            written,
            format!("`{field}` cannot be `{text}`"),
            "write a whole number and a unit: s, m, h or d, such as `12h`",
        )
    };
    let unit = match text.chars().next_back() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    // 100 years; larger numbers are mistakes and would overflow.
    let total = number
        .checked_mul(unit)
        .filter(|total| (1..3_200_000_000).contains(total));
    total.ok_or_else(wrong)
}

fn amount(given: Option<&Spanned<f64>>, field: &str) -> Result<Option<MicroUsd>, DefinitionFault> {
    let Some(given) = given else {
        return Ok(None);
    };
    let amount = MicroUsd::from_usd_rounded_up(given.value).ok_or_else(|| {
        rule(
            given,
            format!("`{field}` cannot be {}", given.value),
            "write an amount in US dollars, such as 2.50",
        )
    })?;
    Ok(Some(amount))
}

struct PoolParser<'r> {
    text: &'r str,
    variables: Variables<'r>,
}

impl PoolParser<'_> {
    fn expanded(&self, written: &Spanned<String>) -> Result<String, DefinitionFault> {
        let mut text = written.value.clone();
        let expand = Expand {
            text: self.text,
            variables: self.variables,
        };
        expand.text(&mut text).map_err(DefinitionFault::Malformed)?;
        Ok(text.trim().to_owned())
    }

    fn name(&self, written: &Spanned<String>, fix: &str) -> Result<Name, DefinitionFault> {
        self.expanded(written)?
            .parse()
            .map_err(|error: crate::NameError| rule(written, error.to_string(), fix))
    }

    fn actor(&self, written: &Spanned<String>) -> Result<String, DefinitionFault> {
        let text = self.expanded(written)?;
        let name: ActorName = text.parse().map_err(|error: crate::NameError| {
            let fix = "name an actor such as local/fixer, or a model such as openai/gpt-5";
            rule(written, error.to_string(), fix)
        })?;
        // Names of models keep their case.
        Ok(if text.contains('/') {
            text
        } else {
            name.to_string()
        })
    }

    fn labels(&self, written: &[Spanned<String>]) -> Result<Vec<String>, DefinitionFault> {
        let mut labels = Vec::with_capacity(written.len());
        for label in written {
            let text = self.expanded(label)?;
            let checked = checked_labels([text.as_str()])
                .map_err(|error| rule(label, error.to_string(), "write one word per label"))?;
            labels.extend(checked);
        }
        Ok(labels)
    }

    fn tiers(&self, file: &PoolFile) -> Result<Vec<Tier>, DefinitionFault> {
        let role = file.role.value;
        if matches!(role, PoolRole::Merge | PoolRole::Watch) {
            if let Some(tier) = file.tiers.first() {
                return Err(rule(
                    &tier.name,
                    format!("a pool with the role `{role}` runs no model"),
                    "leave `tiers` out",
                ));
            }
            return Ok(vec![Tier {
                name: CODE_TIER.to_owned(),
                actor: "none".to_owned(),
            }]);
        }
        if file.tiers.is_empty() {
            return Err(rule(
                &file.role,
                format!("a pool with the role `{role}` needs at least one tier"),
                "add `tiers: [{name: default, actor: local/fixer}]`",
            ));
        }
        let mut tiers: Vec<Tier> = Vec::with_capacity(file.tiers.len());
        for entry in &file.tiers {
            let name = self.expanded(&entry.name)?;
            if name.is_empty() || tiers.iter().any(|tier| tier.name == name) {
                return Err(rule(
                    &entry.name,
                    format!("`{name}` cannot name a tier: a name is not empty and occurs once"),
                    "give each tier its own name, such as cheap, default, frontier",
                ));
            }
            tiers.push(Tier {
                name,
                actor: self.actor(&entry.actor)?,
            });
        }
        Ok(tiers)
    }

    fn states(file: &PoolFile) -> Result<Vec<WorkItemState>, DefinitionFault> {
        let role = file.role.value;
        let Some(written) = &file.states else {
            return Ok(role.default_states().to_vec());
        };
        let mut states = Vec::with_capacity(written.len());
        for state in written {
            if !role.may_take_from(state.value) {
                let allowed: Vec<&str> = role
                    .default_states()
                    .iter()
                    .map(|state| state.as_str())
                    .collect();
                let fix = if allowed.is_empty() {
                    "leave `states` out".to_owned()
                } else {
                    format!("write any of: {}", allowed.join(", "))
                };
                return Err(rule(
                    state,
                    format!(
                        "the role `{role}` takes no items in the state `{}`",
                        state.value
                    ),
                    fix,
                ));
            }
            if states.contains(&state.value) {
                return Err(rule(state, "the state occurs twice", "remove one of them"));
            }
            states.push(state.value);
        }
        Ok(states)
    }

    fn query(&self, file: &PoolFile) -> Result<ItemQuery, DefinitionFault> {
        let query = &file.query;
        let mut kinds = Vec::new();
        for kind in query.kinds.iter().flatten() {
            if !file.role.value.accepts(kind.value) {
                return Err(rule(
                    kind,
                    format!(
                        "the role `{}` takes no items of the kind `{}`",
                        file.role.value, kind.value
                    ),
                    "leave it out",
                ));
            }
            kinds.push(kind.value);
        }
        Ok(ItemQuery {
            kinds,
            labels: self.labels(&query.labels)?,
            without_labels: self.labels(&query.without_labels)?,
            milestones: query.milestones.clone(),
            minimum_priority: query.minimum_priority,
            maximum_points: query.maximum_points,
        })
    }

    fn limits(file: &PoolFile) -> Result<PoolLimits, DefinitionFault> {
        let limits = &file.limits;
        let deadline_seconds = match &limits.deadline {
            Some(written) => seconds(written, "deadline")?,
            None => 3 * 86_400,
        };
        let lease_ttl = match &limits.lease {
            Some(written) => {
                let given = u32::try_from(seconds(written, "lease")?).unwrap_or(u32::MAX);
                Ttl::seconds(given).map_err(|error| {
                    rule(
                        written,
                        error.to_string(),
                        "choose a duration from 5s to 1h",
                    )
                })?
            }
            None => Ttl::default(),
        };
        let open_changes = match &limits.open_changes {
            Some(_) => Some(bounded(
                limits.open_changes.as_ref(),
                "open_changes",
                1..=100_000,
                1,
            )?),
            None => None,
        };
        Ok(PoolLimits {
            workers: bounded(limits.workers.as_ref(), "workers", 1..=1_000, 1)?,
            open_changes,
            downstream: limits.downstream.clone(),
            deadline_seconds,
            lease_ttl,
            uncharged_attempts: bounded(
                limits.uncharged_attempts.as_ref(),
                "uncharged_attempts",
                1..=100,
                5,
            )?,
            review_rounds: bounded(limits.review_rounds.as_ref(), "review_rounds", 1..=100, 3)?,
        })
    }

    fn budgets(file: &PoolFile) -> Result<PoolBudgets, DefinitionFault> {
        let budget = &file.budget;
        let budgets = PoolBudgets {
            attempt: amount(budget.attempt.as_ref(), "attempt")?.unwrap_or(MicroUsd(1_000_000)),
            item: amount(budget.item.as_ref(), "item")?,
            day: amount(budget.day.as_ref(), "day")?,
            total: amount(budget.total.as_ref(), "total")?,
        };
        for (given, limit, field) in [
            (&budget.item, budgets.item, "item"),
            (&budget.day, budgets.day, "day"),
            (&budget.total, budgets.total, "total"),
        ] {
            if let (Some(place), Some(limit)) = (given, limit)
                && limit < budgets.attempt
            {
                return Err(rule(
                    place,
                    format!(
                        "`{field}` is less than the budget of one attempt, so nothing could start"
                    ),
                    "raise it, or lower `attempt`",
                ));
            }
        }
        Ok(budgets)
    }

    fn outcomes(&self, file: &PoolFile) -> Result<OutcomeRules, DefinitionFault> {
        let outcomes = &file.outcomes;
        let mut required_gates = Vec::with_capacity(outcomes.required_gates.len());
        for gate in &outcomes.required_gates {
            let name = self.expanded(gate)?;
            if name.is_empty() || required_gates.contains(&name) {
                return Err(rule(
                    gate,
                    "a gate has a name that occurs once",
                    "correct the list",
                ));
            }
            required_gates.push(name);
        }
        let minimum_confidence = match &outcomes.minimum_confidence {
            Some(given) if given.value > 100 => {
                return Err(rule(
                    given,
                    format!("`minimum_confidence` cannot be {}", given.value),
                    "write a number from 0 to 100",
                ));
            }
            Some(given) => given.value,
            None => 50,
        };
        Ok(OutcomeRules {
            blocking_severity: outcomes.blocking_severity.unwrap_or(Severity::High),
            required_gates,
            minimum_confidence,
            labels: self.labels(&outcomes.labels)?,
        })
    }

    fn pool(&self, file: &PoolFile) -> Result<PoolDefinition, DefinitionFault> {
        let fix = "a pool is named like local/fix or team/fix";
        let name = self.name(&file.name, fix)?;
        name.require_free_namespace()
            .map_err(|error| rule(&file.name, error.to_string(), fix))?;
        let project = self.name(&file.project, "name a project, such as local/shop")?;
        let action = match &file.action {
            Some(action) => Some(self.name(action, "name an action, such as local/fix-bug")?),
            None => None,
        };
        let reviewer = match &file.reviewer {
            Some(reviewer) => Some(self.actor(reviewer)?),
            None => None,
        };
        let tiers = self.tiers(file)?;
        if let (Some(place), Some(reviewer)) = (&file.reviewer, &reviewer)
            && tiers.iter().any(|tier| tier.actor == *reviewer)
        {
            return Err(rule(
                place,
                format!("`{reviewer}` would review its own work"),
                "name another actor as the reviewer",
            ));
        }
        Ok(PoolDefinition {
            name: name.to_string(),
            description: match &file.description {
                Some(description) => self.expanded(description)?,
                None => String::new(),
            },
            role: file.role.value,
            project: project.to_string(),
            query: self.query(file)?,
            states: Self::states(file)?,
            action: action.map(|action| action.to_string()),
            reviewer,
            tiers,
            attempts_per_tier: bounded(
                file.attempts_per_tier.as_ref(),
                "attempts_per_tier",
                1..=20,
                2,
            )?,
            limits: Self::limits(file)?,
            share: PoolShare {
                weight: bounded(file.share.weight.as_ref(), "weight", 1..=1_000, 1)?,
                minimum: bounded(file.share.minimum.as_ref(), "minimum", 0..=1_000, 0)?,
            },
            budgets: Self::budgets(file)?,
            outcomes: self.outcomes(file)?,
        })
    }
}

impl PoolDefinition {
    /// Reads a pool from the text of its file.
    pub fn read(text: &str, variables: Variables<'_>) -> Result<Self, DefinitionFault> {
        let file: PoolFile = yaml::read(text).map_err(DefinitionFault::Malformed)?;
        let header = file.cleveragents.as_ref();
        yaml::check_version(header.and_then(|header| header.version.as_ref()))
            .map_err(DefinitionFault::Malformed)?;
        PoolParser { text, variables }.pool(&file)
    }

    /// JSON schema of pool files.
    pub fn schema() -> Value {
        let generator = SchemaSettings::draft2020_12().into_generator();
        let mut schema = generator.into_root_schema_for::<PoolFile>();
        schema.insert("title".to_owned(), "a pool of CleverAgents".into());
        schema.to_value()
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
