//! The fields of actor files, section by section.

use super::section::{Field, Form, Section, Use};

const NO_STREAMS: Use = Use::Refused(
    "belongs to stream routes, which are not supported",
    "write a graph: `nodes` with `next`, `parallel` for several things at a time",
);
const NO_LSP: Use = Use::Ignored("has no effect: language servers are not asked");

/// What both shapes with a `type` have.
static COMMON: &[Field] = &[
    Field::new(
        "type",
        Form::Words(&["llm", "agent", "tool", "graph", "a2a"]),
        "What it is; found out from the other fields when not given.",
    ),
    Field::new("description", Form::Text, "What it does, for people."),
];

/// What is said about a model.
static AGENT: &[Field] = &[
    Field::new(
        "provider",
        Form::Text,
        "Who offers the model, such as `anthropic`.",
    )
    .or(&["provider_type"]),
    Field::new(
        "model",
        Form::Text,
        "The model, `provider/model`; the usual one when not given.",
    )
    .or(&["model_id"]),
    Field::new(
        "actor",
        Form::Text,
        "Another actor, the model and fields of which hold here too.",
    )
    .or(&["agent"]),
    Field::new(
        "system_prompt",
        Form::AnyOf(TEXT_OR_USE),
        "Standing instructions, a template.",
    )
    .or(&["instructions"]),
    Field::new(
        "temperature",
        Form::Number,
        "How freely it chooses words: 0 to 2.",
    ),
    Field::new(
        "max_output_tokens",
        Form::Count,
        "The longest answer of one step.",
    )
    .or(&["max_tokens"]),
    Field::new(
        "reasoning_effort",
        Form::Text,
        "How hard it thinks: `low`, `medium`, `high`.",
    ),
    Field::new(
        "top_p",
        Form::Number,
        "Cuts off unlikely words: above 0, up to 1.",
    ),
    Field::new(
        "skills",
        Form::Texts,
        "Skills, the tools of which it may call.",
    ),
    Field::new(
        "mcp_servers",
        Form::Texts,
        "MCP servers, the tools of which it may call.",
    ),
    Field::new(
        "tool_sources",
        Form::Each(&TOOL_SOURCE),
        "Skills, servers and tools in one list, each with its `type`.",
    ),
    Field::new(
        "response_format",
        Form::Any,
        "The JSON schema that the answer must fit.",
    ),
    Field::new(
        "memory",
        Form::One(&MEMORY),
        "How much of the conversation it is given.",
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
        "Which view of a project's context it is given.",
    ),
    Field::new(
        "options",
        Form::Values,
        "Whatever else the model is given, such as `seed`.",
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

/// What is said about an agent on another machine.
static REMOTE: &[Field] = &[
    Field::new(
        "url",
        Form::Text,
        "Where the agent is: its address, or that of its card.",
    ),
    Field::new(
        "token_env",
        Form::Text,
        "The variable that holds the token it is called with; its name begins with `A2A_`.",
    ),
    Field::new(
        "timeout_seconds",
        Form::Number,
        "How long one answer of the agent may take.",
    )
    .or(&["timeout"]),
];

/// What is said about tools: those an agent may call, or those a tool actor calls.
static TOOLS: &[Field] = &[
    Field::new(
        "tools",
        Form::AnyOf(&[Form::Text, Form::EachAnyOf(&[Form::Text, Form::One(&TOOL_CALL)])]),
        "Tools by name or pattern: those a model may call, or those that are called here in this order.",
    )
    .or(&["tool"]),
    Field::new("arguments", Form::Values, "What the tool is given; texts are templates.")
        .or(&["parameters", "args"]),
];

/// What is said about a graph.
static GRAPH: &[Field] = &[
    Field::new(
        "nodes",
        Form::AnyOf(NODES),
        "The nodes: a map of ids, or a list with `id`.",
    )
    .or(&["children"]),
    Field::new(
        "edges",
        Form::Each(&EDGE),
        "The ways between nodes; `next` at a node does the same.",
    ),
    Field::new(
        "entry_node",
        Form::Text,
        "Where a run begins; the first node when not given.",
    )
    .or(&["entrypoint", "entry_point", "entry"]),
    Field::new(
        "exit_nodes",
        Form::Texts,
        "Where a run ends; the nodes that nothing follows when not given.",
    )
    .or(&["exitpoints", "exit_points", "exits"]),
    Field::new(
        "state",
        Form::NamedAnyOf(&[Form::Words(REDUCERS), Form::One(&KEY)]),
        "The keys of the state, each with its reducer.",
    ),
    Field::new("limits", Form::One(&LIMITS), "What a run may take."),
];

const REDUCERS: &[&str] = &["replace", "append", "merge", "sum"];
const TEXT_OR_USE: &[Form] = &[Form::Text, Form::One(&PROMPT_USE)];
const NODES: &[Form] = &[Form::Named(&NODE), Form::Each(&NODE)];
const CONDITION_FORMS: &[Form] = &[Form::Text, Form::One(&CONDITION)];

/// A file.
pub(crate) static TOP: Section = Section::new(
    "an actor file",
    &[FILE, COMMON, AGENT, REMOTE, TOOLS, GRAPH],
);

static FILE: &[Field] = &[
    Field::new(
        "name",
        Form::Text,
        "What it is called: `namespace/name`, `local/` when there is no namespace.",
    ),
    Field::new("cleveragents", Form::One(&HEADER), "About the file itself."),
    Field::new(
        "version",
        Form::AnyOf(&[Form::Text, Form::Number]),
        "The actor's own version.",
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
        "What it is meant for.",
    )
    .or(&["role"]),
    Field::new(
        "unsafe",
        Form::Flag,
        "Whether it asks for what a careful profile refuses.",
    ),
    Field::new(
        "global_context",
        Form::Values,
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
        Form::AnyOf(&[Form::Text, Form::One(&ROUTE)]),
        "The graph, or the name of one in `routes`; its fields may stand beside it instead.",
    ),
    Field::new(
        "routes",
        Form::Named(&ROUTE),
        "Graphs of this file, by name.",
    ),
    Field::new(
        "prompts",
        Form::NamedAnyOf(&[Form::Text, Form::One(&PROMPT)]),
        "Texts, by name.",
    ),
    Field::new(
        "templates",
        Form::NamedAnyOf(&[Form::Values]),
        "Nodes or actors with places to fill, by name.",
    ),
    Field::new(
        "instances",
        Form::Named(&INSTANCE),
        "Actors made from templates, by name.",
    ),
    Field::new(
        "graph_descriptor",
        Form::One(&ROUTE),
        "The graph, in files without `type`.",
    ),
    Field::new("context", Form::Any, "Not used.").used(Use::Ignored(
        "has no effect: give the actor tools that read files",
    )),
    Field::new("capabilities", Form::Any, "Not used.")
        .used(Use::Ignored("has no effect: what a model can do is known")),
    Field::new("source", Form::Any, "Not used.").used(Use::Ignored("has no effect")),
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
            "The version of the format: 3.0.",
        ),
        Field::new(
            "default_actor",
            Form::Text,
            "The actor or route that a run begins with.",
        ),
        Field::new("unsafe", Form::Flag, "As `unsafe` of the file."),
        Field::new("template_engine", Form::Text, "`jinja2`, the only one."),
        Field::new("logging", Form::Any, "Not used.").used(Use::Ignored(
            "has no effect: see the options of the program",
        )),
    ]],
);

