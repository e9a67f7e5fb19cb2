//! Resources: what plans work on, each with a type, a name and, unless it is an identity, a place.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::{Name, NameError, is_plain_segment};
use crate::resource_type::TypeName;
use crate::{ContentHash, ResourceId, SandboxStrategy, Timestamp, Version};

/// How long the name of a resource may be.
const NAME_MAXIMUM: usize = 512;

/// The values of the arguments that a resource's type declares.
pub type Properties = BTreeMap<String, Value>;

/// The name of a resource: `[[server:]namespace/]name`, where the name may have several segments
/// (`local/shop/src`). Without a namespace it is in `local/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(String);

impl ResourceName {
    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the last slash.
    pub fn last_segment(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The name of something that lies below this.
    pub fn below(&self, segment: &str) -> Result<Self, NameError> {
        format!("{}/{segment}", self.0).parse()
    }

    /// The same name with a number behind it, from 2 on.
    pub fn numbered(&self, number: u64) -> Result<Self, NameError> {
        format!("{}-{number}", self.0).parse()
    }

    /// The name in `local/` that suits a file or folder: what a name cannot hold becomes `-`.
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

    /// Refuses a namespace that is not for users.
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
        let wrong = |segment: &str| NameError::Segment {
            name: text.to_owned(),
            part: "name",
            segment: segment.to_owned(),
        };
        if text.len() > NAME_MAXIMUM {
            return Err(wrong(text));
        }
        let mut parts = text.splitn(3, '/');
        let first: Vec<&str> = parts.by_ref().take(2).collect();
        // What stands here may be a model's name in the one parser of names; a resource is none.
        let head: Name = first.join("/").parse()?;
        if !is_plain_segment(head.name()) {
            return Err(wrong(head.name()));
        }
        let Some(rest) = parts.next() else {
            return Ok(Self(head.to_string()));
        };
        let rest = rest.to_ascii_lowercase();
        if let Some(segment) = rest.split('/').find(|segment| !is_plain_segment(segment)) {
            return Err(wrong(segment));
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

/// Something that plans work on.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Its id.
    pub id: ResourceId,
    /// Its name, unique among resources.
    pub name: ResourceName,
    /// Its type.
    pub type_name: TypeName,
    /// The values of its type's arguments.
    pub properties: Properties,
    /// Where it is: an absolute path, or an address without its password.
    pub location: Option<String>,
    /// What it is, for people.
    pub description: Option<String>,
    /// Whether plans may only read it.
    pub read_only: bool,
    /// Whether discovery found it, rather than a person registering it.
    pub auto_discovered: bool,
    /// What its content was when it was last looked at.
    pub content_hash: Option<ContentHash>,
    /// The version of this row.
    pub version: Version,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Where the sandbox of a resource begins: the resource that is isolated as a whole, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Boundary {
    /// The resource that is isolated.
    pub resource: Resource,
    /// How.
    pub strategy: SandboxStrategy,
}

#[cfg(test)]
mod tests {
    use super::ResourceName;
    use crate::ResourceId;
    use proptest::prelude::*;

    #[test]
    fn a_resource_name_may_have_several_segments() {
        for (text, whole, last) in [
            ("repo", "local/repo", "repo"),
            ("Local/Test-Repo/src", "local/test-repo/src", "src"),
            ("prod:team/api/a/b", "prod:team/api/a/b", "b"),
        ] {
            let name: ResourceName = text.parse().expect("a name");
            assert_eq!((name.as_str(), name.last_segment()), (whole, last));
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
    fn names_for_files_are_names() {
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
        fn a_name_survives_printing(text in "([a-z0-9][a-z0-9_-]{0,8}:)?[a-z0-9][a-z0-9_-]{0,8}(/[a-z0-9][a-z0-9_-]{0,8}){1,4}") {
            let name: ResourceName = text.parse().expect("well formed");
            prop_assert_eq!(name.to_string().parse::<ResourceName>().expect("printed"), name);
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _outcome = text.parse::<ResourceName>();
        }

        #[test]
        fn every_file_name_gives_a_name(text in "\\PC{0,100}") {
            let name = ResourceName::for_file(&text);
            prop_assert_eq!(name.as_str().parse::<ResourceName>().expect("well formed"), name);
        }

        #[test]
        fn ids_of_children_are_the_same_every_time_and_differ(left in "[a-z]{1,8}", right in "[a-z]{1,8}") {
            let parent = ResourceId::generate();
            prop_assert_eq!(parent.child(&left), parent.child(&left));
            prop_assert_eq!(parent.child(&left) == parent.child(&right), left == right);
            prop_assert!(parent.child(&left) != parent);
            prop_assert!(parent.child(&left) != ResourceId::generate().child(&left));
        }
    }
}
