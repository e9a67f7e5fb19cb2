//! [`PoolAction`]: the part of the user's action that the plans of a pool follow.

use std::sync::Arc;

use cleveragents_domain::{Action, Code, WorkItem};
use cleveragents_store::Engine;

use crate::action::ActionService;
use crate::operation::OperationError;
use crate::plan::KeptVariables;

/// Arguments that a pool gives to its action, as far as the action has them.
const ARGUMENTS: [&str; 5] = ["item", "title", "description", "path", "project"];

/// The texts of an action with the values of an item. Actors, automation profile and division of the action do not apply:
/// tiers and role decide about them.
#[derive(Debug, Clone)]
pub(crate) struct PoolAction {
    pub(crate) name: String,
    pub(crate) instructions: String,
    pub(crate) definition_of_done: String,
    pub(crate) invariants: Vec<String>,
    pub(crate) safety_profile: Option<String>,
}

impl PoolAction {
    /// The action of a pool for an item.
    pub(crate) fn load(
        engine: &Arc<Engine>,
        name: &str,
        item: &WorkItem,
        variables: &KeptVariables,
    ) -> Result<Self, OperationError> {
        let variables = |name: &str| variables(name);
        let action = ActionService::new(Arc::clone(engine)).available(name, &variables)?;
        check(&action)?;
        let location = item.location.as_ref();
        let value = |argument: &str| match argument {
            "item" => Some(item.id.to_string()),
            "title" => Some(item.title.clone()),
            "description" => Some(item.body.clone()),
            "path" => location.map(|location| location.path.clone()),
            "project" => Some(item.project.clone()),
            _ => None,
        };
        let given: Vec<(String, String)> = ARGUMENTS
            .into_iter()
            .filter(|argument| action.argument(argument).is_some())
            .filter_map(|argument| Some((argument.to_owned(), value(argument)?)))
            .collect();
        let values = action
            .resolve(&given)
            .map_err(OperationError::from_service)?;
        let rendered = |text: &String| action.render(text, &values);
        Ok(Self {
            name: action.name.clone(),
            instructions: rendered(
                action
                    .long_description
                    .as_ref()
                    .unwrap_or(&action.description),
            ),
            definition_of_done: rendered(&action.definition_of_done),
            invariants: action.invariants.iter().map(rendered).collect(),
            safety_profile: action.safety_profile.clone(),
        })
    }
}

/// Fails if the plans of a pool cannot follow an action.
pub(crate) fn check(action: &Action) -> Result<(), OperationError> {
    let refused = |reason: String| {
        Err(OperationError::new(
            Code::PoolActionUnsuitable,
            format!("a pool cannot use the action `{}`: {reason}", action.name),
        )
        .with_hint(format!(
            "use an action without `parts` whose required arguments are among: {}",
            ARGUMENTS.join(", ")
        )))
    };
    if action.parts.is_some() {
        return refused("it divides its task into child plans".to_owned());
    }
    let unknown = action
        .arguments
        .iter()
        .find(|argument| argument.required && !ARGUMENTS.contains(&argument.name.as_str()));
    match unknown {
        Some(argument) => refused(format!(
            "no field of a work item is the argument `{}`",
            argument.name
        )),
        None => Ok(()),
    }
}
