//! Prices and capabilities of models: a built-in table, which the user's file extends.

use std::collections::BTreeMap;

use cleveragents_domain::MicroUsd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::Usage;
use crate::model::Capabilities;
use crate::name::ModelName;
use crate::wire::Protocol;

/// Form in which reasoning is requested from a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Thinking {
    /// As a number of tokens.
    #[default]
    Budget,
    /// As an effort level; the model decides how long it reasons.
    Adaptive,
}

/// A model, or a family of models, as described in a table. A missing field is taken from the family of the model, and
/// then from the defaults for every model.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// Dollars per million tokens.
    #[serde(default)]
    pub(crate) price: Option<WrittenPrice>,
    #[serde(default)]
    pub(crate) capabilities: WrittenCapabilities,
    /// Form in which reasoning is requested.
    #[serde(default)]
    pub(crate) thinking: Option<Thinking>,
    /// Whether the model accepts `temperature` and `top_p`.
    #[serde(default)]
    pub(crate) sampling: Option<bool>,
    /// Protocol, where it differs from that of the provider's other models.
    #[serde(default)]
    pub(crate) protocol: Option<Protocol>,
}

/// Features and limits of a model, as far as a table describes them.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WrittenCapabilities {
    tools: Option<bool>,
    streaming: Option<bool>,
    vision: Option<bool>,
    json_schema: Option<bool>,
    reasoning: Option<bool>,
    apply_patch: Option<bool>,
    pub(crate) context_window: Option<u64>,
    max_input: Option<u64>,
    pub(crate) max_output: Option<u64>,
    max_tools: Option<u64>,
}

impl WrittenCapabilities {
    /// Fills missing fields from `other`.
    fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools.or(other.tools),
            streaming: self.streaming.or(other.streaming),
            vision: self.vision.or(other.vision),
            json_schema: self.json_schema.or(other.json_schema),
            reasoning: self.reasoning.or(other.reasoning),
            apply_patch: self.apply_patch.or(other.apply_patch),
            context_window: self.context_window.or(other.context_window),
            max_input: self.max_input.or(other.max_input),
            max_output: self.max_output.or(other.max_output),
            max_tools: self.max_tools.or(other.max_tools),
        }
    }

    /// Fills missing fields with the defaults for every model.
    pub(crate) fn resolve(self) -> Capabilities {
        let usual = Capabilities::default();
        Capabilities {
            tools: self.tools.unwrap_or(usual.tools),
            streaming: self.streaming.unwrap_or(usual.streaming),
            vision: self.vision.unwrap_or(usual.vision),
            json_schema: self.json_schema.unwrap_or(usual.json_schema),
            reasoning: self.reasoning.unwrap_or(usual.reasoning),
            apply_patch: self.apply_patch.unwrap_or(usual.apply_patch),
            context_window: self.context_window,
            max_input: self.max_input,
            max_output: self.max_output,
            max_tools: self.max_tools,
        }
    }
}

impl Description {
    /// Fills missing fields with the defaults for every model, so that the entry of a family cannot change them. Limits
    /// and price stay unset.
    pub(crate) fn completed(self) -> Self {
        let usual = Capabilities::default();
        let all = WrittenCapabilities {
            tools: Some(usual.tools),
            streaming: Some(usual.streaming),
            vision: Some(usual.vision),
            json_schema: Some(usual.json_schema),
            reasoning: Some(usual.reasoning),
            // The table of models does not list it, so the family decides.
            apply_patch: None,
            context_window: None,
            max_input: None,
            max_output: None,
            max_tools: None,
        };
        self.or(Self {
            price: None,
            capabilities: all,
            thinking: Some(Thinking::default()),
            sampling: Some(true),
            protocol: None,
        })
    }

    /// Fills missing fields from `other`.
    fn or(self, other: Self) -> Self {
        Self {
            price: self.price.or(other.price),
            capabilities: self.capabilities.or(other.capabilities),
            thinking: self.thinking.or(other.thinking),
            sampling: self.sampling.or(other.sampling),
            protocol: self.protocol.or(other.protocol),
        }
    }
}

/// A price as written in a file: dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenPrice {
    input: f64,
    output: f64,
    /// Same as `input` when not given.
    cached_input: Option<f64>,
    /// Same as `input` when not given.
    cache_write: Option<f64>,
    /// Separate prices for calls with a long input.
    long_input: Option<LongInput>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LongInput {
    /// Number of input tokens above which these prices apply.
    above: u64,
    input: f64,
    output: f64,
    cached_input: Option<f64>,
    cache_write: Option<f64>,
}

/// The price of a model. Integers only, so that sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Price {
    /// Rates of ordinary calls.
    pub usual: Rates,
    /// Number of input tokens, and the rates of calls with more input tokens.
    pub long_input: Option<(u64, Rates)>,
}

/// Millionths of a dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rates {
    /// Input tokens.
    pub input: MicroUsd,
    /// Output tokens.
    pub output: MicroUsd,
    /// Input tokens read from the cache.
    pub cached_input: MicroUsd,
    /// Input tokens written to the cache.
    pub cache_write: MicroUsd,
}

