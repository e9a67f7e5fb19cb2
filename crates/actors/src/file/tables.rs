//! The fields of actor files, section by section.

use super::section::{Field, FieldUse, Form, Section};

const NO_STREAMS: FieldUse = FieldUse::Refused(
    "belongs to stream routes, which are not supported",
    "write a graph: `nodes` with `next`, and `parallel` for concurrent branches",
);
const NO_LSP: FieldUse = FieldUse::Ignored("has no effect: language servers are not supported");

/// Fields that actor files and the actors in a file share, including `type`.
static COMMON: &[Field] = &[
    Field::new(
        "type",
        Form::Words(&["llm", "agent", "tool", "graph", "a2a"]),
        "Kind of the actor. Default: derived from the other fields.",
    ),
    Field::new("description", Form::Text, "Description for users."),
];

/// Fields of an agent: its model, prompts and tool sources.
static AGENT: &[Field] = &[
    Field::new(
        "provider",
        Form::Text,
        "Provider of the model, such as `anthropic`.",
    )
    .or(&["provider_type"]),
    Field::new(
        "model",
        Form::Text,
        "Model, as `provider/model`. Default: the configured default model.",
    )
    .or(&["model_id"]),
    Field::new(
        "actor",
        Form::Text,
        "Actor whose model and fields are the defaults here.",
    )
    .or(&["agent"]),
    Field::new(
        "system_prompt",
        Form::AnyOf(TEXT_OR_USE),
        "System prompt, a template.",
    )
    .or(&["instructions"]),
    Field::new("temperature", Form::Number, "Sampling temperature: 0 to 2."),
    Field::new(
        "max_output_tokens",
        Form::Count,
        "Maximum number of output tokens of one step.",
    )
    .or(&["max_tokens"]),
    Field::new(
        "reasoning_effort",
        Form::Text,
        "Reasoning effort: `low`, `medium` or `high`.",
    ),
    Field::new(
        "top_p",
        Form::Number,
        "Nucleus sampling: greater than 0, at most 1.",
    ),
    Field::new(
        "skills",
        Form::Texts,
        "Skills whose tools the actor may call.",
    ),
    Field::new(
        "mcp_servers",
        Form::Texts,
        "MCP servers whose tools the actor may call.",
    ),
    Field::new(
        "tool_sources",
        Form::Each(&TOOL_SOURCE),
        "Skills, servers and tools in one list, each with its `type`.",
    ),
    Field::new(
        "response_format",
        Form::Any,
        "JSON schema that the answer must match.",
    ),
    Field::new(
        "memory",
        Form::Map(&MEMORY),
        "Limits of the conversation that the model receives.",
    ),
    Field::new(
        "context_view",
        Form::Words(&[
            "strategize",
            "execute",
            "apply",
            "default",
            "strategist",
            "executor",
            "reviewer",
            "full",
        ]),
        "View of a project's context that the model receives.",
    ),
    Field::new(
        "options",
        Form::AnyMap,
        "Further model parameters, such as `seed`.",
    ),
    Field::new("lsp", Form::Any, "Not used.").used(NO_LSP),
    Field::new("lsp_servers", Form::Any, "Not used.").used(NO_LSP),
    Field::new("lsp_binding", Form::Any, "Not used.").used(NO_LSP),
    Field::new("lsp_bindings", Form::Any, "Not used.").used(NO_LSP),
    Field::new("lsp_capabilities", Form::Any, "Not used.").used(NO_LSP),
    Field::new("lsp_context_enrichment", Form::Any, "Not used.").used(NO_LSP),
    Field::new("languages", Form::Any, "Not used.").used(NO_LSP),
    Field::new("auto_detect", Form::Any, "Not used.").used(NO_LSP),
];

/// Fields of a remote agent.
static REMOTE: &[Field] = &[
    Field::new("url", Form::Text, "URL of the agent or of its agent card."),
    Field::new(
        "token_env",
        Form::Text,
        "Environment variable that contains the access token; its name starts with `A2A_`.",
    ),
    Field::new(
        "timeout_seconds",
        Form::Number,
        "Time limit of one answer, in seconds.",
    )
    .or(&["timeout"]),
];

