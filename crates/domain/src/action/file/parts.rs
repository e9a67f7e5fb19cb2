//! Parses the `parts` of an action from its file.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::super::argument::ActionArgument;
use super::super::parts::{ActionPart, ActionParts, PartBounds, PartDivision};
use super::{FileParser, rule};
use crate::{
    ChildFailureMode, ChildSettings, DefinitionFault, ExecutionMode, MAX_PARALLEL_LIMIT,
    MergeStrategy,
};

const FORMS: &str = "write a pattern such as `packages/*`, a list of titles or of maps with `title`, `description`, \
                     `files` and `after`, or a map with one of `paths`, `list` and `max_files`";

/// The forms of `parts`.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum PartsForm {
    /// A pattern: one part for each folder or file that it matches.
    Pattern(String),
    /// The parts.
    List(Vec<PartForm>),
    /// A division with settings.
    Division(Box<DivisionForm>),
}

/// A part: its title, or a map.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum PartForm {
    Title(String),
    Part(PartFields),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PartFields {
    /// Title, one line.
    title: String,
    /// Instructions for the part.
    #[serde(default)]
    description: String,
    /// Paths that the part changes.
    #[serde(default)]
    files: Vec<String>,
    /// Numbers of the parts that must be done before, from 1.
    #[serde(default)]
    after: Vec<usize>,
}

/// Exactly one of `paths`, `list` and bounds (`max_files`, `max_tokens`, `max_parts`), and settings of the child plans.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DivisionForm {
    /// One part for each folder or file that matches this pattern.
    paths: Option<String>,
    /// The parts.
    list: Option<Vec<PartForm>>,
    /// Divides folders until each part has at most this number of files.
    max_files: Option<u32>,
    /// Divides folders until the files of each part have at most this number of tokens.
    max_tokens: Option<u64>,
    /// Maximum number of parts of one plan; more parts are grouped in child plans with parts.
    max_parts: Option<u32>,
    /// Order in which the parts run.
    mode: Option<ExecutionMode>,
    /// Maximum number of parts that run at the same time.
    max_parallel: Option<u32>,
    /// Treatment of the other parts when one fails.
    on_failure: Option<ChildFailureMode>,
    /// Maximum number of retries of a failed part.
    retries: Option<u32>,
    /// Time after which a part is cancelled, in seconds.
    timeout_seconds: Option<u64>,
    /// Method by which results are merged.
    merge: Option<MergeStrategy>,
}

impl FileParser<'_> {
    pub(super) fn parts(
        &self,
        written: Option<&Spanned<Value>>,
        arguments: &[ActionArgument],
    ) -> Result<Option<ActionParts>, DefinitionFault> {
        let Some(written) = written else {
            return Ok(None);
        };
        let invalid = |message: String| rule(written, message, FORMS);
        // Variables are replaced in the texts below, before placeholders are parsed.
        let (form, settings) = match &written.value {
            Value::Object(_) => {
                let form = DivisionForm::deserialize(&written.value)
                    .map_err(|error| invalid(format!("the parts cannot be used: {error}")))?;
                let settings = form.settings();
                (
                    form.division()
                        .map_err(|message| invalid(message.to_owned()))?,
                    settings,
                )
            }
            value => {
                let form = PartsForm::deserialize(value)
                    .map_err(|_| invalid("these are not the parts of a task".to_owned()))?;
                (form, ChildSettings::default())
            }
        };
        if !(1..=MAX_PARALLEL_LIMIT).contains(&settings.max_parallel) {
            return Err(invalid(format!(
                "`max_parallel` is {}, but it must be from 1 to {MAX_PARALLEL_LIMIT}",
                settings.max_parallel
            )));
        }
        let division = match form {
            PartsForm::Pattern(pattern) => {
                PartDivision::Paths(self.part_text(written, pattern, "parts", arguments)?)
            }
            PartsForm::List(entries) => {
                PartDivision::List(self.listed(written, entries, arguments)?)
            }
            PartsForm::Division(form) => {
                let standard = PartBounds::default();
                let bounds = PartBounds {
                    max_files: form.max_files.unwrap_or(standard.max_files),
                    max_tokens: form.max_tokens.unwrap_or(standard.max_tokens),
                    max_parts: form.max_parts.unwrap_or(standard.max_parts),
                };
                if bounds.max_files == 0 || bounds.max_tokens == 0 || bounds.max_parts < 2 {
                    return Err(invalid(
                        "`max_files` and `max_tokens` must be at least 1, and `max_parts` at least 2"
                            .to_owned(),
                    ));
                }
                PartDivision::Bounds(bounds)
            }
        };
        Ok(Some(ActionParts {
            division,
            children: settings,
        }))
    }

    fn listed(
        &self,
        written: &Spanned<Value>,
        entries: Vec<PartForm>,
        arguments: &[ActionArgument],
    ) -> Result<Vec<ActionPart>, DefinitionFault> {
        let count = entries.len();
        if count == 0 {
            return Err(rule(written, "the list of parts is empty", FORMS));
        }
        let mut parts = Vec::with_capacity(count);
        for (number, entry) in (1_usize..).zip(entries) {
            let fields = match entry {
                PartForm::Title(title) => PartFields {
                    title,
                    description: String::new(),
                    files: Vec::new(),
                    after: Vec::new(),
                },
                PartForm::Part(fields) => fields,
            };
            let is_missing = |after: &&usize| **after == 0 || **after > count;
            if let Some(after) = fields.after.iter().find(is_missing) {
                let message =
                    format!("part {number} depends on part {after}, which does not exist");
                return Err(rule(written, message, "name parts by their number, from 1"));
            }
            let description = match fields.description.trim() {
                "" => String::new(),
                _ => self.part_text(written, fields.description, "description", arguments)?,
            };
            parts.push(ActionPart {
                title: self.part_text(written, fields.title, "title", arguments)?,
                description,
                files: fields.files,
                after: fields.after,
            });
        }
        Ok(parts)
    }

    /// Parses a text of the parts that may contain placeholders.
    fn part_text(
        &self,
        written: &Spanned<Value>,
        text: String,
        field: &str,
        arguments: &[ActionArgument],
    ) -> Result<String, DefinitionFault> {
        let text = Spanned::new(text, written.referenced, written.defined);
        self.template(&text, field, arguments)
    }
}

impl DivisionForm {
    fn settings(&self) -> ChildSettings {
        let standard = ChildSettings::default();
        ChildSettings {
            mode: self.mode.unwrap_or(standard.mode),
            max_parallel: self.max_parallel.unwrap_or(standard.max_parallel),
            on_failure: self.on_failure.unwrap_or(standard.on_failure),
            retries: self.retries.unwrap_or(standard.retries),
            timeout_seconds: self.timeout_seconds,
            merge: self.merge.unwrap_or(standard.merge),
        }
    }

    /// The one division that the map names.
    fn division(mut self) -> Result<PartsForm, &'static str> {
        let has_bounds =
            self.max_files.is_some() || self.max_tokens.is_some() || self.max_parts.is_some();
        match (self.paths.take(), self.list.take(), has_bounds) {
            (Some(pattern), None, false) => Ok(PartsForm::Pattern(pattern)),
            (None, Some(list), false) => Ok(PartsForm::List(list)),
            (None, None, true) => Ok(PartsForm::Division(Box::new(self))),
            (None, None, false) => Err("the parts name no division"),
            _ => Err("the parts name several divisions"),
        }
    }
}