impl Rates {
    fn read(
        input: f64,
        output: f64,
        cached_input: Option<f64>,
        cache_write: Option<f64>,
    ) -> Option<Self> {
        let rate = MicroUsd::from_usd_rounded_up;
        Some(Self {
            input: rate(input)?,
            output: rate(output)?,
            cached_input: rate(cached_input.unwrap_or(input))?,
            cache_write: rate(cache_write.unwrap_or(input))?,
        })
    }

    fn highest(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cached_input: self.cached_input.max(other.cached_input),
            cache_write: self.cache_write.max(other.cache_write),
        }
    }

    fn cost(&self, usage: &Usage) -> MicroUsd {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let plain = usage.input_tokens - cached - written;
        let sum: u128 = [
            (plain, self.input),
            (cached, self.cached_input),
            (written, self.cache_write),
            (usage.output_tokens, self.output),
        ]
        .into_iter()
        .map(|(tokens, rate)| u128::from(tokens) * u128::from(rate.0))
        .sum();
        MicroUsd(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl Price {
    /// Converts a price; `None` when a number in it is negative or out of range.
    pub(crate) fn read(written: &WrittenPrice) -> Option<Self> {
        let usual = Rates::read(
            written.input,
            written.output,
            written.cached_input,
            written.cache_write,
        )?;
        let long_input = match written.long_input {
            None => None,
            Some(long) => Some((
                long.above,
                Rates::read(long.input, long.output, long.cached_input, long.cache_write)?,
            )),
        };
        Some(Self { usual, long_input })
    }

    /// Returns a price that is at least as high as both prices for every call.
    pub(crate) fn highest(self, other: Self) -> Self {
        let usual = self.usual.highest(other.usual);
        let long_input = [self.long_input, other.long_input]
            .into_iter()
            .flatten()
            .reduce(|(one, left), (two, right)| (one.min(two), left.highest(right)))
            .map(|(above, rates)| (above, rates.highest(usual)));
        Self { usual, long_input }
    }

    /// Whether all calls are free.
    pub(crate) fn is_free(&self) -> bool {
        let long = self.long_input.iter().map(|(_, rates)| rates);
        std::iter::once(&self.usual).chain(long).all(|rates| {
            let all = [
                rates.input,
                rates.output,
                rates.cached_input,
                rates.cache_write,
            ];
            all.iter().all(|rate| rate.0 == 0)
        })
    }

    /// Cost of a call, rounded up to a whole millionth of a dollar.
    pub fn cost(&self, usage: &Usage) -> MicroUsd {
        match &self.long_input {
            Some((above, rates)) if usage.input_tokens > *above => rates.cost(usage),
            _ => self.usual.cost(usage),
        }
    }
}

/// The described models, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(BTreeMap<String, Description>);

impl Table {
    /// Adds descriptions. An existing description changes only in the fields that the new description sets.
    pub(crate) fn extend(&mut self, more: BTreeMap<String, Description>) {
        for (name, new) in more {
            let known = self.0.entry(name).or_default();
            *known = new.or(*known);
        }
    }

    /// Model names, sorted, without families.
    pub(crate) fn names(&self) -> impl Iterator<Item = ModelName> {
        self.0
            .keys()
            .filter(|name| !name.ends_with('*'))
            .filter_map(|name| name.parse().ok())
    }

    /// Returns the description of a model. Missing fields are taken from the entry for the name without its date, then
    /// from the families of the model (`openai/gpt-5*`), longest prefix first.
    pub(crate) fn find(&self, name: &ModelName) -> Description {
        let own = self.describe(name.provider(), name.model());
        match name.provider() {
            // `openai-responses` calls the models of `openai` over another API.
            "openai-responses" => own.or(Description {
                protocol: None,
                ..self.describe("openai", name.model())
            }),
            "google" => own.or(self.describe("gemini", name.model())),
            // Azure offers the models of OpenAI at other prices.
            "azure" => own.or(Description {
                price: None,
                protocol: None,
                ..self.describe("openai", name.model())
            }),
            _ => own,
        }
    }

    fn describe(&self, provider: &str, model: &str) -> Description {
        let full_name = format!("{provider}/{model}");
        let exact = [Some(full_name.as_str()), strip_version(&full_name)];
        let exact = exact.into_iter().flatten();
        let exact = exact.filter_map(|name| self.0.get(name).copied());
        let mut families: Vec<(&str, Description)> = self
            .0
            .iter()
            .filter_map(|(name, description)| Some((name.strip_suffix('*')?, *description)))
            .filter(|(prefix, _)| full_name.starts_with(prefix))
            .collect();
        families.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let families = families.into_iter().map(|(_, description)| description);
        exact
            .chain(families)
            .reduce(Description::or)
            .unwrap_or_default()
    }
}

/// The name without a version suffix: `-2025-08-07`, `-20250929`, `-latest`.
fn strip_version(name: &str) -> Option<&str> {
    if let Some(short) = name.strip_suffix("-latest") {
        return Some(short);
    }
    let digits = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (short, last) = name.rsplit_once('-')?;
    if digits(last, 8) {
        return Some(short);
    }
    let (short, month) = short.rsplit_once('-')?;
    let (short, year) = short.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4)).then_some(short)
}

