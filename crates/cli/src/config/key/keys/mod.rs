//! The keys as constants, for code that reads a specific key.

mod server;

use cleveragents_application::{CheckpointTrigger, SandboxCleanup};

use super::{Fallback, Format, Key, Kind, Scope};

pub use self::server::*;

/// Output format.
pub static FORMAT: Key = Key {
    name: "core.format",
    kind: Kind::Choice(&Format::NAMES),
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_FORMAT",
    scope: Scope::Project,
    description: "Output format; unset means rich on a terminal and plain elsewhere",
};

/// Whether long reports on a terminal go to the pager.
pub static PAGER: Key = Key {
    name: "ui.pager",
    kind: Kind::Choice(&["auto", "never"]),
    default: Fallback::Text("auto"),
    variable: "CLEVERAGENTS_UI_PAGER",
    scope: Scope::Person,
    description: "Show long reports on a terminal with $PAGER, or less: auto or never",
};

/// Notification after a long turn or plan.
pub static NOTIFY: Key = Key {
    name: "ui.notify",
    kind: Kind::Choice(&["off", "bell", "desktop"]),
    default: Fallback::Text("bell"),
    variable: "CLEVERAGENTS_UI_NOTIFY",
    scope: Scope::Person,
    description: "Notification when a long turn or plan at a terminal ends or asks: off, bell, or desktop (OSC 9 or 777)",
};

/// Minimum duration of a turn or plan for a notification, in seconds.
pub static NOTIFY_AFTER: Key = Key {
    name: "ui.notify-after",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 86_400,
    },
    default: Fallback::Integer(20),
    variable: "CLEVERAGENTS_UI_NOTIFY_AFTER",
    scope: Scope::Person,
    description: "Minimum duration of a turn or plan for a notification, in seconds; 0 for no notifications",
};

pub static DATABASE_URL: Key = Key {
    name: "core.database-url",
    kind: Kind::Url,
    default: Fallback::DatabaseFile,
    variable: "CLEVERAGENTS_DATABASE_URL",
    scope: Scope::Person,
    description: "Database URL: sqlite:///path or postgres://user@host/name",
};

/// Mode of new plans and of conversations in a folder.
pub static MODE: Key = Key {
    name: "core.mode",
    kind: Kind::Choice(&cleveragents_application::Mode::NAMES),
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_MODE",
    // The file of a cloned repository must not decide what is done without asking.
    scope: Scope::Person,
    description: "Degree of automation: plan, ask, edit or auto; unset means ask",
};

/// Automation profile of new plans and sessions.
pub static AUTOMATION_PROFILE: Key = Key {
    name: "core.automation-profile",
    kind: Kind::Profile,
    default: Fallback::Text("supervised"),
    variable: "CLEVERAGENTS_AUTOMATION_PROFILE",
    // The file of a cloned repository must not decide what is done without asking.
    scope: Scope::Person,
    description: "Default automation profile of plans",
};

pub static LOG_FILTER: Key = Key {
    name: "log.filter",
    kind: Kind::LogFilter,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_LOG",
    scope: Scope::Person,
    description: "Filter of the log to standard error and the log file; -v and -vv set it",
};

/// Path of the log file.
pub static LOG_FILE: Key = Key {
    name: "log.file",
    kind: Kind::File,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_LOG_FILE",
    scope: Scope::Person,
    description: "Log file, rotated daily",
};

pub static LOG_FORMAT: Key = Key {
    name: "log.format",
    kind: Kind::Choice(&["text", "json"]),
    default: Fallback::Text("text"),
    variable: "CLEVERAGENTS_LOG_FORMAT",
    scope: Scope::Person,
    description: "Format of the log: lines of text, or one JSON object per line",
};

/// Maximum size of a message, in bytes.
pub static MAX_MESSAGE_BYTES: Key = Key {
    name: "session.max-message-bytes",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 67_108_864,
    },
    default: Fallback::Integer(1_048_576),
    variable: "CLEVERAGENTS_SESSION_MAX_MESSAGE_BYTES",
    scope: Scope::Project,
    description: "Maximum size of a message, in bytes",
};

