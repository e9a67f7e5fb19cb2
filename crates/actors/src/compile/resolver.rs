//! [`Resolver`] looks up the actors and tool sources that a file references. [`CompileStack`] lists the actors that are
//! being compiled, so that no actor contains itself.

use std::sync::Arc;

use cleveragents_domain::ActorName;

use crate::graph::Actor;

/// Maximum nesting of actors.
const MAX_DEPTH: usize = 64;

/// Looks up the actors and tool sources that a file references.
pub trait Resolver {
    /// Returns another actor, or a model by the name `provider/model`. Implementations compile actors that are defined
    /// in files with [`compile_within`](super::compile_within), and pass `stack` to it.
    fn actor(&self, name: &str, stack: &CompileStack<'_>) -> Result<Arc<Actor>, ResolveError>;

    /// Checks that a tool, a pattern of tools, a skill or a server exists; returns similar names when it does not.
    fn find(&self, kind: ToolSource, name: &str) -> Result<(), Vec<String>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolSource {
    /// A tool, or a pattern of tools.
    Tool,
    Skill,
    McpServer,
}

impl ToolSource {
    /// Display name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::McpServer => "MCP server",
        }
    }
}

/// An actor cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// The actor does not exist. Contains similar names.
    Missing(Vec<String>),
    /// The actor exists, but is invalid. Contains the reason.
    Broken(String),
}

/// The actors that are being compiled, the outermost last.
#[derive(Debug, Clone, Copy)]
pub struct CompileStack<'t> {
    /// The file that an unnamed actor belongs to.
    owner: &'t str,
    name: &'t str,
    parent: Option<&'t Self>,
}

impl<'t> CompileStack<'t> {
    /// Creates a stack with one actor.
    pub(crate) const fn begin(name: &'t str) -> Self {
        Self {
            owner: "",
            name,
            parent: None,
        }
    }

    /// Adds an actor to the stack.
    pub(crate) const fn then<'n>(&'n self, owner: &'n str, name: &'n str) -> CompileStack<'n>
    where
        't: 'n,
    {
        CompileStack {
            owner,
            name,
            parent: Some(self),
        }
    }

    /// Name of the innermost actor, prefixed with the name of its file when it is defined inside a file.
    pub(crate) fn name(&self) -> String {
        match self.owner {
            "" => self.name.to_owned(),
            owner => format!("{owner}:{}", self.name),
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |step| step.parent)
    }

    /// Reason why an actor cannot be added to the stack: it would create a cycle, or exceed the maximum depth.
    pub(crate) fn refusal(&self, owner: &str, name: &str) -> Option<String> {
        let is_same = |step: &&Self| step.owner == owner && step.name == name;
        if self.steps().any(|step| is_same(&step)) {
            let mut cycle = vec![name];
            for step in self.steps() {
                cycle.push(step.name);
                if is_same(&step) {
                    break;
                }
            }
            cycle.reverse();
            return Some(format!("actors contain each other: {}", cycle.join(" → ")));
        }
        (self.steps().count() >= MAX_DEPTH)
            .then(|| format!("actors are nested more than {MAX_DEPTH} levels deep"))
    }
}

/// Canonical form of a name: with its namespace, in lower case.
pub(crate) fn canonical(name: &str) -> String {
    name.parse::<ActorName>()
        .map_or_else(|_| name.to_owned(), |name| name.to_string())
}
