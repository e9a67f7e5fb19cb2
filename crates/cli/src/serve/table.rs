//! The table of operations: which commands a server offers, what they need, and which of their parameters name
//! things. What is not in it cannot be called; nothing is in it that reads or writes files of the server, asks at a
//! terminal, or changes the configuration.

use cleveragents_domain::identity::{Permission, Scope};

use Part::{Attachment, Definition, Invariant, Name, Plan, Read, Resumed, Run, Session};
use Permission::{Manage, Read as Look, Write};
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
    /// A run of an actor.
    Run(&'static str),
    /// A run of an actor that goes on, with all that it was given when it began.
    Resumed(&'static str),
    /// An invariant, where it holds.
    Invariant(&'static str),
    /// An attachment of a validation, where its resource belongs.
    Attachment(&'static str),
    /// The file of a definition, which is given as a text; its `name` says where it belongs.
    Definition(&'static str),
}

impl Part {
    /// The parameter.
    pub(crate) const fn parameter(self) -> &'static str {
        match self {
            Name(parameter)
            | Read(parameter)
            | Session(parameter)
            | Plan(parameter)
            | Run(parameter)
            | Resumed(parameter)
            | Invariant(parameter)
            | Attachment(parameter)
            | Definition(parameter) => parameter,
        }
    }

    /// Whether it is a file of the caller, which is given as a text.
    pub(crate) const fn is_file(self) -> bool {
        matches!(self, Definition(_))
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
    /// Whether what comes of it may be a document, which is written to a file of the caller.
    pub(crate) is_document: bool,
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
        is_document: false,
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

    const fn document(mut self) -> Self {
        self.is_document = true;
        self.without = &["output", "force"];
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
        "registry/action/create",
        "action create",
        Registry,
        Manage,
        &[Definition("config")],
    ),
    row("registry/action/list", "action list", Registry, Look, &[]),
    row(
        "registry/action/show",
        "action show",
        Registry,
        Look,
        &[Name("name")],
    ),
    row(
        "registry/action/archive",
        "action archive",
        Registry,
        Manage,
        &[Name("name")],
    ),
    row(
        "registry/actor/add",
        "actor add",
        Registry,
        Manage,
        &[Definition("config")],
    ),
    row(
        "registry/actor/update",
        "actor update",
        Registry,
        Manage,
        &[Definition("config")],
    ),
    row("registry/actor/list", "actor list", Registry, Look, &[]),
    row(
        "registry/actor/show",
        "actor show",
        Registry,
        Look,
        &[Name("name")],
    ),
    row(
        "registry/actor/graph",
        "actor graph",
        Registry,
        Look,
        &[Name("name")],
    )
    .document()
    .without(&["output", "config"])
    .require(&["name"]),
    row(
        "registry/actor/remove",
        "actor remove",
        Registry,
        Manage,
        &[Name("name")],
    ),
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
    row("run/list", "run list", Registry, Look, &[Read("actor")]),
    row("run/show", "run show", Registry, Look, &[Run("run")]),
    row("run/replay", "run replay", Registry, Look, &[Run("run")]),
    row(
        "run/resume",
        "run resume",
        Registry,
        Write,
        &[Resumed("run")],
    )
    .without(&["stream"]),
    row("run/cancel", "run cancel", Registry, Write, &[Run("run")]),
    row(
        "registry/project/create",
        "project create",
        Registry,
        Write,
        &[
            Name("name"),
            Name("resources"),
            Read("invariant_actor"),
            Read("automation_profile"),
        ],
    ),
    row("registry/project/list", "project list", Registry, Look, &[]),
    row(
        "registry/project/show",
        "project show",
        Registry,
        Look,
        &[Name("reference")],
    ),
    row(
        "registry/project/delete",
        "project delete",
        Registry,
        Manage,
        &[Name("reference")],
    ),
    row(
        "registry/project/link-resource",
        "project link-resource",
        Registry,
        Manage,
        &[Name("reference"), Name("resource")],
    ),
    row(
        "registry/project/unlink-resource",
        "project unlink-resource",
        Registry,
        Manage,
        &[Name("reference"), Name("resource")],
    ),
    row(
        "registry/resource/list",
        "resource list",
        Registry,
        Look,
        &[Read("project")],
    ),
    row(
        "registry/resource/show",
        "resource show",
        Registry,
        Look,
        &[Name("reference")],
    ),
    row(
        "registry/resource/inspect",
        "resource inspect",
        Registry,
        Look,
        &[Name("reference")],
    ),
    row(
        "registry/resource/tree",
        "resource tree",
        Registry,
        Look,
        &[Name("reference")],
    )
    .require(&["reference"]),
    row(
        "registry/resource/link-child",
        "resource link-child",
        Registry,
        Manage,
        &[Name("parent"), Name("child")],
    ),
    row(
        "registry/resource/unlink-child",
        "resource unlink-child",
        Registry,
        Manage,
        &[Name("parent"), Name("child")],
    ),
    row(
        "registry/resource/remove",
        "resource remove",
        Registry,
        Manage,
        &[Name("reference")],
    ),
    row(
        "registry/tool/add",
        "tool add",
        Registry,
        Manage,
        &[Definition("config")],
    ),
    row(
        "tool/calls",
        "tool calls",
        Sessions,
        Look,
        &[Session("session")],
    ),
    row("registry/tool/list", "tool list", Registry, Look, &[]),
    row(
        "registry/tool/show",
        "tool show",
        Registry,
        Look,
        &[Read("name")],
    )
    .require(&["name"]),
    row(
        "registry/tool/remove",
        "tool remove",
        Registry,
        Manage,
        &[Name("name")],
    ),
    row("registry/skill/list", "skill list", Registry, Look, &[]),
    row(
        "registry/skill/show",
        "skill show",
        Registry,
        Look,
        &[Name("name")],
    ),
    row(
        "registry/skill/tools",
        "skill tools",
        Registry,
        Look,
        &[Name("name")],
    ),
    row(
        "registry/skill/remove",
        "skill remove",
        Registry,
        Manage,
        &[Name("name")],
    ),
    row(
        "registry/validation/add",
        "validation add",
        Registry,
        Manage,
        &[Definition("config")],
    ),
    row(
        "registry/validation/list",
        "validation list",
        Registry,
        Look,
        &[],
    ),
    row(
        "registry/validation/show",
        "validation show",
        Registry,
        Look,
        &[Name("name")],
    ),
    row(
        "registry/validation/remove",
        "validation remove",
        Registry,
        Manage,
        &[Name("name")],
    ),
    row(
        "registry/validation/attach",
        "validation attach",
        Registry,
        Manage,
        &[
            Name("resource"),
            Read("validation"),
            Name("project"),
            Plan("plan"),
        ],
    ),
    row(
        "registry/validation/attachments",
        "validation attachments",
        Registry,
        Look,
        &[
            Name("resource"),
            Read("validation"),
            Read("project"),
            Plan("plan"),
        ],
    )
    .require(&["resource"]),
    row(
        "registry/validation/detach",
        "validation detach",
        Registry,
        Manage,
        &[Attachment("attachment")],
    ),
    row(
        "registry/automation-profile/add",
        "automation-profile add",
        Registry,
        Manage,
        &[Definition("config")],
    ),
    row(
        "registry/automation-profile/list",
        "automation-profile list",
        Registry,
        Look,
        &[],
    ),
    row(
        "registry/automation-profile/show",
        "automation-profile show",
        Registry,
        Look,
        &[Read("name")],
    )
    .require(&["name"]),
    row(
        "registry/automation-profile/remove",
        "automation-profile remove",
        Registry,
        Manage,
        &[Name("name")],
    ),
    row(
        "registry/invariant/add",
        "invariant add",
        Registry,
        Manage,
        &[Name("project"), Name("action"), Plan("plan")],
    )
    .without(&["global"]),
    row(
        "registry/invariant/list",
        "invariant list",
        Registry,
        Look,
        &[Read("project"), Read("action"), Plan("plan")],
    )
    .without(&["effective"]),
    row(
        "registry/invariant/remove",
        "invariant remove",
        Registry,
        Manage,
        &[Invariant("id")],
    ),
    row("registry/model/list", "model list", Registry, Look, &[]),
    row("registry/model/show", "model show", Registry, Look, &[]),
    row(
        "registry/resource-type/list",
        "resource type list",
        Registry,
        Look,
        &[],
    ),
    row(
        "registry/resource-type/show",
        "resource type show",
        Registry,
        Look,
        &[],
    ),
    row("health/check", "version", Server, Look, &[]),
    row("diagnostics/run", "diagnostics", Server, Look, &[])
        .without(&["repair"])
        .everywhere(),
    row("db/status", "db status", Server, Look, &[]).everywhere(),
    row("cleanup/status", "cleanup status", Server, Look, &[]).everywhere(),
];