/// An actor of a file with several.
pub(crate) static DEFINITION: Section = Section::new(
    "an actor",
    &[COMMON, CONFIG, AGENT, REMOTE, TOOLS, GRAPH, ROUTE_OF],
);

static CONFIG: &[Field] = &[Field::new(
    "config",
    Form::Values,
    "The other fields may stand in here.",
)
.used(Use::Nested)];

static ROUTE_OF: &[Field] = &[Field::new(
    "route",
    Form::AnyOf(&[Form::Text, Form::One(&ROUTE)]),
    "The graph, or the name of one in `routes`.",
)];

/// A graph by itself.
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
            Field::new("description", Form::Text, "For people."),
            Field::new("stream_type", Form::Any, "Refused.").used(NO_STREAMS),
            Field::new("operators", Form::Any, "Refused.").used(NO_STREAMS),
            Field::new("subscriptions", Form::Any, "Refused.").used(NO_STREAMS),
            Field::new("publications", Form::Any, "Refused.").used(NO_STREAMS),
        ],
    ],
);

/// A node.
pub(crate) static NODE: Section = Section::new("a node", &[NODE_OWN, CONFIG, AGENT, TOOLS]);

static NODE_OWN: &[Field] = &[
    Field::new("id", Form::Text, "Its id, where nodes are a list.").or(&["name"]),
    Field::new(
        "type",
        Form::Words(NODE_TYPES),
        "What it does; found out from the other fields when not given.",
    ),
    Field::new("description", Form::Text, "For people."),
    Field::new(
        "prompt",
        Form::AnyOf(TEXT_OR_USE),
        "What the model is asked, a template; `{{ input }}` when not given.",
    ),
    Field::new(
        "output",
        Form::AnyOf(&[Form::Text, Form::Values]),
        "The key of the state that gets the answer, `output` when not given; at subgraphs also a map of keys to values.",
    ),
    Field::new("actor_ref", Form::Text, "The actor that a subgraph runs.")
        .or(&["actor_path", "subgraph"]),
    Field::new(
        "input",
        Form::AnyOf(&[Form::Text, Form::Values]),
        "What a subgraph begins with, key by key; the whole state when not given. At functions, what goes in.",
    ),
    Field::new(
        "conditions",
        Form::Each(&CHECK),
        "Checks in order, each with the node to go to.",
    )
    .or(&["checks"]),
    Field::new(
        "if",
        Form::AnyOf(CONDITION_FORMS),
        "One check, with `then` and `else`.",
    )
    .or(&["check"]),
    Field::new("then", Form::Text, "Where to go when `if` holds."),
    Field::new("otherwise", Form::Text, "Where to go when nothing fits.").or(&["else", "default"]),
    Field::new("rules", Form::Each(&RULE), "Rules of a router, in order."),
    Field::new(
        "message",
        Form::Text,
        "The text that a router looks at, an expression; the last message when not given.",
    ),
    Field::new(
        "function",
        Form::Text,
        "A function by name: its `input` goes in, its result to `output`.",
    ),
    Field::new(
        "set",
        Form::Values,
        "Keys of the state and their new values; texts are templates.",
    ),
    Field::new(
        "over",
        Form::Text,
        "The list that a map goes through, an expression.",
    )
    .or(&["items"]),
    Field::new(
        "item",
        Form::Text,
        "The key under which an item is seen; `item` when not given.",
    )
    .or(&["as"]),
    Field::new(
        "each",
        Form::AnyOf(&[Form::Text, Form::One(&NODE)]),
        "What is done for an item: an actor by name, or a node.",
    )
    .or(&["do"]),
    Field::new(
        "keep_failures",
        Form::Flag,
        "Whether a failed item is `{error: …}` among the answers; the node fails otherwise.",
    ),
    Field::new(
        "parallel",
        Form::Texts,
        "Nodes that begin at the same time.",
    )
    .or(&["branches"]),
    Field::new("join", Form::Text, "Where the branches meet."),
    Field::new("concurrency", Form::Count, "How many at the same time."),
    Field::new(
        "next",
        Form::AnyOf(&[
            Form::Text,
            Form::One(&EDGE),
            Form::EachAnyOf(&[Form::Text, Form::One(&EDGE)]),
        ]),
        "Where to go afterwards: a node, or several with `when`.",
    ),
    Field::new("exit", Form::Flag, "Whether the run ends after it.").or(&["is_exit"]),
    Field::new(
        "timeout_seconds",
        Form::Number,
        "How long one attempt may take.",
    )
    .or(&["timeout"]),
    Field::new(
        "retries",
        Form::Count,
        "How many times a failed attempt is repeated.",
    )
    .or(&["max_retries"]),
    Field::new(
        "on_error",
        Form::Text,
        "Where to go when it failed for good; the run fails when not given.",
    ),
    Field::new(
        "template",
        Form::Text,
        "A template whose fields hold here too.",
    ),
    Field::new(
        "with",
        Form::Values,
        "What the places of the template are filled with.",
    ),
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

/// A way between two nodes.
pub(crate) static EDGE: Section = Section::new(
    "an edge",
    &[&[
        Field::new("source", Form::Text, "Where it begins; not at `next`.").or(&["from"]),
        Field::new("target", Form::Text, "Where it leads.").or(&["to"]),
        Field::new(
            "condition",
            Form::AnyOf(CONDITION_FORMS),
            "When it may be gone; always when not given.",
        )
        .or(&["when"]),
    ]],
);

/// A condition as a map.
pub(crate) static CONDITION: Section = Section::new(
    "a condition",
    &[&[
        Field::new(
            "type",
            Form::Words(&["context_value"]),
            "`context_value`, or nothing.",
        ),
        Field::new("context_value", Form::Text, "A key of the state.").or(&["key", "field"]),
        Field::new("equals", Form::Any, "What it must be.").or(&["value"]),
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
        Field::new("route_to", Form::Text, "Where to go when it holds.")
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
            "How `value` is looked for.",
        ),
        Field::new("value", Form::Text, "The text that is looked for.").or(&["pattern", "text"]),
        Field::new("prefix", Form::Text, "Fits a text that begins so."),
        Field::new("contains", Form::Text, "Fits a text with this in it."),
        Field::new("suffix", Form::Text, "Fits a text that ends so."),
        Field::new("equals", Form::Text, "Fits exactly this text."),
        Field::new(
            "condition",
            Form::AnyOf(CONDITION_FORMS),
            "Fits when this holds; the text is `message`.",
        )
        .or(&["when", "check"]),
        Field::new("target", Form::Text, "Where to go.").or(&["route_to", "to"]),
        Field::new(
            "strip",
            Form::Flag,
            "Whether a prefix or suffix is taken off; it is when not given.",
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
            "How updates join it; `replace` when not given.",
        ),
        Field::new("initial", Form::Any, "Its value at the beginning.").or(&["default"]),
    ]],
);

