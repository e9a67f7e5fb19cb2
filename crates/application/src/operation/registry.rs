//! The table of operations, for front ends that receive requests as JSON.

use cleveragents_domain::Code;
use cleveragents_process::Cancel;
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::{Operation, OperationContext, OperationError, Requirement};

/// The description of an operation for protocols.
#[derive(Debug, Clone, Copy)]
pub struct OperationEntry {
    /// The name in paths and methods, such as `session/create`.
    pub name: &'static str,
    /// One sentence for the list of operations.
    pub summary: &'static str,
    /// The permission that the caller needs.
    pub requirement: Requirement,
    /// Whether the operation runs agents and reports events to the observer of the front end.
    pub runs_agents: bool,
    /// The JSON schema of the request.
    pub request: fn() -> Schema,
    /// The JSON schema of the response.
    pub response: fn() -> Schema,
    /// The schema of the request in a document with shared definitions.
    pub request_in: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of the response in a document with shared definitions.
    pub response_in: fn(&mut SchemaGenerator) -> Schema,
    prepare: fn(OperationContext, Value) -> Result<PreparedCall, OperationError>,
}

/// A resolved and authorized operation, to be run once.
pub type PreparedCall = Box<dyn FnOnce(&Cancel) -> Result<Value, OperationError> + Send>;

impl OperationEntry {
    pub(crate) const fn new<O: Operation>() -> Self {
        Self {
            name: O::NAME,
            summary: O::SUMMARY,
            requirement: O::REQUIREMENT,
            runs_agents: O::RUNS_AGENTS,
            request: schema_of::<O>,
            response: schema_of::<O::Response>,
            request_in: subschema_of::<O>,
            response_in: subschema_of::<O::Response>,
            prepare: prepare::<O>,
        }
    }

    /// Parses a request, resolves and authorizes it. `Null` is a request without parameters.
    pub fn prepare(
        &self,
        context: OperationContext,
        request: Value,
    ) -> Result<PreparedCall, OperationError> {
        (self.prepare)(context, request)
    }
}

fn schema_of<T: schemars::JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>()
}

fn subschema_of<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn prepare<O: Operation>(
    context: OperationContext,
    request: Value,
) -> Result<PreparedCall, OperationError> {
    let malformed = |reason: &str| {
        let message = format!("parameters of `{}`: {reason}", O::NAME);
        OperationError::new(Code::MalformedRequest, message)
    };
    let request = match request {
        Value::Null => Value::Object(Map::new()),
        // serde would also accept a list, as the values of the fields in order.
        request if request.is_object() => request,
        _ => return Err(malformed("they are not an object")),
    };
    let request: O =
        serde_json::from_value(request).map_err(|error| malformed(&error.to_string()))?;
    let prepared = context.prepare(request)?;
    Ok(Box::new(move |cancel| {
        let response = prepared.cancelled_by(cancel).run()?;
        serde_json::to_value(response).map_err(|error| {
            OperationError::internal("the response cannot be written as JSON").caused_by(error)
        })
    }))
}

/// Every operation, by area.
static AREAS: &[&[OperationEntry]] = &[
    crate::session::operations::ENTRIES,
    crate::project::operations::ENTRIES,
    crate::resource::operations::ENTRIES,
    crate::action::operations::ENTRIES,
    crate::invariant::operations::ENTRIES,
    crate::automation::operations::ENTRIES,
    crate::tool::operations::ENTRIES,
    crate::skill::operations::ENTRIES,
    crate::validation::operations::ENTRIES,
    crate::actor::operations::ENTRIES,
    crate::run::operations::ENTRIES,
    crate::model_operations::ENTRIES,
    crate::plan::operations::ENTRIES,
    crate::pool::roles::operations::ENTRIES,
    crate::work_item::operations::ENTRIES,
    crate::pool::operations::ENTRIES,
    crate::system::operations::ENTRIES,
];

/// Every operation.
pub fn operations() -> impl Iterator<Item = &'static OperationEntry> {
    AREAS.iter().copied().flatten()
}

/// Returns the operation with this name.
pub fn find_operation(name: &str) -> Result<&'static OperationEntry, OperationError> {
    operations()
        .find(|entry| entry.name == name)
        .ok_or_else(|| {
            OperationError::new(
                Code::UnknownOperation,
                format!("there is no operation `{name}`"),
            )
        })
}
