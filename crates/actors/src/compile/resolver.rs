//! [`Resolver`]: what compiling needs to know of the world beyond the file, and [`Trail`]: which actors
//! are being compiled right now, so that none comes to contain itself.

use std::sync::Arc;

use cleveragents_domain::ActorName;

use crate::graph::Actor;

/// How deep actors may stand in each other.
const DEEPEST: usize = 64;

/// Tells what the file refers to.
pub trait Resolver {
    /// Another actor, or a model by the name `provider/model`. An actor that has a file is compiled
    /// with [`compile_within`](super::compile_within) and this trail.
    fn actor(&self, name: &str, trail: &Trail<'_>) -> Result<Arc<Actor>, Unresolved>;

    /// Whether there is a tool (or a tool that fits a pattern), a skill or a server of this name; the
    /// names that are like it when there is none.
    fn find(&self, kind: Supply, name: &str) -> Result<(), Vec<String>>;
}

/// Where tools come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Supply {
    /// A tool, or a pattern of tools.
    Tool,
    /// A skill.
    Skill,
    /// An MCP server.
    McpServer,
}

impl Supply {
    /// What people call it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::McpServer => "MCP server",
        }
    }
}

/// Why there is no actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// Nobody has this name; these are like it.
    Missing(Vec<String>),
    /// There is one, and something is wrong with it.
    Broken(String),
}

/// The actors that are being compiled, the outermost last.
#[derive(Debug, Clone, Copy)]
pub struct Trail<'t> {
    /// The file that an actor without a name of its own belongs to.
    owner: &'t str,
    name: &'t str,
    before: Option<&'t Self>,
}

impl<'t> Trail<'t> {
    /// The trail that begins with an actor.
    pub(crate) const fn begin(name: &'t str) -> Self {
        Self {
            owner: "",
            name,
            before: None,
        }
    }

    /// The trail one step deeper.
    pub(crate) const fn then<'n>(&'n self, owner: &'n str, name: &'n str) -> Trail<'n>
    where
        't: 'n,
    {
        Trail {
            owner,
            name,
            before: Some(self),
        }
    }

    /// What the innermost actor is called: with that of its file before it when it is a part of one.
    pub(crate) fn name(&self) -> String {
        match self.owner {
            "" => self.name.to_owned(),
            owner => format!("{owner}:{}", self.name),
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |step| step.before)
    }

    /// Why the trail cannot go on with an actor: the circle that it would close, or its depth.
    pub(crate) fn objection(&self, owner: &str, name: &str) -> Option<String> {
        let closes = |step: &&Self| step.owner == owner && step.name == name;
        if self.steps().any(|step| closes(&step)) {
            let mut circle = vec![name];
            for step in self.steps() {
                circle.push(step.name);
                if closes(&step) {
                    break;
                }
            }
            circle.reverse();
            return Some(format!("actors contain each other: {}", circle.join(" → ")));
        }
        (self.steps().count() >= DEEPEST)
            .then(|| format!("actors stand in each other more than {DEEPEST} deep"))
    }
}

/// The one form of a name: with its namespace, in lower case.
pub(crate) fn canonical(name: &str) -> String {
    name.parse::<ActorName>()
        .map_or_else(|_| name.to_owned(), |name| name.to_string())
}
