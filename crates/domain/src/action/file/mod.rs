//! Parses an action from its YAML file. Every error gives line, column and a fix.
//!
//! `${VARIABLE}` is replaced before placeholders are parsed. Braces in the value of a variable are escaped first, so
//! that the value never contains a placeholder.

mod arguments;
mod parts;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Number, Value};
use serde_saphyr::Spanned;

use self::arguments::ArgumentEntry;
use self::parts::PartsForm;
use super::argument::{self, ActionArgument};
use super::template::{self, Piece};
use super::{Action, ActionActors};
use crate::yaml::{self, Expand, Fault, Variables};
use crate::{
    ActorName, DefinitionFault, Hint, Name, Placeholder, TypeName, hint, nearest, suggest,
};

/// Maximum length of a text.
const MAX_TEXT_BYTES: usize = 65_536;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Header {
    /// Version of the format: 3.0.
    #[schemars(with = "Option<Value>")]
    version: Option<Spanned<Value>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ActionFile {
    cleveragents: Option<Header>,
    /// Name: `namespace/name`; without a namespace it is in `local/`.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// Short description, one sentence. `{name}` is the placeholder of an argument, `{{` a brace.
    #[schemars(with = "String")]
    description: Spanned<String>,
    #[schemars(with = "Option<String>")]
    long_description: Option<Spanned<String>>,
    /// Criteria for a plan to be done, each verifiable, one per line.
    #[schemars(with = "String")]
    definition_of_done: Spanned<String>,
    /// Actor that creates the strategy; `actor.default.strategy` when not given.
    #[schemars(with = "Option<String>")]
    strategy_actor: Option<Spanned<String>>,
    /// Actor that executes the steps; `actor.default.execution` when not given.
    #[schemars(with = "Option<String>")]
    execution_actor: Option<Spanned<String>>,
    #[schemars(with = "Option<String>")]
    estimation_actor: Option<Spanned<String>>,
    #[schemars(with = "Option<String>")]
    review_actor: Option<Spanned<String>>,
    /// Only `none`: no actor takes part in applying, which copies the reviewed result unchanged.
    #[schemars(with = "Option<String>")]
    apply_actor: Option<Spanned<String>>,
    #[schemars(with = "Option<String>")]
    invariant_actor: Option<Spanned<String>>,
    /// Whether more than one plan can be created from the action; true when not given.
    #[schemars(with = "Option<bool>")]
    reusable: Option<Spanned<Value>>,
    /// Whether plans of the action must not change anything; false when not given.
    #[schemars(with = "Option<bool>")]
    read_only: Option<Spanned<Value>>,
    /// Only `available`: `agents action archive` archives an action.
    #[schemars(with = "Option<String>")]
    state: Option<Spanned<String>>,
    /// Arguments that the user gives when creating a plan.
    #[serde(default)]
    arguments: Vec<ArgumentEntry>,
    /// Automation profile of plans of the action.
    #[schemars(with = "Option<String>")]
    automation_profile: Option<Spanned<String>>,
    /// Invariants that every plan must keep.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    invariants: Vec<Spanned<String>>,
    /// Safety profile of plans of the action.
    #[schemars(with = "Option<String>")]
    safety_profile: Option<Spanned<String>>,
    /// Division of the task into child plans: a pattern of folders, a list, or bounds.
    #[schemars(with = "Option<PartsForm>")]
    parts: Option<Spanned<Value>>,
    #[schemars(skip)]
    inputs_schema: Option<Spanned<Value>>,
}

/// Suggests quotes when YAML may have parsed a placeholder as a map.
fn with_quotes(text: &str, fault: Fault) -> Fault {
    let line = fault
        .place
        .and_then(|(line, _)| usize::try_from(line).ok()?.checked_sub(1))
        .and_then(|line| text.lines().nth(line));
    if fault.fix.is_none() && fault.nearest.is_none() && line.is_some_and(|line| line.contains('{'))
    {
        return fault.fixed_by("put a text that holds `{name}` in quotes");
    }
    fault
}

/// Parser state of a file.
struct FileParser<'r> {
    text: &'r str,
    variables: Variables<'r>,
}

fn rule<T>(
    place: &Spanned<T>,
    message: impl Into<String>,
    fix: impl Into<Hint>,
) -> DefinitionFault {
    DefinitionFault::Rule(Fault::at(place, message).fixed_by(fix))
}