#[cfg(test)]
mod tests {
    use super::{Price, Table, WrittenPrice, strip_version};
    use crate::event::Usage;
    use crate::file::ModelFile;
    use cleveragents_domain::MicroUsd;
    use proptest::prelude::*;

    fn price() -> Price {
        let written = WrittenPrice {
            input: 3.0,
            output: 15.0,
            cached_input: Some(0.3),
            cache_write: Some(3.75),
            long_input: None,
        };
        Price::read(&written).expect("a price")
    }

    #[test]
    fn each_kind_of_token_has_its_own_price() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cached_input_tokens: 500_000,
            cache_write_tokens: 100_000,
            reasoning_tokens: 50_000,
        };
        // 0.4 M at 3, 0.5 M at 0.30, 0.1 M at 3.75, 0.1 M at 15 dollars.
        assert_eq!(
            price().cost(&usage),
            MicroUsd(1_200_000 + 150_000 + 375_000 + 1_500_000)
        );
    }

    #[test]
    fn the_cost_of_a_small_call_is_rounded_up() {
        let usage = Usage {
            cached_input_tokens: 1,
            input_tokens: 1,
            ..Usage::default()
        };
        assert_eq!(price().cost(&usage), MicroUsd(1));
        assert_eq!(price().cost(&Usage::default()), MicroUsd(0));
    }

    #[test]
    fn long_inputs_may_cost_more() {
        let text = "models: {x/y: {price: {input: 1, output: 1, long_input: {above: 10, input: 2, output: 2}}}}";
        let file = ModelFile::read("test", text).expect("a file");
        let mut table = Table::default();
        table.extend(file.models);
        let found = table.find(&"x/y".parse().expect("a name"));
        let price = Price::read(&found.price.expect("priced")).expect("a price");
        let cost_of = |input_tokens| {
            price.cost(&Usage {
                input_tokens,
                ..Usage::default()
            })
        };
        assert_eq!((cost_of(10), cost_of(11)), (MicroUsd(10), MicroUsd(22)));
    }

    #[test]
    fn dated_names_are_the_same_model() {
        for (name, short) in [
            ("openai/gpt-5-2025-08-07", Some("openai/gpt-5")),
            (
                "anthropic/claude-sonnet-4-5-20250929",
                Some("anthropic/claude-sonnet-4-5"),
            ),
            (
                "mistral/mistral-large-latest",
                Some("mistral/mistral-large"),
            ),
            ("openai/gpt-5-mini", None),
            ("anthropic/claude-opus-4-1", None),
            ("x/1-22-33", None),
        ] {
            assert_eq!(strip_version(name), short, "{name}");
        }
    }

    proptest! {
        /// The amount reserved for a chain of models covers the cost of each model in it.
        #[test]
        fn the_highest_price_covers_both_prices(
            rates in prop::array::uniform8(0.0..50.0_f64), above in any::<[u16; 2]>(),
            input in any::<u16>(), output in any::<u16>(), cached in any::<u16>(), written in any::<u16>(),
        ) {
            let price = |rates: &[f64], above: u16| {
                let long = |rate: f64| rate * 2.0;
                Price::read(&WrittenPrice {
                    input: rates[0],
                    output: rates[1],
                    cached_input: Some(rates[2]),
                    cache_write: Some(rates[3]),
                    long_input: (!above.is_multiple_of(3)).then(|| super::LongInput {
                        above: above.into(),
                        input: long(rates[3]),
                        output: long(rates[0]),
                        cached_input: None,
                        cache_write: Some(rates[1]),
                    }),
                })
                .expect("a price")
            };
            let (one, two) = (price(&rates[..4], above[0]), price(&rates[4..], above[1]));
            let usage = Usage {
                input_tokens: input.into(),
                output_tokens: output.into(),
                cached_input_tokens: cached.into(),
                cache_write_tokens: written.into(),
                reasoning_tokens: 0,
            };
            let highest = one.highest(two).cost(&usage);
            prop_assert!(highest >= one.cost(&usage) && highest >= two.cost(&usage));
        }

        /// Invalid usage from a provider never makes a call free, overflows or panics.
        #[test]
        fn costs_are_monotonic_and_total(
            input in any::<u64>(), output in any::<u64>(), cached in any::<u64>(), written in any::<u64>(),
        ) {
            let usage = Usage {
                input_tokens: input,
                output_tokens: output,
                cached_input_tokens: cached,
                cache_write_tokens: written,
                reasoning_tokens: 0,
            };
            let cost = price().cost(&usage);
            let more = Usage { output_tokens: output.saturating_add(1), ..usage };
            prop_assert!(price().cost(&more) >= cost);
            prop_assert!(input == 0 && output == 0 || cost > MicroUsd(0));
        }
    }
}