/// Fields about tools: the tools that an agent may call, or that a tool actor calls.
static TOOLS: &[Field] = &[
    Field::new(
        "tools",
        Form::AnyOf(&[Form::Text, Form::EachAnyOf(&[Form::Text, Form::Map(&TOOL_CALL)])]),
        "Tools by name or pattern: those that a model may call, or those that a tool node calls in this order.",
    )
    .or(&["tool"]),
    Field::new("arguments", Form::AnyMap, "Arguments of the tool; texts are templates.")
        .or(&["parameters", "args"]),
];

static GRAPH: &[Field] = &[
    Field::new(
        "nodes",
        Form::AnyOf(NODES),
        "Nodes: a map by id, or a list with `id`.",
    )
    .or(&["children"]),
    Field::new(
        "edges",
        Form::Each(&EDGE),
        "Edges between nodes; alternative to `next` of a node.",
    ),
    Field::new(
        "entry_node",
        Form::Text,
        "Node where a run starts. Default: the first node.",
    )
    .or(&["entrypoint", "entry_point", "entry"]),
    Field::new(
        "exit_nodes",
        Form::Texts,
        "Nodes where a run ends. Default: the nodes without successors.",
    )
    .or(&["exitpoints", "exit_points", "exits"]),
    Field::new(
        "state",
        Form::NamedAnyOf(&[Form::Words(REDUCERS), Form::Map(&KEY)]),
        "Keys of the state, each with its reducer.",
    ),
    Field::new("limits", Form::Map(&LIMITS), "Limits of a run."),
];

const REDUCERS: &[&str] = &["replace", "append", "merge", "sum"];
const TEXT_OR_USE: &[Form] = &[Form::Text, Form::Map(&PROMPT_USE)];
const NODES: &[Form] = &[Form::Named(&NODE), Form::Each(&NODE)];
const CONDITION_FORMS: &[Form] = &[Form::Text, Form::Map(&CONDITION)];

/// The top level of a file.
pub(crate) static TOP: Section = Section::new(
    "an actor file",
    &[FILE, COMMON, AGENT, REMOTE, TOOLS, GRAPH],
);

static FILE: &[Field] = &[
    Field::new(
        "name",
        Form::Text,
        "Name of the actor: `namespace/name`. Default namespace: `local`.",
    ),
    Field::new("cleveragents", Form::Map(&HEADER), "Header of the file."),
    Field::new(
        "version",
        Form::AnyOf(&[Form::Text, Form::Number]),
        "Version of the actor.",
    ),
    Field::new(
        "role_hint",
        Form::Words(&[
            "strategy",
            "execution",
            "estimation",
            "invariant_reconciliation",
            "review",
        ]),
        "Role in plans.",
    )
    .or(&["role"]),
    Field::new(
        "unsafe",
        Form::Flag,
        "Whether the actor requires permissions that a careful profile refuses.",
    ),
    Field::new(
        "global_context",
        Form::AnyMap,
        "Values that templates see as `context`.",
    ),
    Field::new(
        "actors",
        Form::Named(&DEFINITION),
        "Actors of this file, by name.",
    )
    .or(&["agents"]),
    Field::new(
        "route",
        Form::AnyOf(&[Form::Text, Form::Map(&ROUTE)]),
        "The graph, or its name in `routes`; its fields are also accepted at this level.",
    ),
    Field::new(
        "routes",
        Form::Named(&ROUTE),
        "Graphs of this file, by name.",
    ),
    Field::new(
        "prompts",
        Form::NamedAnyOf(&[Form::Text, Form::Map(&PROMPT)]),
        "Prompt texts, by name.",
    ),
    Field::new(
        "templates",
        Form::NamedAnyOf(&[Form::AnyMap]),
        "Nodes or actors with placeholders, by name.",
    ),
    Field::new(
        "instances",
        Form::Named(&INSTANCE),
        "Actors created from templates, by name.",
    ),
    Field::new(
        "graph_descriptor",
        Form::Map(&ROUTE),
        "The graph, in files without `type`.",
    ),
    Field::new("context", Form::Any, "Not used.").used(FieldUse::Ignored(
        "has no effect: give the actor tools that read files",
    )),
    Field::new("capabilities", Form::Any, "Not used.").used(FieldUse::Ignored(
        "has no effect: the capabilities of models are known",
    )),
    Field::new("source", Form::Any, "Not used.").used(FieldUse::Ignored("has no effect")),
    Field::new("merges", Form::Any, "Refused.").used(NO_STREAMS),
    Field::new("splits", Form::Any, "Refused.").used(NO_STREAMS),
    Field::new("pipelines", Form::Any, "Refused.").used(NO_STREAMS),
];

