//! Invariants: sentences that plans must keep true, where they hold, and what becomes of those that
//! contradict each other.
//!
//! [`reconcile`] is a pure function: the same sentences give the same result in whatever order they
//! come. What two sentences have to do with each other is found in their words alone ([`words`]); what
//! takes understanding is for the invariant actor.

#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{InvariantId, Timestamp};
use words::Words;

/// The longest invariant, in characters.
pub(crate) const TEXT_MAXIMUM: usize = 4_096;

/// Why a text cannot be an invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvariantTextError {
    /// There is nothing in it.
    #[error("an invariant cannot be empty")]
    Empty,
    /// It is too long.
    #[error("an invariant has at most {TEXT_MAXIMUM} characters")]
    Long,
    /// It holds something that nobody sees.
    #[error("an invariant cannot hold control characters or other hidden ones")]
    Hidden,
}

/// Checks the text of an invariant and gives it in the form in which it is stored.
///
/// It is read by models: what a person would not see in it is refused.
pub(crate) fn checked_text(text: &str) -> Result<String, InvariantTextError> {
    let text = text.trim();
    let is_hidden = |letter: char| {
        (letter.is_control() && letter != '\n' && letter != '\t')
            // Turns of the direction of writing, and letters that are only tags.
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
    };
    if text.is_empty() {
        return Err(InvariantTextError::Empty);
    }
    if text.chars().count() > TEXT_MAXIMUM {
        return Err(InvariantTextError::Long);
    }
    if text.contains(is_hidden) {
        return Err(InvariantTextError::Hidden);
    }
    Ok(text.to_owned())
}

/// Where an invariant holds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum InvariantScope {
    /// Everywhere.
    Global,
    /// In plans that work on a project.
    Project,
    /// In plans of an action.
    Action,
    /// In one plan.
    Plan,
}

impl InvariantScope {
    /// Every scope, from the widest.
    pub const ALL: [Self; 4] = [Self::Global, Self::Project, Self::Action, Self::Plan];

    /// The scope as stored and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Project => "project",
            Self::Action => "action",
            Self::Plan => "plan",
        }
    }
}

impl fmt::Display for InvariantScope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A text that names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a scope of invariants")]
pub struct InvariantScopeError(String);

impl FromStr for InvariantScope {
    type Err = InvariantScopeError;

    fn from_str(text: &str) -> Result<Self, InvariantScopeError> {
        let mut all = Self::ALL.into_iter();
        all.find(|scope| scope.as_str() == text)
            .ok_or_else(|| InvariantScopeError(text.to_owned()))
    }
}

/// An invariant that a person set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invariant {
    /// Its id.
    pub id: InvariantId,
    /// The sentence.
    pub text: String,
    /// Where it holds.
    pub scope: InvariantScope,
    /// The project or action by its whole name, or the plan by its id.
    pub source_name: Option<String>,
    /// Whether no other may take its place. Only of a global one.
    pub non_overridable: bool,
    /// When it was set.
    pub created_at: Timestamp,
    /// When it was removed.
    pub removed_at: Option<Timestamp>,
}

impl Invariant {
    /// Checks the text of an invariant and gives it in the form in which it is stored.
    pub fn checked_text(text: &str) -> Result<String, InvariantTextError> {
        checked_text(text)
    }
}

/// An invariant of a plan with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcedInvariant {
    /// Its id; nothing when the project or the action itself says it.
    pub id: Option<InvariantId>,
    /// The sentence.
    pub text: String,
    /// What it comes from.
    pub source: InvariantScope,
    /// The project or action by its whole name, or the plan by its id.
    pub source_name: Option<String>,
    /// Whether no other may take its place.
    pub non_overridable: bool,
}

impl From<Invariant> for SourcedInvariant {
    fn from(invariant: Invariant) -> Self {
        Self {
            id: Some(invariant.id),
            text: invariant.text,
            source: invariant.scope,
            source_name: invariant.source_name,
            non_overridable: invariant.non_overridable,
        }
    }
}

