//! Actions: the templates that plans are created from.
//!
//! [`Action::read`] parses an action from its YAML file, [`Action::resolve`] validates the argument values that a user
//! gives, and [`Action::render`] fills them into the texts of the action. A plan stores a copy of its action as JSON,
//! so that a later change of the file does not affect the plan.

mod argument;
#[cfg(test)]
mod broken;
mod file;
mod parts;
mod template;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use argument::{
    ActionArgument, ActionArgumentError, ActionArgumentType, ActionValues, ArgumentProblem,
};
pub use parts::{ActionPart, ActionParts, PartBounds, PartDivision};

/// Whether plans can be created from an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionState {
    /// Plans can be created.
    Available,
    /// No more plans can be created.
    Archived,
}

impl ActionState {
    /// Printed name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Archived => "archived",
        }
    }
}

/// The actors that an action names for the roles of a plan. The configuration names the actors of the other roles.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionActors {
    /// Creates the strategy.
    pub strategy: Option<String>,
    /// Executes the steps.
    pub execution: Option<String>,
    /// Estimates effort and cost.
    pub estimation: Option<String>,
    /// Reviews the result.
    pub review: Option<String>,
    /// Always `none` or not given. Plans of earlier versions may contain a name here that has no effect.
    pub apply: Option<String>,
    /// Reconciles invariants.
    pub invariant: Option<String>,
}

impl ActionActors {
    /// Each actor with the name of its field in the file.
    pub fn by_field(&self) -> [(&'static str, Option<&str>); 6] {
        [
            ("strategy_actor", self.strategy.as_deref()),
            ("execution_actor", self.execution.as_deref()),
            ("estimation_actor", self.estimation.as_deref()),
            ("review_actor", self.review.as_deref()),
            ("apply_actor", self.apply.as_deref()),
            ("invariant_actor", self.invariant.as_deref()),
        ]
    }
}

/// A template for plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// Full name, such as `local/lint`.
    pub name: String,
    /// Short description, one sentence. May contain placeholders.
    pub description: String,
    /// Long description. May contain placeholders.
    pub long_description: Option<String>,
    /// Criteria for a plan to be done. May contain placeholders.
    pub definition_of_done: String,
    /// Actors of plans of the action.
    pub actors: ActionActors,
    /// Whether more than one plan can be created from the action.
    pub reusable: bool,
    /// Whether plans of the action must not change anything.
    pub read_only: bool,
    /// Arguments that the user gives when creating a plan, in the order of the file.
    pub arguments: Vec<ActionArgument>,
    /// Automation profile of plans of the action.
    pub automation_profile: Option<String>,
    /// Invariants of plans of the action. May contain placeholders.
    pub invariants: Vec<String>,
    /// Safety profile of plans of the action.
    pub safety_profile: Option<String>,
    /// Division of the task into child plans. Its texts may contain placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<ActionParts>,
}

impl Action {
    /// Looks up an argument by name; hyphen and underscore are equivalent.
    pub fn argument(&self, name: &str) -> Option<&ActionArgument> {
        argument::named(&self.arguments, name)
    }

    /// The division of the task, with values filled into its texts.
    pub fn render_parts(&self, values: &ActionValues) -> Option<ActionParts> {
        let parts = self.parts.as_ref()?;
        let division = match &parts.division {
            PartDivision::List(list) => PartDivision::List(
                list.iter()
                    .map(|part| ActionPart {
                        title: self.render(&part.title, values),
                        description: self.render(&part.description, values),
                        ..part.clone()
                    })
                    .collect(),
            ),
            PartDivision::Paths(pattern) => PartDivision::Paths(self.render(pattern, values)),
            PartDivision::Bounds(bounds) => PartDivision::Bounds(*bounds),
        };
        Some(ActionParts {
            division,
            children: parts.children.clone(),
        })
    }

    /// Fills values into a text: `{name}` becomes the value of that argument, or nothing when it has none; `{{` and
    /// `}}` become braces. A value is never interpreted as a template.
    pub fn render(&self, text: &str, values: &ActionValues) -> String {
        template::render(text, |name| {
            let argument = self.argument(name)?;
            let value = values.values.get(&argument.name);
            Some(value.map(argument::shown).unwrap_or_default())
        })
    }
}
