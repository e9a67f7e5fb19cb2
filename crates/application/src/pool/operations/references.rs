//! Checks the names in the file of a pool before it is registered, so that no attempt fails for them.

use std::sync::Arc;

use cleveragents_domain::PoolDefinition;
use cleveragents_domain::identity::Scope;

use crate::action::ActionService;
use crate::operation::{OperationContext, OperationError, namespace_of};
use crate::pool::roles::pool_action;
use crate::project::ProjectError;
use crate::runtime::SafetySelection;

/// Fails if the project, an actor or the action of a pool does not exist or cannot be used.
pub(super) fn check_references(
    context: &OperationContext,
    pool: &PoolDefinition,
) -> Result<(), OperationError> {
    if !context
        .visible(Scope::Registry)
        .contains(namespace_of(&pool.project))
    {
        return Err(ProjectError::NotFound(pool.project.clone()).into());
    }
    context.projects().view(&pool.project)?;
    if let Some(name) = &pool.action {
        let variables = Arc::clone(&context.settings().process.variables);
        let variables = |name: &str| variables(name);
        let action = ActionService::new(context.engine()).available(name, &variables)?;
        pool_action::check(&action)?;
    }
    let tiers = pool.tiers.iter().filter(|_| pool.role.runs_model());
    let actors: Vec<&str> = tiers
        .map(|tier| tier.actor.as_str())
        .chain(pool.reviewer.as_deref())
        .collect();
    if actors.is_empty() {
        return Ok(());
    }
    let runtime = context.runtime(&SafetySelection::default(), None)?;
    for actor in actors {
        runtime.actor(actor)?;
    }
    Ok(())
}
