//! Files that describe providers and models: the built-in ones, and the user's `models.yaml`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::ModelError;
use crate::name::{ModelName, is_provider};
use crate::price::{Description, Price};
use crate::wire::Protocol;
use crate::yaml;

/// Well-known models, written by `scripts/update-model-catalogue`.
const MODELS: &str = include_str!("models.yaml");

/// Assumptions about models that no table describes, by the prefix of their names.
const FAMILIES: &str = include_str!("families.yaml");

/// A file of providers and models.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelFile {
    /// Custom providers, and changes to built-in ones.
    #[serde(default)]
    pub(crate) providers: BTreeMap<String, WrittenProvider>,
    /// Models by `PROVIDER/MODEL`.
    #[serde(default)]
    pub(crate) models: BTreeMap<String, Description>,
}

/// A custom provider, or changes to a built-in one.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenProvider {
    /// Protocol of the provider; OpenAI's chat completions when not given.
    pub(crate) protocol: Option<Protocol>,
    /// Base URL of the provider.
    pub(crate) base_url: Option<String>,
    /// Environment variable that holds the API key.
    pub(crate) key_variable: Option<String>,
    /// Headers sent with every request. Not for keys.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
}

/// The JSON schema of `models.yaml`, for editors.
pub fn file_schema() -> serde_json::Value {
    schemars::schema_for!(ModelFile).to_value()
}

impl ModelFile {
    /// Parses the built-in files.
    pub(crate) fn built_in() -> Result<[Self; 2], ModelError> {
        let mut models = Self::read("built-in models", MODELS)?;
        for description in models.models.values_mut() {
            *description = description.completed();
        }
        Ok([models, Self::read("built-in families", FAMILIES)?])
    }

    /// Parses a file; `file` is its name in errors.
    pub(crate) fn read(file: &str, text: &str) -> Result<Self, ModelError> {
        // A file that contains only comments is valid and empty.
        let parsed: Option<Self> = yaml::read(file, text)?;
        let parsed = parsed.unwrap_or_default();
        for (name, description) in &parsed.models {
            if name.parse::<ModelName>().is_err() {
                let message = format!("`{name}` is not a name of a model; write PROVIDER/MODEL");
                return Err(yaml::broken(file, message));
            }
            if description
                .price
                .is_some_and(|price| Price::read(&price).is_none())
            {
                let message = format!("the price of `{name}` is not a valid number");
                return Err(yaml::broken(file, message));
            }
        }
        if let Some(name) = parsed.providers.keys().find(|name| !is_provider(name)) {
            let message = format!(
                "`{name}` cannot name a provider; use lowercase letters, digits, `-` and `_`"
            );
            return Err(yaml::broken(file, message));
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::ModelFile;
    use crate::price::Table;
    use cleveragents_domain::Diagnose;

    #[test]
    fn the_built_in_files_are_complete() {
        let [models, families] = ModelFile::built_in().expect("the files in the crate");
        assert!(models.models.len() > 50);
        assert!(families.models.keys().all(|name| name.ends_with('*')));
        let mut table = Table::default();
        let names: Vec<String> = models.models.keys().cloned().collect();
        table.extend(models.models);
        table.extend(families.models);
        for name in names {
            let description = table.find(&name.parse().expect("a name"));
            let window = description.capabilities.context_window;
            assert!(
                window.is_some() && description.price.is_some(),
                "{name} has no context window or no price"
            );
            let output = description.capabilities.max_output;
            assert!(
                output.is_none_or(|output| window.is_some_and(|window| output < window)),
                "the output limit of {name} exceeds its context window"
            );
        }
    }

    #[test]
    fn an_empty_file_defines_no_model() {
        for text in ["", "# nothing yet\n", "models: {}\n"] {
            assert!(ModelFile::read("f", text).expect(text).models.is_empty());
        }
    }

    #[test]
    fn an_invalid_file_is_refused_with_its_position() {
        for (text, expected, hint) in [
            (
                "modles: {}\n",
                "f:1:1: there is no field `modles`",
                "`models`",
            ),
            (
                "models:\n  a/b:\n    price: {input: 1, outptu: 2}\n",
                "f:3:23: there is no field `outptu`",
                "`output`",
            ),
            (
                "models:\n  a/b:\n    price: {input: 1}\n",
                "output",
                "correct",
            ),
            (
                "models: {a/b: {price: {input: -1, output: 1}}}",
                "is not a valid number",
                "correct",
            ),
            ("models: {ab: {}}", "PROVIDER/MODEL", "correct"),
            (
                "providers: {\"A b\": {}}",
                "cannot name a provider",
                "correct",
            ),
            ("providers: {a: {protocol: soap}}", "soap", "correct"),
            ("models: [", "f:1:", "correct"),
        ] {
            let error = ModelFile::read("f", text).expect_err(text);
            let shown = error.to_string();
            assert!(
                shown.contains(expected) && shown.starts_with("f:"),
                "{text}: {shown}"
            );
            let actual_hint = error.hint().expect("a hint").neutral();
            assert!(actual_hint.contains(hint), "{text}: {actual_hint}");
        }
    }
}