/// Maximum wait for a lock of the database, in seconds.
pub static BUSY_TIMEOUT_SECONDS: Key = Key {
    name: "store.busy-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 3600,
    },
    default: Fallback::Integer(30),
    variable: "CLEVERAGENTS_STORE_BUSY_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "Maximum wait for another writer of the database, in seconds",
};

/// Maximum number of connections to the database.
pub static CONNECTIONS: Key = Key {
    name: "store.connections",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 64,
    },
    default: Fallback::Integer(8),
    variable: "CLEVERAGENTS_STORE_CONNECTIONS",
    scope: Scope::Person,
    description: "Maximum number of database connections of a process",
};

/// Retention of events, in days.
pub static EVENTS_DAYS: Key = Key {
    name: "cleanup.events-days",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 36_500,
    },
    default: Fallback::Integer(90),
    variable: "CLEVERAGENTS_CLEANUP_EVENTS_DAYS",
    scope: Scope::Person,
    description: "Retention of events, in days",
};

/// Budget of one session, in cents.
pub static BUDGET_SESSION_CENTS: Key = Key {
    name: "budget.session-cents",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 100_000_000,
    },
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_BUDGET_SESSION_CENTS",
    scope: Scope::Person,
    description: "Maximum cost of one session, in US cents; no limit when not set",
};

/// Budget of one day, in cents.
pub static BUDGET_DAY_CENTS: Key = Key {
    name: "budget.day-cents",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 100_000_000,
    },
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_BUDGET_DAY_CENTS",
    scope: Scope::Person,
    description: "Maximum cost of all sessions per day (UTC), in US cents; no limit when not set",
};

pub static SAFETY_PROFILE: Key = Key {
    name: "safety.profile",
    kind: Kind::Safety,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_PROFILE",
    scope: Scope::Project,
    description: "Safety profile of tool calls; if several levels set one, the stricter limits apply",
};

/// Patterns of tools that must not run.
pub static SAFETY_DENY_TOOLS: Key = Key {
    name: "safety.deny-tools",
    kind: Kind::Tools,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_DENY_TOOLS",
    scope: Scope::Project,
    description: "Denied tools, comma-separated",
};

/// Patterns of allowed tools; other tools must not run.
pub static SAFETY_ALLOW_TOOLS: Key = Key {
    name: "safety.allow-tools",
    kind: Kind::Tools,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_ALLOW_TOOLS",
    scope: Scope::Project,
    description: "Allowed tools, comma-separated; all when not set",
};

/// Maximum number of tool calls.
pub static SAFETY_MAX_CALLS: Key = Key {
    name: "safety.max-calls",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 1_000_000,
    },
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_MAX_CALLS",
    scope: Scope::Project,
    description: "Maximum number of tool calls per model response; no limit when not set",
};

/// Requires approval of every tool call that writes.
pub static SAFETY_APPROVE_WRITES: Key = Key {
    name: "safety.approve-writes",
    kind: Kind::Flag,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_SAFETY_APPROVE_WRITES",
    scope: Scope::Project,
    description: "Whether every tool call that writes needs approval",
};

/// Maximum number of plans that run at the same time.
pub static PLAN_CONCURRENCY: Key = Key {
    name: "plan.concurrency",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 64,
    },
    default: Fallback::Integer(16),
    variable: "CLEVERAGENTS_PLAN_CONCURRENCY",
    scope: Scope::Person,
    description: "Maximum number of plans that run in parallel with one database; others wait",
};

/// Maximum depth of child plans.
pub static PLAN_MAX_CHILD_DEPTH: Key = Key {
    name: "plan.max-child-depth",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 16,
    },
    default: Fallback::Integer(5),
    variable: "CLEVERAGENTS_PLAN_MAX_CHILD_DEPTH",
    scope: Scope::Project,
    description: "Maximum number of plans above a child plan; 0 forbids child plans",
};

/// Event that removes the sandbox of a plan.
pub static SANDBOX_CLEANUP: Key = Key {
    name: "sandbox.cleanup",
    kind: Kind::Choice(SandboxCleanup::WORDS),
    default: Fallback::Text("on_apply"),
    variable: "CLEVERAGENTS_SANDBOX_CLEANUP",
    scope: Scope::Person,
    description: "When the sandbox of a plan is removed",
};

