//! The registry: every configuration key with its type, default and scope.

use cleveragents_domain::identity::{EVERY_NAMESPACE, Grant, Role};
use cleveragents_domain::{AutomationProfile, Name};
use cleveragents_models::ModelName;
use cleveragents_tools::ToolPattern;

use super::error::Error;
use super::resolve::Source;
use super::value::Value;
use crate::output::Format;

/// Type of a key's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A database URL; output hides its password.
    Url,
    /// An automation profile: a built-in one, or `namespace/name` for a registered one.
    Profile,
    /// The name of an actor.
    Actor,
    /// The name of a model: `PROVIDER/MODEL`.
    Model,
    /// Comma-separated names of models.
    Models,
    /// Comma-separated patterns of tools.
    Tools,
    /// The name of a safety profile, or the path of its file.
    Safety,
    /// A web address: `http://…` or `https://…`.
    Web,
    /// An IP address of this machine.
    Host,
    /// The path of a file.
    File,
    /// A log filter, in the syntax of `EnvFilter`.
    LogFilter,
    /// A namespace that is not `local`.
    Namespace,
    /// A boolean.
    Flag,
    /// Comma-separated words from the given list, or `none`.
    Words(&'static [&'static str]),
    /// One word from the given list.
    Choice(&'static [&'static str]),
    /// An integer within bounds, both inclusive.
    Integer {
        /// Smallest allowed value.
        minimum: u64,
        /// Largest allowed value.
        maximum: u64,
    },
}

/// Files that may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Only the user's own file: the project file of a cloned repository must not.
    Person,
    /// The user's own file and the file of the current project.
    Project,
}

/// Value of a key that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// No value; the program decides at run time.
    Automatic,
    /// The database file in the home folder.
    DatabaseFile,
    /// A fixed text.
    Text(&'static str),
    /// A fixed number.
    Integer(u64),
}

/// A configuration key.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// The dotted name, such as `core.format`.
    pub name: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    /// The environment variable that sets it.
    pub variable: &'static str,
    pub scope: Scope,
    /// Description for users, one sentence.
    pub description: &'static str,
}

pub mod keys;

/// Every key, in display order.
pub static KEYS: [&Key; 56] = [
    &keys::FORMAT,
    &keys::DATABASE_URL,
    &keys::MODE,
    &keys::AUTOMATION_PROFILE,
    &keys::PAGER,
    &keys::NOTIFY,
    &keys::NOTIFY_AFTER,
    &keys::LOG_FILTER,
    &keys::LOG_FILE,
    &keys::LOG_FORMAT,
    &keys::MAX_MESSAGE_BYTES,
    &keys::BUSY_TIMEOUT_SECONDS,
    &keys::CONNECTIONS,
    &keys::EVENTS_DAYS,
    &keys::BUDGET_SESSION_CENTS,
    &keys::BUDGET_DAY_CENTS,
    &keys::SAFETY_PROFILE,
    &keys::SAFETY_DENY_TOOLS,
    &keys::SAFETY_ALLOW_TOOLS,
    &keys::SAFETY_MAX_CALLS,
    &keys::SAFETY_APPROVE_WRITES,
    &keys::PLAN_CONCURRENCY,
    &keys::PLAN_MAX_CHILD_DEPTH,
    &keys::SANDBOX_CLEANUP,
    &keys::CHECKPOINT_AUTO_CREATE_ON,
    &keys::ACTOR_GENERAL,
    &keys::ACTOR_STRATEGY,
    &keys::ACTOR_EXECUTION,
    &keys::ACTOR_ESTIMATION,
    &keys::ACTOR_INVARIANT,
    &keys::ACTOR_REVIEW,
    &keys::MODEL_DEFAULT,
    &keys::MODEL_FALLBACK,
    &keys::MODEL_RETRIES,
    &keys::MODEL_CONNECT_TIMEOUT_SECONDS,
    &keys::MODEL_FIRST_BYTE_TIMEOUT_SECONDS,
    &keys::MODEL_IDLE_TIMEOUT_SECONDS,
    &keys::MODEL_TOTAL_TIMEOUT_SECONDS,
    &keys::SERVE_HOST,
    &keys::SERVE_PORT,
    &keys::SERVE_PUBLIC_URL,
    &keys::SERVE_TLS_CERT,
    &keys::SERVE_TLS_KEY,
    &keys::SERVE_MAX_BODY_BYTES,
    &keys::SERVE_RATE,
    &keys::SERVE_MAX_CONNECTIONS,
    &keys::SERVE_MAX_CONNECTIONS_PER_ADDRESS,
    &keys::SERVE_LOG_FILE,
    &keys::SERVE_MAX_RUNNING,
    &keys::SERVE_DRAIN_SECONDS,
    &keys::SERVE_ALLOW_PRIVATE,
    &keys::TELEMETRY_OTLP_ENDPOINT,
    &keys::A2A_ALLOW_PRIVATE,
    &keys::SERVER_URL,
    &keys::SERVER_NAMESPACE,
    &keys::SERVER_TLS_VERIFY,
];