/// The header `cleveragents`.
pub(crate) static HEADER: Section = Section::new(
    "`cleveragents`",
    &[&[
        Field::new(
            "version",
            Form::AnyOf(&[Form::Text, Form::Number]),
            "Version of the file format: 3.0.",
        ),
        Field::new(
            "default_actor",
            Form::Text,
            "Actor or route that a run starts with.",
        ),
        Field::new("unsafe", Form::Flag, "Same as `unsafe` of the file."),
        Field::new("template_engine", Form::Text, "Must be `jinja2`."),
        Field::new("logging", Form::Any, "Not used.").used(FieldUse::Ignored(
            "has no effect: use the options of the program",
        )),
    ]],
);

/// An actor in a file with several actors.
pub(crate) static DEFINITION: Section = Section::new(
    "an actor",
    &[COMMON, CONFIG, AGENT, REMOTE, TOOLS, GRAPH, ROUTE_FIELD],
);

static CONFIG: &[Field] = &[Field::new(
    "config",
    Form::AnyMap,
    "The other fields are also accepted inside this map.",
)
.used(FieldUse::Nested)];

static ROUTE_FIELD: &[Field] = &[Field::new(
    "route",
    Form::AnyOf(&[Form::Text, Form::Map(&ROUTE)]),
    "The graph, or its name in `routes`.",
)];

/// A standalone graph.
pub(crate) static ROUTE: Section = Section::new(
    "a route",
    &[
        GRAPH,
        &[
            Field::new(
                "type",
                Form::Words(&["graph"]),
                "`graph`; streams are not supported.",
            ),
            Field::new("description", Form::Text, "Description for users."),
            Field::new("stream_type", Form::Any, "Refused.").used(NO_STREAMS),
            Field::new("operators", Form::Any, "Refused.").used(NO_STREAMS),
            Field::new("subscriptions", Form::Any, "Refused.").used(NO_STREAMS),
            Field::new("publications", Form::Any, "Refused.").used(NO_STREAMS),
        ],
    ],
);

pub(crate) static NODE: Section = Section::new("a node", &[NODE_OWN, CONFIG, AGENT, TOOLS]);

