//! The commands that a server offers and that are not typed operations yet: they run agents and stream, or
//! describe the server itself. Nothing in it reads or writes files of the server, asks at a terminal, or changes
//! the configuration.

use cleveragents_domain::identity::{Permission, Scope};

use Part::{Name, Plan, Read, Resumed, Session};
use Permission::{Read as Look, Write};
use Scope::{Plans, Registry, Server, Sessions};

/// What a parameter names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Something by its name, in whose namespace the operation is done.
    Name(&'static str),
    /// Something by its name that is only looked at, or run.
    Read(&'static str),
    /// A session.
    Session(&'static str),
    /// A plan.
    Plan(&'static str),
    /// A run of an actor that goes on, with all that it was given when it began.
    Resumed(&'static str),
}

impl Part {
    /// The parameter.
    pub(crate) const fn parameter(self) -> &'static str {
        match self {
            Name(parameter) | Read(parameter) | Session(parameter) | Plan(parameter)
            | Resumed(parameter) => parameter,
        }
    }
}

/// One operation: a command, and what a server must know of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// The name of the operation.
    pub(crate) name: &'static str,
    /// The command.
    pub(crate) command: &'static str,
    pub(crate) scope: Scope,
    pub(crate) permission: Permission,
    /// What its parameters name. Without any that decides, it is a list.
    pub(crate) parts: &'static [Part],
    /// Parameters that must be given though the command can do without.
    pub(crate) required: &'static [&'static str],
    /// Parameters of the command that are not offered.
    pub(crate) without: &'static [&'static str],
    /// Whether it belongs to no namespace.
    pub(crate) is_everywhere: bool,
}

const fn row(
    name: &'static str,
    command: &'static str,
    scope: Scope,
    permission: Permission,
    parts: &'static [Part],
) -> Row {
    Row {
        name,
        command,
        scope,
        permission,
        parts,
        required: &[],
        without: &[],
        is_everywhere: false,
    }
}

impl Row {
    const fn without(mut self, parameters: &'static [&'static str]) -> Self {
        self.without = parameters;
        self
    }

    const fn require(mut self, parameters: &'static [&'static str]) -> Self {
        self.required = parameters;
        self
    }

    const fn everywhere(mut self) -> Self {
        self.is_everywhere = true;
        self
    }
}

/// Parameters of turns and runs that name files or sandboxes, or allow what nobody was asked about.
const UNBOUND: &[&str] = &[
    "stream",
    "record",
    "sandbox",
    "safety",
    "rule",
    "config",
    "input",
    "load_context",
    "output",
    "context",
    "allow_unsafe",
    "asked",
];

/// Every operation.
pub(crate) static ROWS: &[Row] = &[
    row(
        "session/tell",
        "session tell",
        Sessions,
        Write,
        &[
            Session("session"),
            Name("project"),
            Read("actor"),
            Read("skill"),
            Read("mcp"),
        ],
    )
    .without(UNBOUND),
    row(
        "plan/use",
        "plan use",
        Plans,
        Write,
        &[
            Name("projects"),
            Name("more_projects"),
            Read("action"),
            Read("automation_profile"),
            Read("strategy_actor"),
            Read("execution_actor"),
            Read("estimation_actor"),
            Read("review_actor"),
            Read("invariant_actor"),
        ],
    )
    .without(&["stream"]),
    row(
        "plan/execute",
        "plan execute",
        Plans,
        Write,
        &[Plan("reference")],
    )
    .without(&["stream", "background"])
    .require(&["reference"]),
    row(
        "plan/apply",
        "plan apply",
        Plans,
        Write,
        &[Plan("reference")],
    )
    .require(&["reference"]),
    row(
        "plan/resume",
        "plan resume",
        Plans,
        Write,
        &[Plan("reference")],
    )
    .without(&["stream"]),
    row(
        "actor/run",
        "actor run",
        Registry,
        Write,
        &[
            Name("name"),
            Name("project"),
            Read("skill"),
            Read("mcp"),
            Read("tool"),
        ],
    )
    .without(UNBOUND)
    .require(&["name", "prompt"]),
    row(
        "run/resume",
        "run resume",
        Registry,
        Write,
        &[Resumed("run")],
    )
    .without(&["stream"]),
    row("health/check", "version", Server, Look, &[]),
    row("diagnostics/run", "diagnostics", Server, Look, &[])
        .without(&["repair"])
        .everywhere(),
    row("db/status", "db status", Server, Look, &[]).everywhere(),
    row("cleanup/status", "cleanup status", Server, Look, &[]).everywhere(),
];
