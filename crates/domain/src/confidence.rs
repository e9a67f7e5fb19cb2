//! [`Confidence`]: a score for how likely a plan is to succeed. The same inputs always give the
//! same score, and every factor explains its value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts about a plan from which its confidence is computed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ConfidenceInputs {
    /// Number of plans of the same action that were applied.
    pub succeeded: u64,
    /// Number of plans of the same action that ended.
    pub ended: u64,
    /// Number of plans that were applied to the same projects.
    pub familiarity: u64,
    /// Number of files that the strategy expects to change; `None` when it does not state the number.
    pub files: Option<u64>,
    /// Number of attached required validations.
    pub validations: u64,
    /// Risk that the strategy states, from 0 to 1.
    pub risk: Option<f64>,
    /// Lowest confidence of the plan's decisions, from 0 to 1.
    pub decision_confidence: Option<f64>,
    /// Number of invariants that the plan has to keep.
    pub invariants: u64,
    /// Number of contradicting pairs of invariants.
    pub unresolved: u64,
}

/// Factors of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactorName {
    /// Outcomes of plans of the same action.
    PastSuccessRate,
    /// Earlier plans on the same projects.
    CodebaseFamiliarity,
    /// Risk of the changes, and the validations that would detect failures.
    RiskAssessment,
    /// Number of invariants to keep.
    InvariantComplexity,
}

impl FactorName {
    /// Printed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PastSuccessRate => "past_success_rate",
            Self::CodebaseFamiliarity => "codebase_familiarity",
            Self::RiskAssessment => "risk_assessment",
            Self::InvariantComplexity => "invariant_complexity",
        }
    }
}

/// One factor of a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Factor {
    /// Name of the factor.
    pub name: FactorName,
    /// Value from 0 (worst) to 1.
    pub value: f64,
    /// Weight in the score.
    pub weight: f64,
    /// Explanation of the value, for users.
    pub explanation: String,
}

/// Confidence in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// Score from 0 to 0.99, so that a threshold of 1 always asks.
    pub score: f64,
    /// Factors of the score.
    pub factors: Vec<Factor>,
}

const MAX_SCORE: f64 = 0.99;

/// Neutral value of an unknown fact.
const UNKNOWN: f64 = 0.5;

/// Number of changed files that halves the file factor.
const HALF_FILES: f64 = 20.0;

/// Number of invariants that halves the invariant factor.
const HALF_INVARIANTS: f64 = 20.0;

impl Confidence {
    pub fn compute(inputs: &ConfidenceInputs) -> Self {
        let factors = vec![
            past(inputs),
            familiarity(inputs),
            risk(inputs),
            invariants(inputs),
        ];
        let sum: f64 = factors
            .iter()
            .map(|factor| factor.weight * factor.value)
            .sum();
        Self {
            score: sum.clamp(0.0, MAX_SCORE),
            factors,
        }
    }

    /// Whether this confidence passes a gate. A threshold of 0 always passes.
    pub fn passes(&self, threshold: f64) -> bool {
        threshold <= 0.0 || self.score >= threshold
    }
}

/// Converts a count to a float; the lost precision of huge counts makes no difference.
#[expect(
    clippy::cast_precision_loss,
    reason = "beyond 2^53 one more makes no difference"
)]
const fn to_float(count: u64) -> f64 {
    count as f64
}

/// Clamps a number to 0..=1; returns `otherwise` for NaN.
const fn clamp_to_unit(value: f64, otherwise: f64) -> f64 {
    if value.is_nan() {
        otherwise
    } else {
        value.clamp(0.0, 1.0)
    }
}

fn past(inputs: &ConfidenceInputs) -> Factor {
    let ConfidenceInputs {
        succeeded, ended, ..
    } = *inputs;
    // Additive smoothing, as if one plan had been applied and one had not: a single plan proves
    // little.
    let value = ((to_float(succeeded) + 1.0) / (to_float(ended) + 2.0)).min(1.0);
    Factor {
        name: FactorName::PastSuccessRate,
        value,
        weight: 0.35,
        explanation: if ended == 0 {
            "no plan of this action has ended yet".to_owned()
        } else {
            format!("{succeeded} of {ended} plans of this action were applied")
        },
    }
}