/// The models of a list; `None` when one of them is not a model name.
pub(crate) fn models(text: &str) -> Option<Vec<ModelName>> {
    let names = text.split(',').map(str::trim).map(str::parse);
    names.collect::<Result<_, _>>().ok()
}

/// True for an `http` or `https` URL with a host and without user name and password.
pub(crate) fn is_web(text: &str) -> bool {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !host.is_empty() && !host.contains('@') && !rest.contains(char::is_whitespace)
    })
}

/// The patterns of a list; `None` when one of them is invalid.
pub(crate) fn tools(text: &str) -> Option<Vec<ToolPattern>> {
    let patterns = text.split(',').map(str::trim).map(str::parse);
    patterns.collect::<Result<_, _>>().ok()
}

/// The words of a list, which may be empty; `None` when one of them is unknown.
pub(crate) fn words<'t>(text: &'t str, known: &[&str]) -> Option<Vec<&'t str>> {
    if text.trim() == NO_WORDS {
        return Some(Vec::new());
    }
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    words
        .iter()
        .all(|word| known.contains(word))
        .then_some(words)
}

/// Text of an empty list, because an empty text means that the key has no value.
const NO_WORDS: &str = "none";

/// The key with this name; the error for an unknown name suggests the most similar key.
pub fn find(name: &str) -> Result<&'static Key, Error> {
    lookup(name).ok_or_else(|| Error::UnknownKey {
        key: name.to_owned(),
        nearest: nearest(name),
        origin: None,
    })
}

pub(crate) fn lookup(name: &str) -> Option<&'static Key> {
    KEYS.into_iter().find(|key| key.name == name)
}

/// The known key most similar to an unknown one, if any is similar enough.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace(['_', ' '], "-");
    let likeness = |key: &Key| {
        let full_name = strsim::normalized_damerau_levenshtein(&name, key.name);
        // Users often give only the last part.
        let last = key.name.rsplit('.').next().unwrap_or(key.name);
        full_name.max(strsim::normalized_damerau_levenshtein(&name, last))
    };
    // The first of equally similar keys wins.
    KEYS.into_iter()
        .rev()
        .map(|key| (likeness(key), key.name))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}

impl Key {
    /// Parses a value of this key from text, as given to `config set` or in a variable.
    pub fn parse(&self, text: &str) -> Result<Value, Error> {
        self.parse_from(text, None)
    }

    /// Parses a value with a known source, which an error then names.
    pub(crate) fn parse_from(&self, text: &str, origin: Option<Source>) -> Result<Value, Error> {
        let is_allowed = match self.kind {
            Kind::Url | Kind::Safety | Kind::File => !text.trim().is_empty(),
            Kind::Web => is_web(text),
            Kind::Host => text.parse::<std::net::IpAddr>().is_ok(),
            Kind::Namespace => Grant::new(text, Role::Viewer).is_ok() && text != EVERY_NAMESPACE,
            Kind::Tools => tools(text).is_some(),
            Kind::LogFilter => crate::logging::parse_filter(text).is_some(),
            Kind::Flag => {
                if let Ok(flag) = text.parse() {
                    return Ok(Value::Flag(flag));
                }
                false
            }
            Kind::Actor => text.parse::<Name>().is_ok(),
            // The registered profiles are not checked here: a change must work without the
            // database.
            Kind::Profile => {
                AutomationProfile::find_built_in(text).is_some()
                    || (text.contains('/') && text.parse::<Name>().is_ok())
            }
            Kind::Model => text.parse::<ModelName>().is_ok(),
            Kind::Models => models(text).is_some(),
            Kind::Words(known) => words(text, known).is_some(),
            Kind::Choice(words) => words.contains(&text),
            Kind::Integer { minimum, maximum } => {
                if let Ok(number) = text.parse::<u64>()
                    && (minimum..=maximum).contains(&number)
                {
                    return Ok(Value::Integer(number));
                }
                false
            }
        };
        if is_allowed {
            Ok(Value::Text(text.to_owned()))
        } else {
            Err(self.refuse(text, origin))
        }
    }

