//! Parses the arguments of an action from its file.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::super::argument::{self, ActionArgument, ActionArgumentType};
use super::super::template;
use super::{FileParser, rule};
use crate::DefinitionFault;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentEntry {
    /// Letters, digits, `_` and `-`, starting with a letter. Hyphen and underscore are equivalent.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// Type of the value; a text when not given.
    #[serde(rename = "type")]
    kind: Option<ActionArgumentType>,
    /// Whether the argument must be given; by default true unless the argument has a default.
    #[schemars(with = "Option<bool>")]
    required: Option<Spanned<Value>>,
    /// Purpose of the argument.
    #[schemars(with = "Option<String>")]
    description: Option<Spanned<String>>,
    /// Value when none is given.
    #[schemars(with = "Option<Value>")]
    default: Option<Spanned<Value>>,
    /// Allowed values.
    #[serde(default)]
    #[schemars(with = "Vec<Value>")]
    choices: Vec<Spanned<Value>>,
    /// Minimum of a number.
    #[schemars(with = "Option<f64>")]
    minimum: Option<Spanned<Value>>,
    /// Maximum of a number.
    #[schemars(with = "Option<f64>")]
    maximum: Option<Spanned<Value>>,
    /// A regular expression that the whole value must match.
    #[schemars(with = "Option<String>")]
    pattern: Option<Spanned<String>>,
}

impl FileParser<'_> {
    pub(super) fn argument(
        &self,
        entry: &ArgumentEntry,
        before: &[ActionArgument],
    ) -> Result<ActionArgument, DefinitionFault> {
        let name = self.plain(&entry.name)?;
        if !template::is_name(&name) {
            return Err(rule(
                &entry.name,
                format!("`{name}` cannot be the name of an argument"),
                "use letters, digits, `_` and `-`, beginning with a letter",
            ));
        }
        if let Some(other) = argument::named(before, &name) {
            return Err(rule(
                &entry.name,
                format!("there is an argument `{}` already", other.name),
                "give it another name; `-` and `_` are the same",
            ));
        }
        let kind = entry.kind.unwrap_or(if entry.choices.is_empty() {
            ActionArgumentType::String
        } else {
            ActionArgumentType::Choice
        });
        let description = match &entry.description {
            Some(text) => Some(self.plain(text)?).filter(|text| !text.is_empty()),
            None => None,
        };
        let mut argument = ActionArgument {
            name,
            kind,
            required: self.flag(entry.required.as_ref(), entry.default.is_none())?,
            description,
            default: None,
            choices: Vec::new(),
            minimum: None,
            maximum: None,
            pattern: None,
        };
        if argument.required
            && let Some(default) = &entry.default
        {
            return Err(rule(
                default,
                format!("`{}` is required and has a default", argument.name),
                "remove one of them",
            ));
        }
        self.limits(entry, &mut argument)?;
        self.choices(entry, &mut argument)?;
        if let Some(default) = &entry.default {
            let value = self.typed(default, kind)?;
            argument.check(&value).map_err(|problem| {
                rule(
                    default,
                    format!("the default of `{}` {problem}", argument.name),
                    "give it another default, or none",
                )
            })?;
            argument.default = Some(value);
        }
        Ok(argument)
    }

    /// Converts a value to the argument's type. A number where a text is expected becomes text.
    fn typed(
        &self,
        written: &Spanned<Value>,
        kind: ActionArgumentType,
    ) -> Result<Value, DefinitionFault> {
        Ok(match self.value(written)? {
            Value::Number(number) if kind.is_text() => number.to_string().into(),
            value => value,
        })
    }

    fn limits(
        &self,
        entry: &ArgumentEntry,
        argument: &mut ActionArgument,
    ) -> Result<(), DefinitionFault> {
        argument.minimum = self.number(entry.minimum.as_ref())?;
        argument.maximum = self.number(entry.maximum.as_ref())?;
        if let Some(limit) = entry.minimum.as_ref().or(entry.maximum.as_ref())
            && !argument.kind.is_number()
        {
            return Err(rule(
                limit,
                format!("`{}` is not a number and has no range", argument.name),
                "make it `type: integer` or `type: number`, or leave `minimum` and `maximum` out",
            ));
        }
        if let (Some(minimum), Some(maximum), Some(place)) =
            (&argument.minimum, &argument.maximum, &entry.maximum)
            && argument::is_less(maximum, minimum)
        {
            return Err(rule(
                place,
                format!("no number is at least {minimum} and at most {maximum}"),
                "swap `minimum` and `maximum`",
            ));
        }
        let Some(pattern) = &entry.pattern else {
            return Ok(());
        };
        // Patterns contain many braces and dollar signs, so variables are not replaced.
        if !argument.kind.is_text() {
            return Err(rule(
                pattern,
                format!("`{}` is not a text and has no pattern", argument.name),
                "leave `pattern` out, or make it `type: string`",
            ));
        }
        argument::whole_pattern(&pattern.value).map_err(|problem| {
            rule(
                pattern,
                problem,
                "write it in the syntax of https://docs.rs/regex",
            )
        })?;
        argument.pattern = Some(pattern.value.clone());
        Ok(())
    }

    fn choices(
        &self,
        entry: &ArgumentEntry,
        argument: &mut ActionArgument,
    ) -> Result<(), DefinitionFault> {
        if argument.kind == ActionArgumentType::Choice && entry.choices.is_empty() {
            return Err(rule(
                &entry.name,
                format!("`{}` is a choice without choices", argument.name),
                "list them: `choices: [small, large]`",
            ));
        }
        let mut choices = Vec::with_capacity(entry.choices.len());
        for written in &entry.choices {
            let choice = self.typed(written, argument.kind)?;
            argument.check(&choice).map_err(|problem| {
                rule(
                    written,
                    format!("a choice of `{}` {problem}", argument.name),
                    "give only choices that its type and its limits allow",
                )
            })?;
            if choices.contains(&choice) {
                return Err(rule(
                    written,
                    format!("a choice of `{}` occurs twice", argument.name),
                    "remove one of them",
                ));
            }
            choices.push(choice);
        }
        argument.choices = choices;
        Ok(())
    }
}