fn familiarity(inputs: &ConfidenceInputs) -> Factor {
    let count = inputs.familiarity;
    Factor {
        name: FactorName::CodebaseFamiliarity,
        value: (to_float(count) + 1.0) / (to_float(count) + 3.0),
        weight: 0.15,
        explanation: match count {
            0 => "no plan was applied to these projects yet".to_owned(),
            1 => "1 plan was applied to these projects".to_owned(),
            _ => format!("{count} plans were applied to these projects"),
        },
    }
}

fn risk(inputs: &ConfidenceInputs) -> Factor {
    let stated = inputs.risk.map(|risk| clamp_to_unit(risk, 1.0));
    let decisions = inputs
        .decision_confidence
        .map(|confidence| clamp_to_unit(confidence, 0.0));
    let size_factor = inputs
        .files
        .map(|files| HALF_FILES / (HALF_FILES + to_float(files)));
    let coverage = to_float(inputs.validations) / (to_float(inputs.validations) + 1.0);
    let value = 0.35 * stated.map_or(UNKNOWN, |risk| 1.0 - risk)
        + 0.25 * decisions.unwrap_or(UNKNOWN)
        + 0.2 * size_factor.unwrap_or(UNKNOWN)
        + 0.2 * coverage;
    let reasons = [
        stated.map_or_else(
            || "its risk is not known".to_owned(),
            |risk| format!("it states a risk of {risk:.2}"),
        ),
        decisions.map_or_else(
            || "none of its decisions has a confidence".to_owned(),
            |lowest| format!("its least certain decision has a confidence of {lowest:.2}"),
        ),
        inputs.files.map_or_else(
            || "the number of files it touches is not known".to_owned(),
            |files| format!("it touches about {files} files"),
        ),
        format!("required validations: {}", inputs.validations),
    ];
    Factor {
        name: FactorName::RiskAssessment,
        value,
        weight: 0.35,
        explanation: reasons.join("; "),
    }
}

fn invariants(inputs: &ConfidenceInputs) -> Factor {
    let ConfidenceInputs {
        invariants,
        unresolved,
        ..
    } = *inputs;
    let (value, explanation) = if unresolved > 0 {
        let text = format!("pairs of invariants that contradict each other: {unresolved}");
        (0.0, text)
    } else {
        let value = HALF_INVARIANTS / (HALF_INVARIANTS + to_float(invariants));
        (value, format!("invariants to keep: {invariants}"))
    };
    Factor {
        name: FactorName::InvariantComplexity,
        value,
        weight: 0.15,
        explanation,
    }
}

#[cfg(test)]
mod tests {
    use super::{Confidence, ConfidenceInputs};
    use proptest::prelude::*;

    fn score(inputs: ConfidenceInputs) -> f64 {
        Confidence::compute(&inputs).score
    }

    /// Without facts the score is in the middle; successes of earlier plans raise it.
    #[test]
    fn factors_change_the_score() {
        let no_facts = ConfidenceInputs::default();
        assert!((0.4..0.6).contains(&score(no_facts)), "{}", score(no_facts));
        let proven = ConfidenceInputs {
            succeeded: 20,
            ended: 20,
            familiarity: 20,
            files: Some(2),
            validations: 3,
            risk: Some(0.1),
            decision_confidence: Some(0.95),
            ..no_facts
        };
        assert!(score(proven) > 0.85, "{}", score(proven));
        let failing = ConfidenceInputs {
            succeeded: 0,
            risk: Some(0.9),
            decision_confidence: Some(0.2),
            files: Some(400),
            validations: 0,
            ..proven
        };
        assert!(score(failing) < 0.5, "{}", score(failing));
        assert!(
            score(ConfidenceInputs {
                unresolved: 1,
                ..proven
            }) < score(proven)
        );
    }

    #[test]
    fn a_threshold_of_one_always_asks_and_one_of_zero_never() {
        let best = Confidence {
            score: 0.99,
            factors: Vec::new(),
        };
        let worst = Confidence {
            score: 0.0,
            factors: Vec::new(),
        };
        assert!(!best.passes(1.0) && best.passes(0.99) && best.passes(0.0));
        assert!(worst.passes(0.0) && !worst.passes(0.001) && !worst.passes(f64::NAN));
    }

