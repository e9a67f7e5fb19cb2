//! The keys by name, for code that reads one of them.

mod server;

use cleveragents_application::{CheckpointTrigger, SandboxCleanup};

use super::{Fallback, Format, Key, Kind, Scope};

pub use self::server::*;

/// The output format.
pub static FORMAT: Key = Key {
    name: "core.format",
    kind: Kind::Choice(&Format::NAMES),
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_FORMAT",
    scope: Scope::Project,
    description: "How commands print; unset means rich on a terminal and plain elsewhere",
};

/// The database.
pub static DATABASE_URL: Key = Key {
    name: "core.database-url",
    kind: Kind::Url,
    default: Fallback::DatabaseFile,
    variable: "CLEVERAGENTS_DATABASE_URL",
    scope: Scope::Person,
    description: "The database: sqlite:///path or postgres://user@host/name",
};

/// The automation profile.
pub static AUTOMATION_PROFILE: Key = Key {
    name: "core.automation-profile",
    kind: Kind::Profile,
    default: Fallback::Text("supervised"),
    variable: "CLEVERAGENTS_AUTOMATION_PROFILE",
    scope: Scope::Project,
    description: "The automation profile of plans that name none",
};

/// The filter of the log.
pub static LOG_FILTER: Key = Key {
    name: "log.filter",
    kind: Kind::LogFilter,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_LOG",
    scope: Scope::Person,
    description: "What is logged to standard error and to the log file; -v and -vv set it",
};

/// The log file.
pub static LOG_FILE: Key = Key {
    name: "log.file",
    kind: Kind::File,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_LOG_FILE",
    scope: Scope::Person,
    description: "File to which the log is added; it is rotated daily",
};

/// The format of the log.
pub static LOG_FORMAT: Key = Key {
    name: "log.format",
    kind: Kind::Choice(&["text", "json"]),
    default: Fallback::Text("text"),
    variable: "CLEVERAGENTS_LOG_FORMAT",
    scope: Scope::Person,
    description: "How the log is written: lines of text, or one JSON object per line",
};

/// The largest message.
pub static MAX_MESSAGE_BYTES: Key = Key {
    name: "session.max-message-bytes",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 67_108_864,
    },
    default: Fallback::Integer(1_048_576),
    variable: "CLEVERAGENTS_SESSION_MAX_MESSAGE_BYTES",
    scope: Scope::Project,
    description: "The largest message accepted, in bytes",
};

/// How long to wait for a lock of the database.
pub static BUSY_TIMEOUT_SECONDS: Key = Key {
    name: "store.busy-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 3600,
    },
    default: Fallback::Integer(30),
    variable: "CLEVERAGENTS_STORE_BUSY_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "How long to wait for another writer of the database, in seconds",
};

/// The connections to the database.
pub static CONNECTIONS: Key = Key {
    name: "store.connections",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 64,
    },
    default: Fallback::Integer(8),
    variable: "CLEVERAGENTS_STORE_CONNECTIONS",
    scope: Scope::Person,
    description: "The most connections one process opens to the database",
};

/// How long events are kept.
pub static EVENTS_DAYS: Key = Key {
    name: "cleanup.events-days",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 36_500,
    },
    default: Fallback::Integer(90),
    variable: "CLEVERAGENTS_CLEANUP_EVENTS_DAYS",
    scope: Scope::Person,
    description: "How long cleanup keeps events, in days",
};

/// What one session may cost.
pub static BUDGET_SESSION_CENTS: Key = Key {
    name: "budget.session-cents",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 100_000_000,
    },
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_BUDGET_SESSION_CENTS",
    scope: Scope::Person,
    description: "The most that one session may spend on models and tools, in US cents; no limit when not set",
};

/// What one day may cost.
pub static BUDGET_DAY_CENTS: Key = Key {
    name: "budget.day-cents",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 100_000_000,
    },
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_BUDGET_DAY_CENTS",
    scope: Scope::Person,
    description: "The most that all sessions together may spend on a day (UTC), in US cents; no limit when not set",
};

/// How careful to be.
pub static SAFETY_PROFILE: Key = Key {
    name: "safety.profile",
    kind: Kind::Safety,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_PROFILE",
    scope: Scope::Project,
    description: "How careful tools are made to be; of all levels that say something the tighter holds",
};

/// Tools that may not run.
pub static SAFETY_DENY_TOOLS: Key = Key {
    name: "safety.deny-tools",
    kind: Kind::Tools,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_DENY_TOOLS",
    scope: Scope::Project,
    description: "Tools that may not run, with commas between them",
};

/// The only tools that may run.
pub static SAFETY_ALLOW_TOOLS: Key = Key {
    name: "safety.allow-tools",
    kind: Kind::Tools,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_ALLOW_TOOLS",
    scope: Scope::Project,
    description: "The only tools that may run, with commas between them; any when not set",
};

/// How many tools may be called.
pub static SAFETY_MAX_CALLS: Key = Key {
    name: "safety.max-calls",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 1_000_000,
    },
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_MAX_CALLS",
    scope: Scope::Project,
    description: "How many tools may be called after one answer of the model; no limit when not set",
};

