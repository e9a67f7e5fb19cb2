//! The operations on actions.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{Action, ActionArgument, ActionState, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service::{ActionFilter, ActionService, RegisteredAction};
use crate::definition::{
    DefinitionError, DefinitionText, RegisteredDefinition, add_request, show_request,
};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
    name_filter, namespace_of, require_confirmation,
};
use crate::resource::{Outcome, Register};

/// The operations on actions.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<CreateAction>(),
    OperationEntry::new::<ListActions>(),
    OperationEntry::new::<ShowAction>(),
    OperationEntry::new::<ArchiveAction>(),
];

fn service(context: &OperationContext) -> ActionService {
    ActionService::new(context.engine())
}

/// An action in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedAction {
    pub name: String,
    pub state: ActionState,
    /// Content of the action's file; missing if the file is no longer valid.
    #[serde(flatten)]
    pub definition: Option<ListedDefinition>,
    /// Error in the file, if the file is no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Number of plans created from the action.
    pub plans: u64,
}

/// Content of an action's file that lists show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedDefinition {
    /// `null` stands for the configured actor.
    pub strategy_actor: Option<String>,
    /// `null` stands for the configured actor.
    pub execution_actor: Option<String>,
    /// Whether several plans may be created from the action.
    pub reusable: bool,
    /// Whether plans of the action must not change anything.
    pub read_only: bool,
    pub description: String,
}

impl From<&RegisteredAction> for ListedAction {
    fn from(found: &RegisteredAction) -> Self {
        let read = &found.registered.definition;
        let definition = read.as_ref().ok().map(|action| ListedDefinition {
            strategy_actor: action.actors.strategy.clone(),
            execution_actor: action.actors.execution.clone(),
            reusable: action.reusable,
            read_only: action.read_only,
            description: action.description.clone(),
        });
        Self {
            name: found.registered.stored.name.clone(),
            state: found.state(),
            definition,
            problem: read.as_ref().err().map(ToString::to_string),
            plans: found.plans,
        }
    }
}

/// An action with its complete file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionInfo {
    #[serde(flatten)]
    pub summary: ListedAction,
    /// Remaining content of the file; missing if the file is no longer valid.
    #[serde(flatten)]
    pub details: Option<ActionDetails>,
    /// File that the definition was read from.
    pub config: String,
    /// Grows with every update of the definition.
    pub version: u64,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// Time at which the action was archived.
    pub archived: Option<Timestamp>,
}

/// Content of an action's file that lists do not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionDetails {
    pub long_description: Option<String>,
    pub definition_of_done: String,
    pub estimation_actor: Option<String>,
    pub review_actor: Option<String>,
    pub apply_actor: Option<String>,
    pub invariant_actor: Option<String>,
    /// The automation profile that plans of the action start with.
    pub automation_profile: Option<String>,
    pub safety_profile: Option<String>,
    /// The invariants of all plans of the action.
    pub invariants: Vec<String>,
    pub arguments: Vec<ActionArgument>,
}

impl From<Action> for ActionDetails {
    fn from(action: Action) -> Self {
        Self {
            long_description: action.long_description,
            definition_of_done: action.definition_of_done,
            estimation_actor: action.actors.estimation,
            review_actor: action.actors.review,
            apply_actor: action.actors.apply,
            invariant_actor: action.actors.invariant,
            automation_profile: action.automation_profile,
            safety_profile: action.safety_profile,
            invariants: action.invariants,
            arguments: action.arguments,
        }
    }
}

impl From<RegisteredAction> for ActionInfo {
    fn from(found: RegisteredAction) -> Self {
        let summary = ListedAction::from(&found);
        let RegisteredDefinition { stored, definition } = found.registered;
        Self {
            summary,
            details: definition.ok().map(ActionDetails::from),
            config: stored.source,
            version: stored.version,
            created: stored.created_at,
            updated: stored.updated_at,
            archived: stored.archived_at,
        }
    }
}

/// The response of `registry/action/create`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedAction {
    pub action: ActionInfo,
    pub outcome: Outcome,
}

