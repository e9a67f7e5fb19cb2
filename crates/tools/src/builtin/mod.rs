//! The tools that are part of the program.
//!
//! Each consists of a type for its arguments, which yields the schema, and a function that prepares a call.
//! All file access goes through the opened folders of the sandbox's parts ([`paths`]).

#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "all functions that prepare a call have the same signature"
)]

mod ask;
mod copy;
mod directory;
mod edit;
mod edit_errors;
mod fetch;
mod find;
mod git;
mod ignored;
mod matching;
mod missing;
mod output;
mod patch;
mod paths;
mod read;
mod remove;
mod search;
mod shell;
mod subplan;
mod tree;
mod update_plan;
mod walk;
mod write;

pub use ask::is_unanswered;
pub use fetch::FETCH_TOOL;
pub use paths::{SandboxLocation, locate};
pub use read::image_media_type;
pub use shell::background_owner;
pub use subplan::{RequestedPart, SUBPLAN_TOOL};
pub use update_plan::{Checklist, ChecklistEntry, EntryStatus, UPDATE_PLAN_TOOL};

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::MicroUsd;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::capability::Capability;
use crate::gate::Permit;
use crate::name::ToolName;
use crate::spec::{Category, Source, ToolSpec, WorkspaceNeed};
use crate::tool::{
    Answer, Call, Failure, PrepareContext, PrepareError, PreparedCall, Subject, Tool,
};

/// Time limit of tools that only access files.
const FILE_TIMEOUT: Duration = Duration::from_mins(1);

/// Short names of all built-in tools, sorted.
pub(crate) const NAMES: &[&str] = &[
    "apply-patch",
    "ask-user",
    "dir-create",
    "dir-delete",
    "dir-list",
    "fetch-url",
    "file-copy",
    "file-delete",
    "file-edit",
    "file-find",
    "file-move",
    "file-read",
    "file-search",
    "file-write",
    "git-commit",
    "git-diff",
    "git-log",
    "git-show",
    "git-status",
    "output-read",
    "plan-subplan",
    "shell",
    "shell-job",
    "shell-network",
    "update-plan",
];

/// All built-in tools.
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        read::tool(),
        write::tool(),
        edit::tool(),
        patch::tool(),
        remove::file_tool(),
        copy::move_tool(),
        copy::copy_tool(),
        directory::create_tool(),
        remove::directory_tool(),
        directory::list_tool(),
        search::tool(),
        find::tool(),
        git::status_tool(),
        git::diff_tool(),
        git::log_tool(),
        git::show_tool(),
        git::commit_tool(),
        shell::tool(),
        shell::network_tool(),
        shell::job_tool(),
        ask::tool(),
        fetch::tool(),
        subplan::tool(),
        update_plan::tool(),
        output::tool(),
    ]
}

/// Result of a prepare function.
type PrepareResult<'a> = Result<Box<dyn PreparedCall + 'a>, PrepareError>;

/// A built-in tool whose arguments are parsed into the type `A`.
struct Builtin<A> {
    spec: ToolSpec,
    prepare: for<'a> fn(A, PrepareContext<'a>) -> PrepareResult<'a>,
}

impl<A: DeserializeOwned> Tool for Builtin<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(&'a self, arguments: Value, context: PrepareContext<'a>) -> PrepareResult<'a> {
        let arguments = serde_json::from_value(arguments)
            .map_err(|error| PrepareError::Arguments(message_of(&error)))?;
        (self.prepare)(arguments, context)
    }
}

/// The error message without line and column, which refer to a text that the model never saw.
fn message_of(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message
        .split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Properties of a built-in tool that differ from tool to tool.
struct Description {
    name: &'static str,
    about: &'static str,
    category: Category,
    workspace_need: WorkspaceNeed,
    capability: Capability,
    timeout: Duration,
}

fn builtin<A: DeserializeOwned + JsonSchema + 'static>(
    description: Description,
    prepare: for<'a> fn(A, PrepareContext<'a>) -> PrepareResult<'a>,
) -> Arc<dyn Tool> {
    Arc::new(Builtin {
        spec: ToolSpec {
            name: ToolName::builtin(description.name),
            description: description.about.to_owned(),
            source: Source::Builtin,
            category: description.category,
            workspace_need: description.workspace_need,
            input_schema: schema_of::<A>(),
            output_schema: None,
            capability: description.capability,
            resources: Vec::new(),
            timeout: description.timeout,
            cost: MicroUsd(0),
        },
        prepare,
    })
}

/// The schema of arguments, in the simple form that every provider accepts.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<A>()
        .to_value();
    simplify(&mut schema);
    schema
}

/// Removes titles and formats such as `uint64`, which do not help a model.
fn simplify(schema: &mut Value) {
    if let Value::Object(fields) = schema {
        if fields.get("title").is_some_and(Value::is_string) {
            fields.remove("title");
        }
        if fields.get("format").is_some_and(Value::is_string) {
            fields.remove("format");
        }
        fields.values_mut().for_each(simplify);
    } else if let Value::Array(items) = schema {
        items.iter_mut().for_each(simplify);
    }
}

/// A prepared call with its subjects and the closure that runs it.
struct PreparedBuiltin<F> {
    subjects: Vec<Subject>,
    action: F,
}

/// Wraps the closure of a call so that it runs only with a permit.
fn ready<'a>(
    subjects: Vec<Subject>,
    action: impl FnOnce(&mut Call<'_>) -> Result<Answer, Failure> + 'a,
) -> Box<dyn PreparedCall + 'a> {
    Box::new(PreparedBuiltin { subjects, action })
}

impl<F: FnOnce(&mut Call<'_>) -> Result<Answer, Failure>> PreparedCall for PreparedBuiltin<F> {
    fn subjects(&self) -> Vec<Subject> {
        self.subjects.clone()
    }

    fn run(self: Box<Self>, _permit: Permit, call: &mut Call<'_>) -> Result<Answer, Failure> {
        (self.action)(call)
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMES, all};
    use crate::registry::Registry;

    #[test]
    fn every_builtin_tool_has_a_description_and_a_simple_schema() {
        let registry = Registry::with_builtins();
        assert_eq!(registry.list().count(), all().len());
        let names: Vec<&str> = registry.list().map(|spec| spec.name.short()).collect();
        assert_eq!(names, NAMES);
        for spec in registry.list() {
            assert!(
                spec.name.is_builtin() && spec.name.canonical() == spec.name,
                "{}",
                spec.name
            );
            assert!(spec.description.len() > 20, "{}", spec.name);
            let schema = spec.input_schema.to_string();
            assert_eq!(spec.input_schema["type"], "object", "{}", spec.name);
            assert_eq!(
                spec.input_schema["additionalProperties"], false,
                "{}",
                spec.name
            );
            assert!(
                !schema.contains("$ref") && !schema.contains("\"format\""),
                "{schema}"
            );
        }
    }
}
