//! Actions: the templates that plans are made from.
//!
//! [`Action::read`] reads one from its YAML file, [`Action::resolve`] checks what a person gives for its
//! arguments, and [`Action::render`] puts the values into its texts. A plan keeps the action it was made
//! from as JSON, so that a later change of the file does not reach it.

mod argument;
#[cfg(test)]
mod broken;
mod file;
mod template;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use argument::{
    ActionArgument, ActionArgumentError, ActionArgumentType, ActionValues, ArgumentProblem,
};
pub use file::ActionFault;

/// Whether plans are made from an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionState {
    /// They are.
    Available,
    /// No more.
    Archived,
}

impl ActionState {
    /// The state as printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Archived => "archived",
        }
    }
}

/// The actors that an action names for the parts of a plan. Where it names none, the configuration does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionActors {
    /// Makes the strategy.
    pub strategy: Option<String>,
    /// Does the work.
    pub execution: Option<String>,
    /// Says what it will take.
    pub estimation: Option<String>,
    /// Looks at the result.
    pub review: Option<String>,
    /// Nobody: `none`, or not given. Plans of earlier versions may hold a name here that has no effect.
    pub apply: Option<String>,
    /// Reconciles invariants.
    pub invariant: Option<String>,
}

impl ActionActors {
    /// The actors with the fields of the file that name them.
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

/// A template of plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// Its whole name, such as `local/lint`.
    pub name: String,
    /// What it does, in a sentence. May hold places.
    pub description: String,
    /// What it does, at length. May hold places.
    pub long_description: Option<String>,
    /// When a plan of it is done. May hold places.
    pub definition_of_done: String,
    /// Who works on a plan of it.
    pub actors: ActionActors,
    /// Whether more than one plan may be made from it.
    pub reusable: bool,
    /// Whether its plans may only look.
    pub read_only: bool,
    /// What a person says when making a plan of it, in the order of the file.
    pub arguments: Vec<ActionArgument>,
    /// The automation profile its plans start with.
    pub automation_profile: Option<String>,
    /// What every plan of it must keep true. May hold places.
    pub invariants: Vec<String>,
    /// The safety profile of its plans.
    pub safety_profile: Option<String>,
}

impl Action {
    /// The argument that a name means; hyphen and underscore are the same.
    pub fn argument(&self, name: &str) -> Option<&ActionArgument> {
        argument::named(&self.arguments, name)
    }

    /// Puts values into a text: `{name}` becomes the value of that argument, or nothing when it has
    /// none; `{{` and `}}` become braces. A value is never looked into again.
    pub fn render(&self, text: &str, values: &ActionValues) -> String {
        template::render(text, |name| {
            let argument = self.argument(name)?;
            let value = values.values.get(&argument.name);
            Some(value.map(argument::shown).unwrap_or_default())
        })
    }
}