/// Whether changes are asked about.
pub static SAFETY_APPROVE_WRITES: Key = Key {
    name: "safety.approve-writes",
    kind: Kind::Flag,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_APPROVE_WRITES",
    scope: Scope::Project,
    description: "Whether a person is asked before every call that changes something",
};

/// How many plans run at the same time.
pub static PLAN_CONCURRENCY: Key = Key {
    name: "plan.concurrency",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 64,
    },
    default: Fallback::Integer(16),
    variable: "CLEVERAGENTS_PLAN_CONCURRENCY",
    scope: Scope::Person,
    description: "The most plans that are driven at the same time with one database; others wait",
};

/// When sandboxes of plans go.
pub static SANDBOX_CLEANUP: Key = Key {
    name: "sandbox.cleanup",
    kind: Kind::Choice(SandboxCleanup::WORDS),
    default: Fallback::Text("on_apply"),
    variable: "CLEVERAGENTS_SANDBOX_CLEANUP",
    scope: Scope::Person,
    description: "When the sandbox of a plan is removed",
};

/// Upon what plans make checkpoints.
pub static CHECKPOINT_AUTO_CREATE_ON: Key = Key {
    name: "sandbox.checkpoint.auto-create-on",
    kind: Kind::Words(CheckpointTrigger::WORDS),
    default: Fallback::Text("on_tool_write,on_tool_write_complete,on_subplan_spawn,on_error"),
    variable: "CLEVERAGENTS_CHECKPOINT_AUTO_CREATE_ON",
    scope: Scope::Project,
    description: "Upon what a plan makes a checkpoint by itself, beside the beginning of each step",
};

/// The model that answers when none is named.
pub static MODEL_DEFAULT: Key = Key {
    name: "model.default",
    kind: Kind::Model,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_MODEL_DEFAULT",
    scope: Scope::Person,
    description: "The model that answers when nobody names one",
};

/// The models to ask when one fails.
pub static MODEL_FALLBACK: Key = Key {
    name: "model.fallback",
    kind: Kind::Models,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_MODEL_FALLBACK",
    scope: Scope::Person,
    description: "The models to ask when one fails, in order, with commas between them",
};

/// How often a model is asked again.
pub static MODEL_RETRIES: Key = Key {
    name: "model.retries",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 20,
    },
    default: Fallback::Integer(4),
    variable: "CLEVERAGENTS_MODEL_RETRIES",
    scope: Scope::Person,
    description: "How often a model that failed is asked again",
};

/// The longest wait for a connection to a model.
pub static MODEL_CONNECT_TIMEOUT_SECONDS: Key = Key {
    name: "model.connect-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 600,
    },
    default: Fallback::Integer(10),
    variable: "CLEVERAGENTS_MODEL_CONNECT_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "The longest wait for a connection to a provider, in seconds",
};

/// The longest wait for the beginning of an answer.
pub static MODEL_FIRST_BYTE_TIMEOUT_SECONDS: Key = Key {
    name: "model.first-byte-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 3600,
    },
    default: Fallback::Integer(120),
    variable: "CLEVERAGENTS_MODEL_FIRST_BYTE_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "The longest wait for the beginning of an answer, in seconds",
};

/// The longest silence within an answer.
pub static MODEL_IDLE_TIMEOUT_SECONDS: Key = Key {
    name: "model.idle-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 3600,
    },
    default: Fallback::Integer(120),
    variable: "CLEVERAGENTS_MODEL_IDLE_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "The longest silence within an answer, in seconds",
};

/// The longest call of a model.
pub static MODEL_TOTAL_TIMEOUT_SECONDS: Key = Key {
    name: "model.total-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 86_400,
    },
    default: Fallback::Integer(1800),
    variable: "CLEVERAGENTS_MODEL_TOTAL_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "The longest call of a model with all its attempts, in seconds",
};

macro_rules! default_actors {
    ($($constant:ident = $role:literal, $variable:literal, $description:literal;)+) => {$(
        #[doc = $description]
        pub static $constant: Key = Key {
            name: concat!("actor.default.", $role),
            kind: Kind::Actor,
            default: Fallback::Automatic,
            variable: $variable,
            scope: Scope::Person,
            description: $description,
        };
    )+
        /// The keys of default actors: of all, and of each role.
        pub static DEFAULT_ACTORS: [&Key; 6] = [$(&$constant),+];
    };
}

default_actors! {
    ACTOR_GENERAL = "general", "CLEVERAGENTS_ACTOR_DEFAULT_GENERAL", "The actor that runs when nobody names one";
    ACTOR_STRATEGY = "strategy", "CLEVERAGENTS_ACTOR_DEFAULT_STRATEGY", "The actor that thinks plans out";
    ACTOR_EXECUTION = "execution", "CLEVERAGENTS_ACTOR_DEFAULT_EXECUTION", "The actor that carries plans out";
    ACTOR_ESTIMATION = "estimation", "CLEVERAGENTS_ACTOR_DEFAULT_ESTIMATION", "The actor that says what a plan will take";
    ACTOR_INVARIANT = "invariant", "CLEVERAGENTS_ACTOR_DEFAULT_INVARIANT", "The actor that brings invariants together";
    ACTOR_REVIEW = "review", "CLEVERAGENTS_ACTOR_DEFAULT_REVIEW", "The actor that looks at results";
}