/// What a run may take.
pub(crate) static LIMITS: Section = Section::new(
    "`limits`",
    &[&[
        Field::new(
            "max_steps",
            Form::Count,
            "Finished nodes; 50 times the nodes and at least 2000 when not given.",
        ),
        Field::new(
            "max_depth",
            Form::Count,
            "Subgraphs inside each other; 16 when not given.",
        ),
        Field::new("max_model_calls", Form::Count, "Questions to models."),
        Field::new("max_tool_calls", Form::Count, "Calls of tools."),
        Field::new(
            "timeout_seconds",
            Form::Number,
            "How long the whole run may take.",
        )
        .or(&["timeout"]),
        Field::new("max_cost", Form::Number, "US dollars.").or(&["max_cost_usd"]),
    ]],
);

/// How much of the conversation is given.
pub(crate) static MEMORY: Section = Section::new(
    "`memory`",
    &[&[
        Field::new(
            "enabled",
            Form::Flag,
            "Whether it is given what was said before; it is when not given.",
        ),
        Field::new("max_messages", Form::Count, "At most so many messages."),
        Field::new("max_tokens", Form::Count, "At most so many tokens."),
    ]],
);

/// Where tools come from.
pub(crate) static TOOL_SOURCE: Section = Section::new(
    "a source of tools",
    &[&[
        Field::new("type", Form::Words(SOURCE_TYPES), "What it is."),
        Field::new("name", Form::Text, "Its name."),
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
        Field::new("tool", Form::Text, "Its name.").or(&["name"]),
        Field::new("arguments", Form::Values, "What it is given.").or(&["parameters", "args"]),
    ]],
);

/// A text of `prompts` where it is used.
pub(crate) static PROMPT_USE: Section = Section::new(
    "a use of a prompt",
    &[&[
        Field::new("prompt", Form::Text, "Its name in `prompts`.").or(&["template"]),
        Field::new("with", Form::Values, "What its places are filled with.")
            .or(&["parameters", "params"]),
    ]],
);

/// A text of `prompts`.
pub(crate) static PROMPT: Section = Section::new(
    "a prompt",
    &[&[
        Field::new("template", Form::Text, "The text.").or(&["text", "content"]),
        Field::new(
            "parameters",
            Form::AnyOf(&[Form::Texts, Form::Values]),
            "Its places: names, or names with defaults.",
        )
        .or(&["params"]),
        Field::new("description", Form::Text, "For people."),
    ]],
);

/// An actor made from a template.
pub(crate) static INSTANCE: Section = Section::new(
    "an instance",
    &[&[
        Field::new("template", Form::Text, "Its name in `templates`."),
        Field::new("with", Form::Values, "What its places are filled with.")
            .or(&["parameters", "params"]),
    ]],
);