    /// Reads a value of this key from a configuration file.
    pub(crate) fn read(
        &self,
        value: &toml_edit::Value,
        origin: Option<Source>,
    ) -> Result<Value, Error> {
        let text = match (self.kind, value) {
            (Kind::Integer { .. }, toml_edit::Value::Integer(number)) => number.value().to_string(),
            (Kind::Flag, toml_edit::Value::Boolean(flag)) => flag.value().to_string(),
            (Kind::Integer { .. } | Kind::Flag, _) => {
                return Err(self.refuse(value.to_string().trim(), origin));
            }
            (_, toml_edit::Value::String(text)) => text.value().clone(),
            (Kind::Words(_), toml_edit::Value::Array(list)) => {
                let words: Option<Vec<&str>> = list.iter().map(|word| word.as_str()).collect();
                match words {
                    Some(words) if words.is_empty() => NO_WORDS.to_owned(),
                    Some(words) => words.join(","),
                    None => return Err(self.refuse(value.to_string().trim(), origin)),
                }
            }
            _ => return Err(self.refuse(value.to_string().trim(), origin)),
        };
        self.parse_from(&text, origin)
    }

    /// Description of the allowed values, for messages such as "give …".
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Url => "a URL such as sqlite:///path or postgres://user@host/name".to_owned(),
            Kind::Profile => {
                let names: Vec<&str> = AutomationProfile::built_in_names().collect();
                format!(
                    "one of {}, or a registered one such as team/careful",
                    names.join(", ")
                )
            }
            Kind::Actor => "an actor such as local/helper or openai/gpt-5.1".to_owned(),
            Kind::Model => "PROVIDER/MODEL, such as openai/gpt-5.1".to_owned(),
            Kind::Models => "comma-separated names of models".to_owned(),
            Kind::Tools => {
                "comma-separated names or patterns of tools, such as builtin/shell,local/*"
                    .to_owned()
            }
            Kind::Safety => "a profile such as careful, or a file such as ./team.yaml".to_owned(),
            Kind::Web => "an address such as https://agents.example.org".to_owned(),
            Kind::Host => "an IP address such as 127.0.0.1 or 0.0.0.0".to_owned(),
            Kind::File => "the path of a file".to_owned(),
            Kind::LogFilter => {
                "a level (error, warn, info, debug, trace, off) or comma-separated TARGET=LEVEL, such as \
                 info,cleveragents_store=debug"
                    .to_owned()
            }
            Kind::Namespace => {
                "a namespace such as acme; `local` exists only on this machine".to_owned()
            }
            Kind::Flag => "true or false".to_owned(),
            Kind::Words(known) => format!(
                "a comma-separated list of {}, or {NO_WORDS}",
                known.join(", ")
            ),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Integer { minimum, maximum } => {
                format!("a whole number from {minimum} to {maximum}")
            }
        }
    }

    /// An allowed value in TOML; the default if there is one.
    pub fn example(&self) -> String {
        let text = match self.default {
            Fallback::Integer(number) => return number.to_string(),
            Fallback::Text(text) => text,
            Fallback::DatabaseFile => "sqlite:///path/to/cleveragents.db",
            Fallback::Automatic => match self.kind {
                // Not the minimum: a budget of zero allows nothing.
                Kind::Integer { minimum, maximum } => {
                    return 500.clamp(minimum, maximum).to_string();
                }
                Kind::Flag => return "false".to_owned(),
                Kind::Words(words) | Kind::Choice(words) => {
                    words.first().copied().unwrap_or_default()
                }
                Kind::Url => "sqlite:///path/to/cleveragents.db",
                Kind::Profile => "team/careful",
                Kind::Actor => "local/helper",
                Kind::Model | Kind::Models => "openai/gpt-5.1",
                Kind::Tools => "builtin/shell,local/*",
                Kind::Safety => "careful",
                Kind::Web => "https://agents.example.org",
                Kind::Host => "127.0.0.1",
                Kind::File => "/path/to/file.pem",
                Kind::LogFilter => "info,cleveragents_store=debug",
                Kind::Namespace => "acme",
            },
        };
        format!("\"{text}\"")
    }

    /// The value for display, with the password of a URL hidden.
    pub fn show(&self, value: &Value) -> String {
        let text = value.to_string();
        if self.kind == Kind::Url {
            cleveragents_store::redact(&text)
        } else {
            text
        }
    }

    /// The value as JSON: integers and booleans keep their type, and passwords are hidden.
    pub fn to_json(&self, value: &Value) -> serde_json::Value {
        match value {
            Value::Text(_) => self.show(value).into(),
            Value::Integer(number) => (*number).into(),
            Value::Flag(flag) => (*flag).into(),
        }
    }

    fn refuse(&self, text: &str, origin: Option<Source>) -> Error {
        Error::InvalidValue {
            key: self.name,
            value: self.show(&Value::Text(text.to_owned())),
            allowed: self.allowed(),
            origin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fallback, KEYS, Kind, Scope, find, keys, nearest};
    use crate::config::{Error, Value};
    use std::collections::HashSet;

    #[test]
    fn the_registry_is_consistent() {
        let mut names = HashSet::new();
        for key in KEYS {
            assert!(
                names.insert(key.name) && names.insert(key.variable),
                "{}",
                key.name
            );
            assert!(key.variable.starts_with("CLEVERAGENTS_"));
            assert!(!key.description.ends_with('.'));
            assert_eq!(find(key.name).expect("registered"), key);
            match (key.kind, key.default) {
                (Kind::Integer { .. }, Fallback::Integer(number)) => {
                    assert_eq!(
                        key.parse(&number.to_string()).expect("legal"),
                        Value::Integer(number)
                    );
                }
                // A key without a default, such as an optional limit.
                (_, Fallback::Automatic) => {}
                (Kind::Integer { .. }, _) | (_, Fallback::Integer(_)) => panic!("{}", key.name),
                (_, Fallback::Text(text)) => assert!(key.parse(text).is_ok()),
                (_, Fallback::DatabaseFile) => {}
            }
        }
    }

    #[test]
    fn the_example_of_a_key_can_be_set() {
        for key in KEYS {
            let example: toml_edit::Value = key.example().parse().expect("TOML");
            assert!(key.read(&example, None).is_ok(), "{}", key.name);
        }
    }

    /// A project must not choose the model either, because a script in a cloned repository can act as a model.
    #[test]
    fn a_project_cannot_redirect_the_database_the_model_or_the_budget() {
        assert_eq!(keys::DATABASE_URL.scope, Scope::Person);
        assert_eq!(keys::MODEL_DEFAULT.scope, Scope::Person);
        assert_eq!(keys::MODEL_FALLBACK.scope, Scope::Person);
        assert_eq!(keys::BUDGET_SESSION_CENTS.scope, Scope::Person);
        assert_eq!(keys::BUDGET_DAY_CENTS.scope, Scope::Person);
    }

    #[test]
    fn an_error_suggests_the_key_nearest_to_an_unknown_one() {
        for (given, expected) in [
            ("core.fromat", Some("core.format")),
            ("format", Some("core.format")),
            ("CORE.FORMAT", Some("core.format")),
            ("core.database_url", Some("core.database-url")),
            ("store.conections", Some("store.connections")),
            ("zzzzzzzzzzzz", None),
        ] {
            assert_eq!(nearest(given), expected, "{given}");
            assert!(matches!(find(given), Err(Error::UnknownKey { .. })));
        }
    }

    #[test]
    fn values_outside_the_bounds_are_refused() {
        let key = &keys::CONNECTIONS;
        assert_eq!(key.parse("64").expect("greatest"), Value::Integer(64));
        for text in [
            "0",
            "65",
            "-1",
            "",
            " 8",
            "8.0",
            "eight",
            "18446744073709551616",
        ] {
            let error = key.parse(text).expect_err(text).to_string();
            assert!(
                error.contains("store.connections") && error.contains("from 1 to 64"),
                "{error}"
            );
        }
        assert!(keys::FORMAT.parse("Rich").is_err());
        assert!(keys::AUTOMATION_PROFILE.parse("no spaces").is_err());
        assert!(keys::DATABASE_URL.parse(" ").is_err());
        assert!(keys::MODEL_DEFAULT.parse("gpt").is_err());
        assert!(keys::MODEL_FALLBACK.parse("a/b,,c/d").is_err());
        assert!(keys::MODEL_FALLBACK.parse("a/b, c/d").is_ok());
    }

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        let displayed = |url: &str| keys::DATABASE_URL.show(&Value::Text(url.to_owned()));
        assert_eq!(
            displayed("postgres://me:p@ss:w@db/x?y=a@b"),
            "postgres://me:***@db/x?y=a@b"
        );
        assert_eq!(displayed("postgres://me@db/x"), "postgres://me@db/x");
        assert_eq!(displayed("sqlite:///a:b@c"), "sqlite:///a:b@c");
        assert_eq!(displayed("sqlite::memory:"), "sqlite::memory:");
    }
}
