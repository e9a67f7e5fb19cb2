//! Names: `[[server:]namespace/]name`, parsed in the same way for every kind of entity.
//!
//! Segments are lowercase and match `[a-z0-9][a-z0-9_-]*`; without a namespace a name is in
//! `local/`. Namespaces of model providers contain models, whose names follow the provider's own
//! conventions (`anthropic/claude-3.5-sonnet`), so there the last segment may also contain `.`,
//! `:`, `/`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const LOCAL: &str = "local";
const RESERVED: &[&str] = &["system", "internal", "admin", "root"];
const PROVIDERS: &[&str] = &[
    "anthropic",
    "azure",
    "deepseek",
    "gemini",
    "google",
    "groq",
    "mistral",
    "ollama",
    "openai",
    "openrouter",
    "replay",
    "scripted",
    "together",
];
const MAX_SEGMENT_LENGTH: usize = 128;

/// The text is not a name, or not allowed for a new entity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A segment is empty, too long or contains an invalid character.
    #[error(
        "`{name}` is not a name: the {part} `{segment}` must be letters, digits, `_` or `-`, and begin with a letter or digit"
    )]
    Segment {
        /// Complete text.
        name: String,
        /// Name of the invalid part.
        part: &'static str,
        /// Text of that part.
        segment: String,
    },
    /// The namespace is reserved.
    #[error("the namespace `{0}` is reserved")]
    Reserved(String),
}

/// A parsed name. Prints in full, with the namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::struct_field_names,
    reason = "the last part of a name is called the name"
)]
pub struct Name {
    server: Option<String>,
    namespace: String,
    name: String,
}

impl Name {
    /// The server part, if the name has one.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The namespace, `local` when none was given.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The last segment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses a reserved namespace, which users may refer to but not use for new entities.
    pub fn require_free_namespace(&self) -> Result<(), NameError> {
        let is_in = |list: &[&str]| list.contains(&self.namespace.as_str());
        if is_in(RESERVED) || is_in(PROVIDERS) {
            return Err(NameError::Reserved(self.namespace.clone()));
        }
        Ok(())
    }
}

/// Whether a text is a valid segment of a name.
pub(crate) fn is_plain_segment(segment: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    segment.len() <= MAX_SEGMENT_LENGTH
        && segment.bytes().next().is_some_and(legal)
        && segment
            .bytes()
            .all(|byte| legal(byte) || byte == b'_' || byte == b'-')
}

fn is_model_segment(segment: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    segment.len() <= MAX_SEGMENT_LENGTH
        && segment.bytes().next().is_some_and(legal)
        && segment.bytes().next_back().is_some_and(legal)
        && segment
            .bytes()
            .all(|byte| legal(byte) || b"_-.:/@".contains(&byte))
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let lower = text.trim().to_lowercase();
        let invalid = |part, segment: &str| NameError::Segment {
            name: text.to_owned(),
            part,
            segment: segment.to_owned(),
        };
        let (prefix, name) = match lower.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, lower.as_str()),
        };
        let (server, namespace) = match prefix.map(|prefix| prefix.split_once(':')) {
            None => (None, LOCAL),
            Some(None) => (None, prefix.unwrap_or(LOCAL)),
            Some(Some((server, namespace))) => (Some(server), namespace),
        };
        if let Some(server) = server
            && !is_plain_segment(server)
        {
            return Err(invalid("server", server));
        }
        if !is_plain_segment(namespace) {
            return Err(invalid("namespace", namespace));
        }
        let fits = if PROVIDERS.contains(&namespace) {
            is_model_segment
        } else {
            is_plain_segment
        };
        if !fits(name) {
            return Err(invalid("name", name));
        }
        Ok(Self {
            server: server.map(str::to_owned),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(formatter, "{server}:")?;
        }
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Name of an actor: `local/orchestrator`, or a model such as `openai/gpt-5`.
pub type ActorName = Name;

#[cfg(test)]
mod tests {
    use super::{Name, NameError};
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Name, NameError> {
        text.parse()
    }

    #[test]
    fn the_namespace_defaults_to_local() {
        let name = parse("Deploy").expect("a name");
        assert_eq!(
            (name.server(), name.namespace(), name.name()),
            (None, "local", "deploy")
        );
        assert_eq!(name.to_string(), "local/deploy");
    }

    #[test]
    fn a_name_may_start_with_a_server() {
        let name = parse("prod:cleverthis/deploy-action").expect("a name");
        assert_eq!(name.server(), Some("prod"));
        assert_eq!(name.to_string(), "prod:cleverthis/deploy-action");
    }

    #[test]
    fn models_keep_their_own_names() {
        assert_eq!(
            parse("anthropic/claude-3.5-sonnet").expect("model").name(),
            "claude-3.5-sonnet"
        );
        assert_eq!(
            parse("ollama/llama3:8b").expect("model").name(),
            "llama3:8b"
        );
        assert!(parse("team/claude-3.5").is_err());
    }

    #[test]
    fn reserved_namespaces_are_refused_for_new_entities() {
        for text in ["system/x", "internal/x", "admin/x", "root/x", "openai/x"] {
            assert!(
                parse(text)
                    .expect("parses")
                    .require_free_namespace()
                    .is_err(),
                "{text}"
            );
        }
        assert!(
            parse("local/x")
                .expect("parses")
                .require_free_namespace()
                .is_ok()
        );
    }

    #[test]
    fn malformed_names_are_refused() {
        for text in [
            "", " ", "/", "a/", "/a", ":a/b", "a:/b", "a b", "-a", "a/b/c", "é", "a/../b",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_name_round_trips_through_text(text in "([a-z0-9][a-z0-9_-]{0,8}:)?([a-z0-9][a-z0-9_-]{0,8}/)[a-z0-9][a-z0-9_-]{0,8}") {
            let name = parse(&text).expect("well formed");
            prop_assert_eq!(parse(&name.to_string()).expect("printed"), name);
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _outcome = parse(&text);
        }
    }
}
