//! Authorizes commands that are not typed operations yet, with the resolver and authorizer of the operations.

use cleveragents_application::{Application, NamedKind, OperationError, Requirement, Resolver};
use cleveragents_domain::identity::Caller;
use cleveragents_server::Failure;

use super::operations::{Given, Offered};
use super::table::Part;
use crate::context::Context;
use crate::output::CommandError;

/// Resolves what a command names and checks that the caller may do it there. What is checked is what is run.
pub(super) fn authorize_command(
    context: &Context,
    caller: &Caller,
    offered: &Offered,
    given: &mut Given,
    namespace: Option<&str>,
) -> Result<(), CommandError> {
    if caller.is_local() {
        return Ok(());
    }
    let row = offered.row;
    let requirement = Requirement {
        scope: row.scope,
        permission: row.permission,
        is_global: row.is_everywhere,
    };
    let application = Application::new(context.engine()?, context.operation_settings());
    let operations = application
        .for_caller(caller.clone())
        .in_namespace(namespace.map(str::to_owned));
    operations.authorize(row.name, requirement, |resolver| {
        for part in row.parts {
            let parameter = part.parameter();
            let mut values = given.of(parameter).to_vec();
            for value in &mut values {
                resolve(resolver, *part, value)?;
            }
            if !values.is_empty() {
                given.set(parameter, values);
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn resolve(
    resolver: &mut Resolver<'_>,
    part: Part,
    value: &mut String,
) -> Result<(), OperationError> {
    let kind = |parameter: &str| {
        if ["project", "projects", "more_projects"].contains(&parameter) {
            NamedKind::Project
        } else {
            NamedKind::Definition
        }
    };
    match part {
        Part::Name(parameter) => resolver.name(value, kind(parameter)),
        Part::Read(parameter) => resolver.read_name(value, kind(parameter)),
        Part::Session(_) => resolver.session(value),
        Part::Plan(_) => resolver.plan(value),
        Part::Resumed(_) => resolver.resumed_run(value),
    }
}

/// The error of a command as protocols carry it.
pub(super) fn failure(error: &CommandError) -> Failure {
    let failure = Failure::new(error.code(), error.to_string()).with_details(error.details());
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