/// Events on which plans create checkpoints.
pub static CHECKPOINT_AUTO_CREATE_ON: Key = Key {
    name: "sandbox.checkpoint.auto-create-on",
    kind: Kind::Words(CheckpointTrigger::WORDS),
    default: Fallback::Text("on_tool_write,on_tool_write_complete,on_subplan_spawn,on_error"),
    variable: "CLEVERAGENTS_CHECKPOINT_AUTO_CREATE_ON",
    scope: Scope::Project,
    description: "Events on which a plan creates checkpoints, in addition to the start of each step",
};

pub static MODEL_DEFAULT: Key = Key {
    name: "model.default",
    kind: Kind::Model,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_MODEL_DEFAULT",
    scope: Scope::Person,
    description: "Default model",
};

/// Fallback models, in order.
pub static MODEL_FALLBACK: Key = Key {
    name: "model.fallback",
    kind: Kind::Models,
    default: Fallback::Automatic,
    variable: "CLEVERAGENTS_MODEL_FALLBACK",
    scope: Scope::Person,
    description: "Fallback models when one fails, in order, comma-separated",
};

/// Maximum number of retries of a model call.
pub static MODEL_RETRIES: Key = Key {
    name: "model.retries",
    kind: Kind::Integer {
        minimum: 0,
        maximum: 20,
    },
    default: Fallback::Integer(4),
    variable: "CLEVERAGENTS_MODEL_RETRIES",
    scope: Scope::Person,
    description: "Maximum number of retries of a failed model call",
};

/// Timeout for connecting to a model, in seconds.
pub static MODEL_CONNECT_TIMEOUT_SECONDS: Key = Key {
    name: "model.connect-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 600,
    },
    default: Fallback::Integer(10),
    variable: "CLEVERAGENTS_MODEL_CONNECT_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "Timeout for connecting to a provider, in seconds",
};

/// Timeout for the first byte of a response, in seconds.
pub static MODEL_FIRST_BYTE_TIMEOUT_SECONDS: Key = Key {
    name: "model.first-byte-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 3600,
    },
    default: Fallback::Integer(120),
    variable: "CLEVERAGENTS_MODEL_FIRST_BYTE_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "Timeout for the first byte of a response, in seconds",
};

/// Timeout between two parts of a response, in seconds.
pub static MODEL_IDLE_TIMEOUT_SECONDS: Key = Key {
    name: "model.idle-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 3600,
    },
    default: Fallback::Integer(120),
    variable: "CLEVERAGENTS_MODEL_IDLE_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "Timeout between two parts of a response, in seconds",
};

/// Timeout of a model call with all its attempts, in seconds.
pub static MODEL_TOTAL_TIMEOUT_SECONDS: Key = Key {
    name: "model.total-timeout-seconds",
    kind: Kind::Integer {
        minimum: 1,
        maximum: 86_400,
    },
    default: Fallback::Integer(1800),
    variable: "CLEVERAGENTS_MODEL_TOTAL_TIMEOUT_SECONDS",
    scope: Scope::Person,
    description: "Timeout of a model call with all retries, in seconds",
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
        /// The keys of default actors: the general one, and one per role.
        pub static DEFAULT_ACTORS: [&Key; 6] = [$(&$constant),+];
    };
}

default_actors! {
    ACTOR_GENERAL = "general", "CLEVERAGENTS_ACTOR_DEFAULT_GENERAL", "Default actor";
    ACTOR_STRATEGY = "strategy", "CLEVERAGENTS_ACTOR_DEFAULT_STRATEGY", "Actor that works out strategies";
    ACTOR_EXECUTION = "execution", "CLEVERAGENTS_ACTOR_DEFAULT_EXECUTION", "Actor that executes plans";
    ACTOR_ESTIMATION = "estimation", "CLEVERAGENTS_ACTOR_DEFAULT_ESTIMATION", "Actor that estimates effort and cost of plans";
    ACTOR_INVARIANT = "invariant", "CLEVERAGENTS_ACTOR_DEFAULT_INVARIANT", "Actor that reconciles invariants";
    ACTOR_REVIEW = "review", "CLEVERAGENTS_ACTOR_DEFAULT_REVIEW", "Actor that reviews results";
}
