//! Invariants: sentences that plans must keep true, their scopes, and the resolution of contradictions.
//!
//! [`reconcile`] is a pure function: the same sentences give the same result in any order. It detects contradictions
//! from the words of the sentences alone ([`words`]); the invariant actor detects those that need understanding.

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

/// Maximum length of an invariant, in characters.
pub(crate) const MAX_TEXT_LENGTH: usize = 4_096;

/// The text is not a valid invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvariantTextError {
    /// The text is empty.
    #[error("an invariant cannot be empty")]
    Empty,
    /// The text is too long.
    #[error("an invariant has at most {MAX_TEXT_LENGTH} characters")]
    Long,
    /// The text contains invisible characters.
    #[error("an invariant cannot contain control characters or hidden characters")]
    Hidden,
}

/// Checks the text of an invariant and returns it in its stored form.
///
/// Models read the text, so characters that users cannot see are refused.
pub(crate) fn checked_text(text: &str) -> Result<String, InvariantTextError> {
    let text = text.trim();
    let is_hidden = |letter: char| {
        (letter.is_control() && letter != '\n' && letter != '\t')
            // Bidirectional control characters, and tag characters.
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
    };
    if text.is_empty() {
        return Err(InvariantTextError::Empty);
    }
    if text.chars().count() > MAX_TEXT_LENGTH {
        return Err(InvariantTextError::Long);
    }
    if text.contains(is_hidden) {
        return Err(InvariantTextError::Hidden);
    }
    Ok(text.to_owned())
}

/// Scope in which an invariant holds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum InvariantScope {
    /// All plans.
    Global,
    /// Plans that work on a project.
    Project,
    /// Plans of an action.
    Action,
    /// One plan.
    Plan,
}

impl InvariantScope {
    /// All scopes, widest first.
    pub const ALL: [Self; 4] = [Self::Global, Self::Project, Self::Action, Self::Plan];

    /// Stored and printed name.
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

/// The text is not a scope.
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

/// An invariant set by a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invariant {
    pub id: InvariantId,
    /// The sentence that must hold.
    pub text: String,
    /// Scope in which the invariant holds.
    pub scope: InvariantScope,
    /// Full name of the project or action, or id of the plan.
    pub source_name: Option<String>,
    /// Whether no other invariant can override this one; only for global invariants.
    pub non_overridable: bool,
    /// Time at which the invariant was set.
    pub created_at: Timestamp,
    /// Time at which the invariant was removed.
    pub removed_at: Option<Timestamp>,
}

impl Invariant {
    /// Checks the text of an invariant and returns it in its stored form.
    pub fn checked_text(text: &str) -> Result<String, InvariantTextError> {
        checked_text(text)
    }
}

/// An invariant of a plan with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcedInvariant {
    /// Id; `None` when it comes from the definition of the project or the action.
    pub id: Option<InvariantId>,
    /// The sentence that must hold.
    pub text: String,
    /// Scope that the invariant comes from.
    pub source: InvariantScope,
    /// Full name of the project or action, or id of the plan.
    pub source_name: Option<String>,
    /// Whether no other invariant can override this one.
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
    /// Precedence; lower numbers win.
    const fn tier(&self) -> u8 {
        match self.source {
            InvariantScope::Global if self.non_overridable => 0,
            InvariantScope::Plan => 1,
            InvariantScope::Action => 2,
            InvariantScope::Project => 3,
            InvariantScope::Global => 4,
        }
    }

    /// Sort key: precedence, then text and origin.
    fn rank(&self) -> (u8, &str, Option<&str>, bool, Option<InvariantId>) {
        (
            self.tier(),
            &self.text,
            self.source_name.as_deref(),
            // An invariant that a user can remove sorts first.
            self.id.is_none(),
            self.id,
        )
    }
}

/// An invariant that is overridden for a plan because one of higher precedence contradicts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedConflict {
    pub overridden: SourcedInvariant,
    /// Invariant that overrides the other one.
    pub by: SourcedInvariant,
}

/// Result of reconciling the invariants of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReconciledInvariants {
    /// Invariants that hold, highest precedence first.
    pub effective: Vec<SourcedInvariant>,
    /// Overridden invariants, with the reasons.
    pub conflicts: Vec<ResolvedConflict>,
    /// Contradicting pairs of the same precedence. Both are in `effective`; a plan cannot continue with them.
    pub unresolved: Vec<(SourcedInvariant, SourcedInvariant)>,
}

/// Decides which invariants hold for a plan. Precedence: non-overridable global invariants, then those of the plan,
/// the action and the project, then the other global ones.
///
/// A sentence that occurs in several scopes holds once, with the highest precedence. If two sentences contradict each
/// other, the one with the higher precedence holds.
pub fn reconcile(mut all: Vec<SourcedInvariant>) -> ReconciledInvariants {
    all.sort_by(|left, right| left.rank().cmp(&right.rank()));
    let mut tiers: BTreeMap<u8, Vec<(Words, SourcedInvariant)>> = BTreeMap::new();
    let mut seen = std::collections::HashSet::new();
    for invariant in all {
        let words = Words::parse(&invariant.text);
        if seen.insert(words.plain().to_owned()) {
            let tier = tiers.entry(invariant.tier()).or_default();
            tier.push((words, invariant));
        }
    }
    let mut reconciled = ReconciledInvariants::default();
    let mut higher_tiers = MeaningIndex::default();
    for (_, tier) in tiers {
        let mut same_tier = MeaningIndex::default();
        let mut effective = Vec::new();
        for (words, invariant) in tier {
            if let Some(by) = higher_tiers.opposites(&words).min() {
                let by = reconciled.effective[by].clone();
                reconciled.conflicts.push(ResolvedConflict {
                    overridden: invariant,
                    by,
                });
                continue;
            }
            let mut opposites: Vec<usize> = same_tier.opposites(&words).collect();
            opposites.sort_unstable();
            for other in opposites {
                let pair = (reconciled.effective[other].clone(), invariant.clone());
                reconciled.unresolved.push(pair);
            }
            same_tier.insert(&words, reconciled.effective.len());
            effective.push((words, reconciled.effective.len()));
            reconciled.effective.push(invariant);
        }
        for (words, index) in effective {
            higher_tiers.insert(&words, index);
        }
    }
    reconciled
}

/// Indices of the invariants that hold, by their meaning.
#[derive(Default)]
struct MeaningIndex {
    affirmed: HashMap<String, Vec<usize>>,
    denied: HashMap<String, Vec<usize>>,
}

impl MeaningIndex {
    fn insert(&mut self, words: &Words, index: usize) {
        let affirmed = self.affirmed.entry(words.meaning().to_owned());
        affirmed.or_default().push(index);
        if let Some(denied) = words.denied() {
            let denied = self.denied.entry(denied.to_owned());
            denied.or_default().push(index);
        }
    }

    /// Invariants that contradict a sentence.
    fn opposites(&self, words: &Words) -> impl Iterator<Item = usize> {
        let affirmed = words.denied().and_then(|denied| self.affirmed.get(denied));
        let denied = self.denied.get(words.meaning());
        affirmed.into_iter().chain(denied).flatten().copied()
    }
}
