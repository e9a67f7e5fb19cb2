//! The operations on models.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::Code;
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_models::{
    Capabilities, Catalogue, KeyState, ModelEntry, ModelName, Price, Protocol, Rates,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{
    Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
    holds_model_files,
};

/// The operations on models.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<ListModels>(),
    OperationEntry::new::<ShowModel>(),
];

/// The facts about a model that are known without calling it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// `PROVIDER/MODEL`.
    pub name: String,
    pub provider: String,
    pub model: String,
    /// Whether the API key and the address of the model are configured.
    pub available: bool,
    pub capabilities: Capabilities,
    /// `null` when the price is unknown.
    pub usd_per_million_tokens: Option<PriceInfo>,
    /// `null` for scripts and recordings.
    pub protocol: Option<Protocol>,
    pub base_url: Option<String>,
    pub key: KeyState,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PriceInfo {
    #[serde(flatten)]
    pub usual: RateInfo,
    /// Rates of calls with long input; missing if they do not differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_input: Option<LongInputRates>,
}

/// US dollars for a million tokens of each kind.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RateInfo {
    pub input: f64,
    pub output: f64,
    pub cached_input: f64,
    /// Input that is written to the cache.
    pub cache_write: f64,
}

/// The rates of calls with long input.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LongInputRates {
    #[serde(flatten)]
    pub rates: RateInfo,
    /// Number of input tokens above which these rates apply.
    pub above: u64,
}

impl From<&Rates> for RateInfo {
    fn from(rates: &Rates) -> Self {
        Self {
            input: rates.input.as_usd(),
            output: rates.output.as_usd(),
            cached_input: rates.cached_input.as_usd(),
            cache_write: rates.cache_write.as_usd(),
        }
    }
}

impl From<&Price> for PriceInfo {
    fn from(price: &Price) -> Self {
        let long = price.long_input.as_ref();
        Self {
            usual: RateInfo::from(&price.usual),
            long_input: long.map(|(above, rates)| LongInputRates {
                rates: RateInfo::from(rates),
                above: *above,
            }),
        }
    }
}

impl From<ModelEntry> for ModelInfo {
    fn from(entry: ModelEntry) -> Self {
        Self {
            name: entry.name.to_string(),
            provider: entry.name.provider().to_owned(),
            model: entry.name.model().to_owned(),
            available: entry.is_available(),
            capabilities: entry.capabilities,
            usd_per_million_tokens: entry.price.as_ref().map(PriceInfo::from),
            protocol: entry.protocol,
            base_url: entry.base_url,
            key: entry.key,
        }
    }
}

/// Lists well-known models and those of the configuration. Any other model of a provider can be
/// used too; its price is unknown.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListModels {
    /// Only models of this provider.
    #[serde(default)]
    pub provider: Option<String>,
    /// Only models that are available.
    #[serde(default)]
    pub available: bool,
}

/// The response of `registry/model/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ModelList {
    pub models: Vec<ModelInfo>,
    /// All providers.
    pub providers: Vec<String>,
    pub summary: ModelListSummary,
}

/// Totals of listed models.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ModelListSummary {
    /// Number of models of the requested provider, or of all providers.
    pub total: u64,
    /// Number of these models that are available.
    pub available: u64,
    pub shown: u64,
}

/// Refuses a provider that does not exist.
pub fn require_provider(catalogue: &Catalogue, name: &str) -> Result<(), OperationError> {
    let known = catalogue.providers();
    if known.iter().any(|known| known == name) {
        return Ok(());
    }
    let message = format!("there is no provider `{name}`");
    Err(OperationError::new(Code::UnknownProvider, message)
        .with_hint(format!("use one of {}", known.join(", ")))
        .with_details(json!({"provider": name, "providers": known})))
}

impl ListModels {
    /// Computes the response without a database, for front ends that have none.
    pub fn answer(self, catalogue: &Catalogue) -> Result<ModelList, OperationError> {
        let provider = self.provider.as_deref().map(str::to_lowercase);
        if let Some(name) = &provider {
            require_provider(catalogue, name)?;
        }
        let mut models: Vec<ModelInfo> = catalogue.list().into_iter().map(Into::into).collect();
        if let Some(provider) = &provider {
            models.retain(|model| model.provider == *provider);
        }
        let total = models.len() as u64;
        let available = models.iter().filter(|model| model.available).count();
        if self.available {
            models.retain(|model| model.available);
        }
        Ok(ModelList {
            summary: ModelListSummary {
                total,
                available: available as u64,
                shown: models.len() as u64,
            },
            models,
            providers: catalogue.providers(),
        })
    }
}

impl Operation for ListModels {
    const NAME: &'static str = "registry/model/list";
    const SUMMARY: &'static str = "List models";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Registry, Permission::Read);
    type Response = ModelList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ModelList, OperationError> {
        self.answer(&context.catalogue()?)
    }
}

/// Shows the capabilities of a model, its price, and its connection.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowModel {
    /// `PROVIDER/MODEL`.
    pub name: String,
}

impl ShowModel {
    /// Computes the response without a database, for front ends that have none.
    pub fn answer(self, catalogue: &Catalogue) -> Result<ModelInfo, OperationError> {
        let name: ModelName = self.name.parse().map_err(OperationError::from_service)?;
        Ok(catalogue.entry(&name)?.into())
    }
}

impl Operation for ShowModel {
    const NAME: &'static str = "registry/model/show";
    const SUMMARY: &'static str = "Show a model";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Registry, Permission::Read);
    type Response = ModelInfo;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ModelInfo, OperationError> {
        let provider = self.name.split('/').next().unwrap_or_default();
        if !context.caller().is_local() && holds_model_files(provider) {
            let message = format!("models of `{provider}` are files of the server");
            return Err(OperationError::new(Code::LocalOnly, message));
        }
        self.answer(&context.catalogue()?)
    }
}