add_request! {
    /// Registers an action.
    CreateAction("registry/action/create", "Register an action") -> CreatedAction;
    update: "Replace an action of the same name, and unarchive it.";
    run: create;
}

fn create(
    context: &OperationContext,
    new: DefinitionText<'_>,
    register: Register,
) -> Result<CreatedAction, OperationError> {
    let (actions, variables) = (service(context), context.variables());
    let added = actions.add(new.text, new.source, register, variables)?;
    Ok(CreatedAction {
        action: actions.get(&added.stored.name, variables)?.into(),
        outcome: added.outcome,
    })
}

/// Lists actions by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListActions {
    /// Only actions whose name matches this regular expression.
    #[serde(default)]
    pub pattern: Option<String>,
    #[serde(default)]
    pub state: Option<ActionState>,
    /// Only actions in this namespace.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// The response of `registry/action/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionList {
    pub actions: Vec<ListedAction>,
    /// The filters of the request.
    pub filters: ActionFilters,
    pub summary: ActionListSummary,
}

/// The filters of a list of actions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionFilters {
    pub state: Option<ActionState>,
    pub namespace: Option<String>,
    pub pattern: Option<String>,
}

/// Counts of the listed actions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionListSummary {
    pub total: u64,
    pub available: u64,
    pub archived: u64,
    /// Number of actions whose files are no longer valid.
    pub broken: u64,
    pub total_plans_created: u64,
}

impl Operation for ListActions {
    const NAME: &'static str = "registry/action/list";
    const SUMMARY: &'static str = "List actions";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ActionList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ActionList, OperationError> {
        let matches = name_filter(self.pattern.as_deref())?;
        let filter = ActionFilter {
            state: self.state,
            namespace: self.namespace,
        };
        let visible = context.visible(Scope::Registry);
        let mut found = service(context).list(&filter, context.variables())?;
        found.retain(|action| {
            let name = &action.registered.stored.name;
            matches(name) && visible.contains(namespace_of(name))
        });
        let actions: Vec<ListedAction> = found.iter().map(ListedAction::from).collect();
        let count = |is_counted: &dyn Fn(&ListedAction) -> bool| {
            actions.iter().filter(|action| is_counted(action)).count() as u64
        };
        let summary = ActionListSummary {
            total: actions.len() as u64,
            available: count(&|action| action.state == ActionState::Available),
            archived: count(&|action| action.state == ActionState::Archived),
            broken: count(&|action| action.problem.is_some()),
            total_plans_created: actions.iter().map(|action| action.plans).sum(),
        };
        Ok(ActionList {
            actions,
            filters: ActionFilters {
                state: filter.state,
                namespace: filter.namespace,
                pattern: self.pattern,
            },
            summary,
        })
    }
}

/// The response of operations on one action.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownAction {
    pub action: ActionInfo,
}

show_request! {
    /// Shows an action with its texts, arguments, actors and invariants.
    ShowAction("registry/action/show", "Show an action") -> ShownAction;
    run: show;
}

fn show(context: &OperationContext, name: &str) -> Result<ShownAction, OperationError> {
    let found = service(context).get(name, context.variables())?;
    if let Err(error) = &found.registered.definition {
        return Err(DefinitionError::File(error.clone()).into());
    }
    Ok(ShownAction {
        action: found.into(),
    })
}

/// Archives an action: no new plans can be created from it. Existing plans remain unchanged.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchiveAction {
    pub name: String,
    /// Confirms the archiving; without it nothing is archived.
    #[serde(default)]
    pub yes: bool,
}

impl Operation for ArchiveAction {
    const NAME: &'static str = "registry/action/archive";
    const SUMMARY: &'static str = "Archive an action; its plans remain";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = ShownAction;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.name, NamedKind::Definition)
    }

    fn run(self, context: &OperationContext) -> Result<ShownAction, OperationError> {
        let (actions, variables) = (service(context), context.variables());
        let found = actions.get(&self.name, variables)?;
        require_confirmation(self.yes)?;
        let archived = actions.archive(&found.registered.stored.name)?;
        Ok(ShownAction {
            action: actions.get(&archived.name, variables)?.into(),
        })
    }
}
