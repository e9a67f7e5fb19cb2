//! Resources that plans work on. Each has a type, a name and, unless it is virtual, a location.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::{Name, NameError, is_plain_segment};
use crate::resource_type::TypeName;
use crate::{ContentHash, ResourceId, SandboxStrategy, Timestamp, Version};

/// Maximum length of a resource name.
const MAX_NAME_BYTES: usize = 512;

/// Argument values that a resource's type declares.
pub type Properties = BTreeMap<String, Value>;

/// The name of a resource: `[[server:]namespace/]name`, where the name may have several segments
/// (`local/shop/src`). Without a namespace it is in `local/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(String);

impl ResourceName {
    /// The full name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the last slash.
    pub fn last_segment(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    pub fn child_name(&self, segment: &str) -> Result<Self, NameError> {
        format!("{}/{segment}", self.0).parse()
    }

    /// The name with a number appended, from 2 on.
    pub fn numbered(&self, number: u64) -> Result<Self, NameError> {
        format!("{}-{number}", self.0).parse()
    }

    /// A name in `local/` for a file or directory: invalid characters become `-`.
    pub fn for_file(file_name: &str) -> Self {
        let mut segment = String::new();
        for character in file_name.to_lowercase().chars() {
            let legal = character.is_ascii_lowercase() || character.is_ascii_digit();
            if legal || (matches!(character, '_' | '-') && !segment.is_empty()) {
                segment.push(character);
            } else if !segment.is_empty() && !segment.ends_with('-') {
                segment.push('-');
            }
        }
        segment.truncate(64);
        let segment = segment.trim_end_matches(['-', '_']);
        Self(format!(
            "local/{}",
            if segment.is_empty() { "root" } else { segment }
        ))
    }

    /// Refuses a reserved namespace.
    pub fn require_free_namespace(&self) -> Result<(), NameError> {
        let mut parts = self.0.splitn(3, '/');
        let (namespace, name) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        format!("{namespace}/{name}")
            .parse::<Name>()?
            .require_free_namespace()
    }
}

impl FromStr for ResourceName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let invalid = |segment: &str| NameError::Segment {
            name: text.to_owned(),
            part: "name",
            segment: segment.to_owned(),
        };
        if text.len() > MAX_NAME_BYTES {
            return Err(invalid(text));
        }
        let mut parts = text.splitn(3, '/');
        let first: Vec<&str> = parts.by_ref().take(2).collect();
        // The name parser also accepts model names here; a resource cannot have one.
        let head: Name = first.join("/").parse()?;
        if !is_plain_segment(head.name()) {
            return Err(invalid(head.name()));
        }
        let Some(rest) = parts.next() else {
            return Ok(Self(head.to_string()));
        };
        let rest = rest.to_ascii_lowercase();
        if let Some(segment) = rest.split('/').find(|segment| !is_plain_segment(segment)) {
            return Err(invalid(segment));
        }
        Ok(Self(format!("{head}/{rest}")))
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for ResourceName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ResourceName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A resource that plans work on, such as a directory or a database.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    pub id: ResourceId,
    /// Name, unique among resources.
    pub name: ResourceName,
    pub type_name: TypeName,
    /// Values of the arguments that the type declares.
    pub properties: Properties,
    /// Location: an absolute path, or a URL without its password.
    pub location: Option<String>,
    /// Description for users.
    pub description: Option<String>,
    /// Whether plans may only read the resource.
    pub read_only: bool,
    /// Whether discovery registered the resource, rather than a user.
    pub auto_discovered: bool,
    /// Hash of the content at the last inspection.
    pub content_hash: Option<ContentHash>,
    /// Version of the row.
    pub version: Version,
    /// Time of registration.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// The sandbox boundary of a resource: the resource that is isolated as a whole, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Boundary {
    /// Isolated resource.
    pub resource: Resource,
    /// Isolation strategy.
    pub strategy: SandboxStrategy,
}

#[cfg(test)]
mod tests {
    use super::ResourceName;
    use crate::ResourceId;
    use proptest::prelude::*;

    #[test]
    fn a_resource_name_may_have_several_segments() {
        for (text, full, last) in [
            ("repo", "local/repo", "repo"),
            ("Local/Test-Repo/src", "local/test-repo/src", "src"),
            ("prod:team/api/a/b", "prod:team/api/a/b", "b"),
        ] {
            let name: ResourceName = text.parse().expect("a name");
            assert_eq!((name.as_str(), name.last_segment()), (full, last));
        }
        for text in [
            "",
            "/",
            "a//b",
            "a/b/",
            "a/b/../c",
            "a/b/c d",
            "é",
            "openai/gpt-4.5",
            "a/b/c:d",
        ] {
            assert!(text.parse::<ResourceName>().is_err(), "{text:?}");
        }
        let long = format!("local/{}", "a/".repeat(300) + "a");
        assert!(long.parse::<ResourceName>().is_err());
    }

    #[test]
    fn file_names_become_valid_resource_names() {
        for (file, expected) in [
            ("My Project", "local/my-project"),
            ("README.md", "local/readme-md"),
            ("...", "local/root"),
            ("日本", "local/root"),
            ("-x_", "local/x"),
        ] {
            assert_eq!(ResourceName::for_file(file).as_str(), expected);
        }
    }

    #[test]
    fn reserved_namespaces_are_refused() {
        let name: ResourceName = "system/x/y".parse().expect("parses");
        assert!(name.require_free_namespace().is_err());
        let name: ResourceName = "prod:root/x".parse().expect("parses");
        assert!(name.require_free_namespace().is_err());
        let name: ResourceName = "team/system".parse().expect("parses");
        assert!(name.require_free_namespace().is_ok());
    }

    proptest! {
        #[test]
        fn a_name_round_trips_through_text(text in "([a-z0-9][a-z0-9_-]{0,8}:)?[a-z0-9][a-z0-9_-]{0,8}(/[a-z0-9][a-z0-9_-]{0,8}){1,4}") {
            let name: ResourceName = text.parse().expect("well formed");
            prop_assert_eq!(name.to_string().parse::<ResourceName>().expect("printed"), name);
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _outcome = text.parse::<ResourceName>();
        }

        #[test]
        fn every_file_name_becomes_a_valid_resource_name(text in "\\PC{0,100}") {
            let name = ResourceName::for_file(&text);
            prop_assert_eq!(name.as_str().parse::<ResourceName>().expect("well formed"), name);
        }

        #[test]
        fn child_ids_are_deterministic_and_distinct(left in "[a-z]{1,8}", right in "[a-z]{1,8}") {
            let parent = ResourceId::generate();
            prop_assert_eq!(parent.child(&left), parent.child(&left));
            prop_assert_eq!(parent.child(&left) == parent.child(&right), left == right);
            prop_assert!(parent.child(&left) != parent);
            prop_assert!(parent.child(&left) != ResourceId::generate().child(&left));
        }
    }
}
