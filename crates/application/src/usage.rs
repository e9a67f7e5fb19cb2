//! [`CostReport`]: costs in responses.

use cleveragents_domain::MicroUsd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cost of model calls in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostReport {
    /// `null` when a model without a known price was called.
    pub estimated_cost: Option<f64>,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// Cost of the calls with a known price; missing if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
}

impl CostReport {
    /// A cost that may lack the calls of models without a known price.
    pub fn new(cost: MicroUsd, is_known: bool) -> Self {
        Self {
            estimated_cost: is_known.then(|| cost.as_usd()),
            cost_known: (!is_known).then_some(false),
            cost_known_part: (!is_known).then(|| cost.as_usd()),
        }
    }

    /// The known cost, and `true` if it is the cost of all calls.
    pub fn known(&self) -> (MicroUsd, bool) {
        let is_known = self.estimated_cost.is_some();
        let usd = self.estimated_cost.or(self.cost_known_part);
        (
            MicroUsd::from_usd_rounded_up(usd.unwrap_or_default()).unwrap_or_default(),
            is_known,
        )
    }
}