    fn share() -> impl Strategy<Value = Option<f64>> {
        prop::option::of(prop_oneof![8 => 0.0..=1.0_f64, 1 => any::<f64>()])
    }

    fn inputs() -> impl Strategy<Value = ConfidenceInputs> {
        let count = || prop_oneof![8 => 0..60_u64, 1 => any::<u64>()];
        (
            (count(), count(), count(), count(), count()),
            (prop::option::of(count()), share(), share(), 0..3_u64),
        )
            .prop_map(
                |(
                    (succeeded, ended, familiarity, validations, invariants),
                    (files, risk, decision_confidence, unresolved),
                )| ConfidenceInputs {
                    succeeded,
                    ended,
                    familiarity,
                    files,
                    validations,
                    risk,
                    decision_confidence,
                    invariants,
                    unresolved,
                },
            )
    }

    proptest! {
        #[test]
        fn a_score_stays_in_bounds_and_its_weights_add_up_to_one(inputs in inputs()) {
            let confidence = Confidence::compute(&inputs);
            prop_assert!((0.0..=0.99).contains(&confidence.score));
            prop_assert_eq!(confidence.factors.len(), 4);
            let weights: f64 = confidence.factors.iter().map(|factor| factor.weight).sum();
            prop_assert!((weights - 1.0).abs() < 1e-9);
            for factor in &confidence.factors {
                prop_assert!((0.0..=1.0).contains(&factor.value));
                prop_assert!(!factor.explanation.is_empty());
            }
            prop_assert!(!confidence.passes(1.0));
            prop_assert!(confidence.passes(0.0));
        }

        /// Favourable facts never lower the score, unfavourable ones never raise it.
        #[test]
        fn a_score_is_monotone_in_every_input(
            inputs in inputs(),
            more in 1..50_u64,
            low in 0.0..=1.0_f64,
            step in 0.0..=1.0_f64,
        ) {
            let high = (low + step).min(1.0);
            let add = |number: u64| number.saturating_add(more);
            let files = inputs.files.unwrap_or(7);
            let is_at_least = |better: ConfidenceInputs, worse: ConfidenceInputs| {
                score(better) >= score(worse) - 1e-12
            };
            let up = ConfidenceInputs { succeeded: add(inputs.succeeded), ..inputs };
            prop_assert!(is_at_least(up, inputs), "succeeded");
            let up = ConfidenceInputs { ended: add(inputs.ended), ..inputs };
            prop_assert!(is_at_least(inputs, up), "ended");
            let up = ConfidenceInputs { familiarity: add(inputs.familiarity), ..inputs };
            prop_assert!(is_at_least(up, inputs), "familiarity");
            let up = ConfidenceInputs { validations: add(inputs.validations), ..inputs };
            prop_assert!(is_at_least(up, inputs), "validations");
            let up = ConfidenceInputs { invariants: add(inputs.invariants), ..inputs };
            prop_assert!(is_at_least(inputs, up), "invariants");
            let up = ConfidenceInputs { unresolved: add(inputs.unresolved), ..inputs };
            prop_assert!(is_at_least(inputs, up), "unresolved");
            let few = ConfidenceInputs { files: Some(files), ..inputs };
            let many = ConfidenceInputs { files: Some(add(files)), ..inputs };
            prop_assert!(is_at_least(few, many), "files");
            let safe = ConfidenceInputs { risk: Some(low), ..inputs };
            let risky = ConfidenceInputs { risk: Some(high), ..inputs };
            prop_assert!(is_at_least(safe, risky), "risk");
            let sure = ConfidenceInputs { decision_confidence: Some(high), ..inputs };
            let unsure = ConfidenceInputs { decision_confidence: Some(low), ..inputs };
            prop_assert!(is_at_least(sure, unsure), "decision_confidence");
        }

        #[test]
        fn passing_is_monotone_in_the_threshold(inputs in inputs(), low in 0.0..=1.0_f64, step in 0.0..=1.0_f64) {
            let confidence = Confidence::compute(&inputs);
            prop_assert!(!confidence.passes(low + step) || confidence.passes(low));
        }
    }
}