impl SourcedInvariant {
    /// How strong it is: the smaller the number, the stronger.
    const fn tier(&self) -> u8 {
        match self.source {
            InvariantScope::Global if self.non_overridable => 0,
            InvariantScope::Plan => 1,
            InvariantScope::Action => 2,
            InvariantScope::Project => 3,
            InvariantScope::Global => 4,
        }
    }

    /// What they are sorted by: strength, then what they say and where.
    fn rank(&self) -> (u8, &str, Option<&str>, bool, Option<InvariantId>) {
        (
            self.tier(),
            &self.text,
            self.source_name.as_deref(),
            // One that a person can remove comes first.
            self.id.is_none(),
            self.id,
        )
    }
}

/// An invariant that does not hold for a plan because a stronger one says the opposite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedConflict {
    /// The one that does not hold.
    pub overridden: SourcedInvariant,
    /// The one that does.
    pub by: SourcedInvariant,
}

/// What became of all invariants that concern a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconciled {
    /// Those that hold, the strongest first.
    pub effective: Vec<SourcedInvariant>,
    /// Those that do not, and why.
    pub conflicts: Vec<ResolvedConflict>,
    /// Pairs of the same strength that contradict each other. Both stand in `effective`; a plan cannot
    /// go on with them.
    pub unresolved: Vec<(SourcedInvariant, SourcedInvariant)>,
}

/// Decides which invariants hold for a plan: non-overridable global ones before those of the plan, the
/// action, the project and the other global ones.
///
/// A sentence that is said in several places holds once, for the strongest of them. Of two that
/// contradict each other the stronger one holds.
pub fn reconcile(mut all: Vec<SourcedInvariant>) -> Reconciled {
    all.sort_by(|left, right| left.rank().cmp(&right.rank()));
    let mut tiers: BTreeMap<u8, Vec<(Words, SourcedInvariant)>> = BTreeMap::new();
    let mut said = std::collections::HashSet::new();
    for invariant in all {
        let words = Words::of(&invariant.text);
        if said.insert(words.plain().to_owned()) {
            let tier = tiers.entry(invariant.tier()).or_default();
            tier.push((words, invariant));
        }
    }
    let mut found = Reconciled::default();
    let mut stronger = Held::default();
    for (_, tier) in tiers {
        let mut equals = Held::default();
        let mut holding = Vec::new();
        for (words, invariant) in tier {
            if let Some(by) = stronger.opposites(&words).min() {
                let by = found.effective[by].clone();
                found.conflicts.push(ResolvedConflict {
                    overridden: invariant,
                    by,
                });
                continue;
            }
            let mut against: Vec<usize> = equals.opposites(&words).collect();
            against.sort_unstable();
            for other in against {
                let pair = (found.effective[other].clone(), invariant.clone());
                found.unresolved.push(pair);
            }
            equals.insert(&words, found.effective.len());
            holding.push((words, found.effective.len()));
            found.effective.push(invariant);
        }
        for (words, place) in holding {
            stronger.insert(&words, place);
        }
    }
    found
}

/// Invariants that hold, by what they say: places in a list.
#[derive(Default)]
struct Held {
    saying: HashMap<String, Vec<usize>>,
    denying: HashMap<String, Vec<usize>>,
}

impl Held {
    fn insert(&mut self, words: &Words, place: usize) {
        let saying = self.saying.entry(words.meaning().to_owned());
        saying.or_default().push(place);
        if let Some(denied) = words.denied() {
            let denying = self.denying.entry(denied.to_owned());
            denying.or_default().push(place);
        }
    }

    /// Those that say the opposite.
    fn opposites(&self, words: &Words) -> impl Iterator<Item = usize> {
        let denied = words.denied().and_then(|denied| self.saying.get(denied));
        let denying = self.denying.get(words.meaning());
        denied.into_iter().chain(denying).flatten().copied()
    }
}