static NODE_OWN: &[Field] = &[
    Field::new("id", Form::Text, "Id of the node, if nodes are a list.").or(&["name"]),
    Field::new(
        "type",
        Form::Words(NODE_TYPES),
        "Kind of the node. Default: derived from the other fields.",
    ),
    Field::new("description", Form::Text, "Description for users."),
    Field::new(
        "prompt",
        Form::AnyOf(TEXT_OR_USE),
        "Prompt for the model, a template. Default: `{{ input }}`.",
    ),
    Field::new(
        "output",
        Form::AnyOf(&[Form::Text, Form::AnyMap]),
        "State key for the answer. Default: `output`. For subgraphs also a map of keys to values.",
    ),
    Field::new("actor_ref", Form::Text, "Actor that a subgraph runs.")
        .or(&["actor_path", "subgraph"]),
    Field::new(
        "input",
        Form::AnyOf(&[Form::Text, Form::AnyMap]),
        "Initial state of a subgraph, key by key. Default: the whole state. For functions, the input value.",
    ),
    Field::new(
        "conditions",
        Form::Each(&CHECK),
        "Conditions in order, each with the node to continue with.",
    )
    .or(&["checks"]),
    Field::new(
        "if",
        Form::AnyOf(CONDITION_FORMS),
        "A single condition, with `then` and `else`.",
    )
    .or(&["check"]),
    Field::new(
        "then",
        Form::Text,
        "Node to continue with when `if` is true.",
    ),
    Field::new(
        "otherwise",
        Form::Text,
        "Node to continue with when nothing matches.",
    )
    .or(&["else", "default"]),
    Field::new("rules", Form::Each(&RULE), "Rules of a router, in order."),
    Field::new(
        "message",
        Form::Text,
        "Text that a router matches, an expression. Default: the last message.",
    ),
    Field::new(
        "function",
        Form::Text,
        "Name of a function, applied to `input`; the result goes to `output`.",
    ),
    Field::new(
        "set",
        Form::AnyMap,
        "Keys of the state and their new values; texts are templates.",
    ),
    Field::new(
        "over",
        Form::Text,
        "List that a `map` node iterates over, an expression.",
    )
    .or(&["items"]),
    Field::new(
        "item",
        Form::Text,
        "Name of the current item. Default: `item`.",
    )
    .or(&["as"]),
    Field::new(
        "each",
        Form::AnyOf(&[Form::Text, Form::Map(&NODE)]),
        "Work per item: the name of an actor, or a node.",
    )
    .or(&["do"]),
    Field::new(
        "keep_failures",
        Form::Flag,
        "Whether a failed item becomes `{error: …}` in the results. Default: the node fails.",
    ),
    Field::new(
        "parallel",
        Form::Texts,
        "First nodes of the concurrent branches.",
    )
    .or(&["branches"]),
    Field::new("join", Form::Text, "Node where the branches join."),
    Field::new(
        "concurrency",
        Form::Count,
        "Maximum number of concurrent items or branches.",
    ),
    Field::new(
        "next",
        Form::AnyOf(&[
            Form::Text,
            Form::Map(&EDGE),
            Form::EachAnyOf(&[Form::Text, Form::Map(&EDGE)]),
        ]),
        "Node to continue with, or several with `when`.",
    ),
    Field::new("exit", Form::Flag, "Whether the run ends after this node.").or(&["is_exit"]),
    Field::new(
        "timeout_seconds",
        Form::Number,
        "Time limit of one attempt, in seconds.",
    )
    .or(&["timeout"]),
    Field::new(
        "retries",
        Form::Count,
        "Maximum number of retries of a failed attempt.",
    )
    .or(&["max_retries"]),
    Field::new(
        "on_error",
        Form::Text,
        "Node to continue with after the last failed attempt. Default: the run fails.",
    ),
    Field::new(
        "template",
        Form::Text,
        "Template whose fields are the defaults here.",
    ),
    Field::new("with", Form::AnyMap, "Values of the template's parameters."),
];

pub(crate) const NODE_TYPES: &[&str] = &[
    "agent",
    "llm",
    "tool",
    "conditional",
    "subgraph",
    "message_router",
    "router",
    "function",
    "map",
    "parallel",
];

/// An edge between two nodes.
pub(crate) static EDGE: Section = Section::new(
    "an edge",
    &[&[
        Field::new("source", Form::Text, "Source node; not allowed in `next`.").or(&["from"]),
        Field::new("target", Form::Text, "Target node.").or(&["to"]),
        Field::new(
            "condition",
            Form::AnyOf(CONDITION_FORMS),
            "Condition of the edge. Default: unconditional.",
        )
        .or(&["when"]),
    ]],
);

/// A condition in the form of a map.
pub(crate) static CONDITION: Section = Section::new(
    "a condition",
    &[&[
        Field::new(
            "type",
            Form::Words(&["context_value"]),
            "`context_value`, optional.",
        ),
        Field::new("context_value", Form::Text, "A key of the state.").or(&["key", "field"]),
        Field::new("equals", Form::Any, "Expected value.").or(&["value"]),
    ]],
);

/// A check of a conditional node.
pub(crate) static CHECK: Section = Section::new(
    "a check",
    &[&[
        Field::new(
            "check",
            Form::AnyOf(CONDITION_FORMS),
            "An expression over the state.",
        )
        .or(&["condition", "when", "if"]),
        Field::new(
            "route_to",
            Form::Text,
            "Node to continue with when the expression is true.",
        )
        .or(&["target", "to", "then"]),
    ]],
);