impl FileParser<'_> {
    /// Replaces the variables in a text and trims it.
    fn plain(&self, written: &Spanned<String>) -> Result<String, DefinitionFault> {
        self.expanded(written, self.variables)
    }

    fn expanded(
        &self,
        written: &Spanned<String>,
        variables: Variables<'_>,
    ) -> Result<String, DefinitionFault> {
        let mut text = written.value.clone();
        let expand = Expand {
            text: self.text,
            variables,
        };
        expand.text(&mut text).map_err(DefinitionFault::Malformed)?;
        Ok(text.trim().to_owned())
    }

    /// Parses a non-empty text that may contain placeholders.
    fn template(
        &self,
        written: &Spanned<String>,
        field: &str,
        arguments: &[ActionArgument],
    ) -> Result<String, DefinitionFault> {
        let variables = |name: &str| (self.variables)(name).map(|value| template::literal(&value));
        let text = self.expanded(written, &variables)?;
        if text.is_empty() {
            return Err(rule(
                written,
                format!("the field `{field}` is empty"),
                "write one sentence",
            ));
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(rule(
                written,
                format!("the field `{field}` has more than {MAX_TEXT_BYTES} bytes"),
                "shorten it",
            ));
        }
        for piece in template::pieces(&text) {
            match piece {
                Piece::Place(name) if argument::named(arguments, name).is_none() => {
                    return Err(self.unknown_place(written, name, arguments));
                }
                Piece::Stray(brace) => {
                    return Err(rule(
                        written,
                        format!("a `{brace}` of `{field}` is not part of a placeholder"),
                        format!(
                            "write `{brace}{brace}` for a brace, and `{{name}}` for the value of an argument"
                        ),
                    ));
                }
                _ => {}
            }
        }
        Ok(text)
    }

    fn unknown_place(
        &self,
        written: &Spanned<String>,
        name: &str,
        arguments: &[ActionArgument],
    ) -> DefinitionFault {
        let known = arguments.iter().map(|argument| argument.name.as_str());
        let nearest = nearest::best(name, known);
        let fix = match &nearest {
            Some(nearest) => {
                format!("write `{{{nearest}}}`, or `{{{{{name}}}}}` for the braces themselves")
            }
            None => format!(
                "declare it under `arguments`, or write `{{{{{name}}}}}` for the braces themselves"
            ),
        };
        let mut fault =
            Fault::at(written, format!("there is no argument for `{{{name}}}`")).fixed_by(fix);
        // A field may span several lines, so search for the line that contains the placeholder.
        let begin = usize::try_from(written.referenced.line()).unwrap_or(1);
        let place = format!("{{{name}}}");
        let lines = self.text.lines().enumerate().skip(begin.saturating_sub(1));
        if let Some(position) = lines.into_iter().find_map(|(number, line)| {
            let column = line[..line.find(&place)?].chars().count();
            Some((number as u64 + 1, column as u64 + 1))
        }) {
            fault.place = Some(position);
        }
        fault.nearest = nearest;
        DefinitionFault::Rule(fault)
    }

    /// Replaces the variables in a value of any type.
    fn value(&self, written: &Spanned<Value>) -> Result<Value, DefinitionFault> {
        let mut value = written.value.clone();
        let expand = Expand {
            text: self.text,
            variables: self.variables,
        };
        expand
            .value(&mut value)
            .map_err(DefinitionFault::Malformed)?;
        Ok(value)
    }

    fn flag(
        &self,
        written: Option<&Spanned<Value>>,
        default: bool,
    ) -> Result<bool, DefinitionFault> {
        let Some(written) = written else {
            return Ok(default);
        };
        self.value(written)?.as_bool().ok_or_else(|| {
            let fault = Fault::at(written, "true or false is expected here");
            DefinitionFault::Malformed(fault.fixed_by("write `true` or `false`"))
        })
    }

    fn number(&self, written: Option<&Spanned<Value>>) -> Result<Option<Number>, DefinitionFault> {
        let Some(written) = written else {
            return Ok(None);
        };
        if let Value::Number(number) = self.value(written)? {
            return Ok(Some(number));
        }
        let fault = Fault::at(written, "a number is expected here");
        Err(DefinitionFault::Malformed(fault.fixed_by("write a number")))
    }

    fn name(&self, written: &Spanned<String>) -> Result<String, DefinitionFault> {
        let fix = "an action is named like local/lint or team/lint";
        let name: Name = self
            .plain(written)?
            .parse()
            .map_err(|error: crate::NameError| rule(written, error.to_string(), fix))?;
        name.require_free_namespace()
            .map_err(|error| rule(written, error.to_string(), fix))?;
        Ok(name.to_string())
    }

    fn actor(&self, written: Option<&Spanned<String>>) -> Result<Option<String>, DefinitionFault> {
        let Some(written) = written else {
            return Ok(None);
        };
        let text = self.plain(written)?;
        let name: ActorName = text.parse().map_err(|error: crate::NameError| {
            rule(
                written,
                error.to_string(),
                "name an actor such as local/strategist, or a model such as openai/gpt-5",
            )
        })?;
        // Model names keep their case; `none` means no actor.
        if text.contains('/') || text == "none" {
            return Ok(Some(text));
        }
        Ok(Some(name.to_string()))
    }

    /// Accepts only `none`, because no actor takes part in applying.
    fn apply_actor(
        &self,
        written: Option<&Spanned<String>>,
    ) -> Result<Option<String>, DefinitionFault> {
        let name = self.actor(written)?;
        match (written, name) {
            (Some(written), Some(name)) if name != "none" => Err(rule(
                written,
                format!(
                    "`apply_actor` cannot be `{name}`: no actor takes part in applying, which copies the result as it is"
                ),
                "leave it out; `review_actor` names the actor that reviews the result before it is applied",
            )),
            (_, name) => Ok(name),
        }
    }

    /// Parses a profile name: a bare word, or a name with its namespace.
    fn profile(
        &self,
        written: Option<&Spanned<String>>,
        field: &str,
    ) -> Result<Option<String>, DefinitionFault> {
        let Some(written) = written else {
            return Ok(None);
        };
        let text = self.plain(written)?;
        let name: TypeName = text.parse().map_err(|_| {
            rule(
                written,
                format!("`{text}` is not the name of a profile"),
                format!("write `{field}: supervised`, or a name with its namespace"),
            )
        })?;
        Ok(Some(name.to_string()))
    }

    fn action(&self, file: &ActionFile) -> Result<Action, DefinitionFault> {
        if let Some(schema) = &file.inputs_schema {
            let fault = Fault::at(schema, "an action has no `inputs_schema`").fixed_by(
                "use `arguments`: a list of maps with `name`, `type`, `required`, `default`",
            );
            return Err(DefinitionFault::Malformed(fault));
        }
        if let Some(state) = &file.state
            && state.value != "available"
        {
            return Err(rule(
                state,
                format!("a file cannot make an action `{}`", state.value),
                hint!(
                    "leave `state` out; {} archives an action",
                    suggest::action_archive(Placeholder("NAME"))
                ),
            ));
        }
        let name = self.name(&file.name)?;
        let mut arguments = Vec::with_capacity(file.arguments.len());
        for entry in &file.arguments {
            let argument = self.argument(entry, &arguments)?;
            arguments.push(argument);
        }
        let mut invariants: Vec<String> = Vec::with_capacity(file.invariants.len());
        for written in &file.invariants {
            let text = self.template(written, "invariants", &arguments)?;
            let text = crate::invariant::checked_text(&text)
                .map_err(|error| rule(written, error.to_string(), "correct the sentence"))?;
            if invariants.contains(&text) {
                let fix = "remove one of them";
                return Err(rule(written, "the invariant occurs twice", fix));
            }
            invariants.push(text);
        }
        let long_description = match &file.long_description {
            Some(text) => Some(self.template(text, "long_description", &arguments)?),
            None => None,
        };
        let parts = self.parts(file.parts.as_ref(), &arguments)?;
        Ok(Action {
            parts,
            name,
            description: self.template(&file.description, "description", &arguments)?,
            long_description,
            definition_of_done: self.template(
                &file.definition_of_done,
                "definition_of_done",
                &arguments,
            )?,
            actors: ActionActors {
                strategy: self.actor(file.strategy_actor.as_ref())?,
                execution: self.actor(file.execution_actor.as_ref())?,
                estimation: self.actor(file.estimation_actor.as_ref())?,
                review: self.actor(file.review_actor.as_ref())?,
                apply: self.apply_actor(file.apply_actor.as_ref())?,
                invariant: self.actor(file.invariant_actor.as_ref())?,
            },
            reusable: self.flag(file.reusable.as_ref(), true)?,
            read_only: self.flag(file.read_only.as_ref(), false)?,
            arguments,
            automation_profile: self
                .profile(file.automation_profile.as_ref(), "automation_profile")?,
            invariants,
            safety_profile: self.profile(file.safety_profile.as_ref(), "safety_profile")?,
        })
    }
}

impl Action {
    /// Reads an action from the text of its file.
    pub fn read(text: &str, variables: Variables<'_>) -> Result<Self, DefinitionFault> {
        let file: ActionFile = yaml::read(text)
            .map_err(|fault| DefinitionFault::Malformed(with_quotes(text, fault)))?;
        let version = file.cleveragents.as_ref();
        yaml::check_version(version.and_then(|header| header.version.as_ref()))
            .map_err(DefinitionFault::Malformed)?;
        FileParser { text, variables }.action(&file)
    }

    /// JSON schema of action files.
    pub fn schema() -> Value {
        let generator = SchemaSettings::draft2020_12().into_generator();
        let mut schema = generator.into_root_schema_for::<ActionFile>();
        schema.insert("title".to_owned(), "an action of CleverAgents".into());
        schema.to_value()
    }
}
