//! Tokens and cost: exact integers that only grow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of model tokens.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Tokens(pub u64);

/// An amount of money in millionths of a US dollar, so that sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    /// The amount in dollars, for output.
    #[expect(
        clippy::cast_precision_loss,
        reason = "amounts of money are far below 2^53 millionths"
    )]
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / 1_000_000.0
    }

    /// Converts dollars, rounded up; `None` when the number is not a valid amount.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a number within the range"
    )]
    pub fn from_usd_rounded_up(dollars: f64) -> Option<Self> {
        let micro = dollars * 1_000_000.0;
        // Rounding errors can make the product slightly larger than the intended whole number.
        let rounded = (micro - 1e-6).ceil().max(0.0);
        (0.0..1e15).contains(&micro).then_some(Self(rounded as u64))
    }
}

/// Token usage and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenUsage {
    /// Tokens sent to models.
    pub input_tokens: Tokens,
    /// Tokens received from models.
    pub output_tokens: Tokens,
    pub cost_micro_usd: MicroUsd,
}

impl TokenUsage {
    /// The sum of two usages.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: Tokens(self.input_tokens.0.saturating_add(other.input_tokens.0)),
            output_tokens: Tokens(self.output_tokens.0.saturating_add(other.output_tokens.0)),
            cost_micro_usd: MicroUsd(self.cost_micro_usd.0.saturating_add(other.cost_micro_usd.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MicroUsd, TokenUsage, Tokens};

    #[test]
    fn dollars_are_rounded_up_to_whole_millionths() {
        for (dollars, expected) in [
            (0.0, Some(0)),
            (0.000_001, Some(1)),
            (0.000_001_2, Some(2)),
            (0.1 + 0.2, Some(300_000)),
            (12.5, Some(12_500_000)),
            (-0.1, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(
                MicroUsd::from_usd_rounded_up(dollars),
                expected.map(MicroUsd),
                "{dollars}"
            );
        }
    }
    use proptest::prelude::*;

    fn usage() -> impl Strategy<Value = TokenUsage> {
        (0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40).prop_map(|(input, output, cost)| {
            TokenUsage {
                input_tokens: Tokens(input),
                output_tokens: Tokens(output),
                cost_micro_usd: MicroUsd(cost),
            }
        })
    }

    proptest! {
        #[test]
        fn adding_usage_is_associative_and_commutative(a in usage(), b in usage(), c in usage()) {
            prop_assert_eq!(a.plus(b), b.plus(a));
            prop_assert_eq!(a.plus(b).plus(c), a.plus(b.plus(c)));
            prop_assert_eq!(a.plus(TokenUsage::default()), a);
        }
    }
}