/// A rule of a router.
pub(crate) static RULE: Section = Section::new(
    "a rule",
    &[&[
        Field::new(
            "type",
            Form::Words(&["prefix", "contains", "suffix", "equals"]),
            "How `value` is matched.",
        ),
        Field::new("value", Form::Text, "Text to match.").or(&["pattern", "text"]),
        Field::new(
            "prefix",
            Form::Text,
            "Matches a text that starts with this.",
        ),
        Field::new("contains", Form::Text, "Matches a text that contains this."),
        Field::new("suffix", Form::Text, "Matches a text that ends with this."),
        Field::new("equals", Form::Text, "Matches exactly this text."),
        Field::new(
            "condition",
            Form::AnyOf(CONDITION_FORMS),
            "Expression that must be true; the text is `message`.",
        )
        .or(&["when", "check"]),
        Field::new("target", Form::Text, "Node to continue with.").or(&["route_to", "to"]),
        Field::new(
            "strip",
            Form::Flag,
            "Whether a matched prefix or suffix is removed. Default: true.",
        ),
    ]],
);

/// A key of the state.
pub(crate) static KEY: Section = Section::new(
    "a key of the state",
    &[&[
        Field::new(
            "reducer",
            Form::Words(REDUCERS),
            "How updates are merged. Default: `replace`.",
        ),
        Field::new("initial", Form::Any, "Initial value.").or(&["default"]),
    ]],
);

/// Limits of a run.
pub(crate) static LIMITS: Section = Section::new(
    "`limits`",
    &[&[
        Field::new(
            "max_steps",
            Form::Count,
            "Maximum number of finished nodes. Default: 50 times the number of nodes, at least 2000.",
        ),
        Field::new(
            "max_depth",
            Form::Count,
            "Maximum nesting of subgraphs. Default: 16.",
        ),
        Field::new(
            "max_model_calls",
            Form::Count,
            "Maximum number of model calls.",
        ),
        Field::new(
            "max_tool_calls",
            Form::Count,
            "Maximum number of tool calls.",
        ),
        Field::new(
            "timeout_seconds",
            Form::Number,
            "Time limit of the whole run, in seconds.",
        )
        .or(&["timeout"]),
        Field::new("max_cost", Form::Number, "Maximum cost, in US dollars.").or(&["max_cost_usd"]),
    ]],
);

/// Limits of the conversation that an agent receives.
pub(crate) static MEMORY: Section = Section::new(
    "`memory`",
    &[&[
        Field::new(
            "enabled",
            Form::Flag,
            "Whether the model receives earlier messages. Default: true.",
        ),
        Field::new("max_messages", Form::Count, "Maximum number of messages."),
        Field::new("max_tokens", Form::Count, "Maximum number of tokens."),
    ]],
);

pub(crate) static TOOL_SOURCE: Section = Section::new(
    "a source of tools",
    &[&[
        Field::new("type", Form::Words(SOURCE_TYPES), "Kind of the source."),
        Field::new("name", Form::Text, "Name of the source."),
    ]],
);

pub(crate) const SOURCE_TYPES: &[&str] = &[
    "skill",
    "agent_skill",
    "mcp",
    "mcp_server",
    "tool",
    "builtin",
];

/// A tool with its arguments.
pub(crate) static TOOL_CALL: Section = Section::new(
    "a tool",
    &[&[
        Field::new("tool", Form::Text, "Name of the tool.").or(&["name"]),
        Field::new("arguments", Form::AnyMap, "Arguments of the tool.").or(&["parameters", "args"]),
    ]],
);

/// A reference to a text of `prompts`.
pub(crate) static PROMPT_USE: Section = Section::new(
    "a use of a prompt",
    &[&[
        Field::new("prompt", Form::Text, "Name in `prompts`.").or(&["template"]),
        Field::new("with", Form::AnyMap, "Values of its parameters.").or(&["parameters", "params"]),
    ]],
);

/// A text of `prompts`.
pub(crate) static PROMPT: Section = Section::new(
    "a prompt",
    &[&[
        Field::new("template", Form::Text, "Text of the prompt.").or(&["text", "content"]),
        Field::new(
            "parameters",
            Form::AnyOf(&[Form::Texts, Form::AnyMap]),
            "Parameters: names, or names with defaults.",
        )
        .or(&["params"]),
        Field::new("description", Form::Text, "Description for users."),
    ]],
);

/// An actor made from a template.
pub(crate) static INSTANCE: Section = Section::new(
    "an instance",
    &[&[
        Field::new("template", Form::Text, "Name in `templates`."),
        Field::new("with", Form::AnyMap, "Values of its parameters.").or(&["parameters", "params"]),
    ]],
);
