//! Projects: a named scope that links resources and carries the rules for plans that work on them.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::invariant::{MAX_TEXT_LENGTH, checked_text};
use crate::name::is_plain_segment;
use crate::resource::Resource;
use crate::{ActorName, Name, ProjectId, ResourceId, Timestamp, TypeName, Version};

const MAX_TAG_LENGTH: usize = 64;

/// Invalid part of a project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectPartError {
    /// The alias is not a segment of a name.
    #[error("`{0}` is not an alias: letters, digits, `_` or `-`, beginning with a letter or digit")]
    Alias(String),
    /// The tag is empty, too long, or more than one line.
    #[error("`{0}` is not a tag: one line of at most {MAX_TAG_LENGTH} characters")]
    Tag(String),
    /// The invariant is not a valid sentence.
    #[error(
        "an invariant must not be empty, contain a hidden character or exceed {MAX_TEXT_LENGTH} characters"
    )]
    Invariant,
    /// A value occurs twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// The profile name is neither a bare word nor one with a namespace.
    #[error("`{0}` is not the name of an automation profile")]
    Profile(String),
}

/// Name of a resource inside one project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alias(String);

impl Alias {
    /// The alias as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Default alias of a resource: the last segment of its name, with a number appended when it is
    /// taken.
    pub fn for_resource(resource: &Resource, is_taken: impl Fn(&str) -> bool) -> Self {
        let plain = resource.name.last_segment();
        let mut alias = plain.to_owned();
        let mut number = 2_u64;
        while is_taken(&alias) {
            alias = format!("{plain}-{number}");
            number += 1;
        }
        Self(alias)
    }
}

impl FromStr for Alias {
    type Err = ProjectPartError;

    fn from_str(text: &str) -> Result<Self, ProjectPartError> {
        let lower = text.to_ascii_lowercase();
        if is_plain_segment(&lower) {
            Ok(Self(lower))
        } else {
            Err(ProjectPartError::Alias(text.to_owned()))
        }
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for Alias {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Alias {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A resource linked to a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectLink {
    /// Linked resource.
    pub resource: ResourceId,
    /// Name of the resource in the project.
    pub alias: Alias,
    /// Whether plans of the project may only read the resource.
    pub read_only: bool,
}

/// Settings of a project, besides its name and its links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProjectRules {
    /// Description for users.
    pub description: Option<String>,
    /// Search terms.
    pub tags: Vec<String>,
    /// Invariants that every plan of the project must keep.
    pub invariants: Vec<String>,
    /// Actor that reconciles invariants.
    pub invariant_actor: Option<ActorName>,
    /// Automation profile of plans of the project.
    pub automation_profile: Option<String>,
}

impl ProjectRules {
    /// Validates every part and returns the settings in their stored form.
    pub fn checked(mut self) -> Result<Self, ProjectPartError> {
        for tag in &mut self.tags {
            let trimmed = tag.trim();
            let length = trimmed.chars().count();
            if length == 0 || length > MAX_TAG_LENGTH || trimmed.chars().any(char::is_control) {
                return Err(ProjectPartError::Tag(tag.clone()));
            }
            *tag = trimmed.to_owned();
        }
        for invariant in &mut self.invariants {
            *invariant = checked_text(invariant).map_err(|_| ProjectPartError::Invariant)?;
        }
        for list in [&self.tags, &self.invariants] {
            let mut seen = HashSet::new();
            if let Some(duplicate) = list.iter().find(|entry| !seen.insert(*entry)) {
                return Err(ProjectPartError::Twice(duplicate.clone()));
            }
        }
        // Profiles are named like types: built-in ones by a bare word.
        if let Some(profile) = &mut self.automation_profile {
            let name: TypeName = profile
                .parse()
                .map_err(|_| ProjectPartError::Profile(profile.clone()))?;
            *profile = name.to_string();
        }
        Ok(self)
    }
}

/// A named scope of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: ProjectId,
    /// Name, unique among projects.
    pub name: Name,
    /// Settings of the project.
    pub rules: ProjectRules,
    /// Linked resources, by alias.
    pub links: Vec<ProjectLink>,
    /// Version of the row.
    pub version: Version,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change, links included.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::{Alias, ProjectPartError, ProjectRules};
    use proptest::prelude::*;

    #[test]
    fn an_alias_is_one_segment() {
        assert_eq!("API".parse::<Alias>().expect("an alias").as_str(), "api");
        for text in ["", "a/b", "a b", "-x", "é"] {
            assert_eq!(
                text.parse::<Alias>(),
                Err(ProjectPartError::Alias(text.to_owned()))
            );
        }
    }

    #[test]
    fn invalid_parts_are_refused() {
        let rules = |tag: &str, invariant: &str| ProjectRules {
            tags: vec![tag.to_owned()],
            invariants: vec![invariant.to_owned()],
            ..ProjectRules::default()
        };
        assert!(rules("web", "keep it").checked().is_ok());
        assert!(rules("", "keep it").checked().is_err());
        assert!(rules("a\nb", "keep it").checked().is_err());
        assert_eq!(
            rules("web", " ").checked(),
            Err(ProjectPartError::Invariant)
        );
        let duplicate = ProjectRules {
            tags: vec!["a".to_owned(), " a".to_owned()],
            ..ProjectRules::default()
        };
        assert_eq!(
            duplicate.checked(),
            Err(ProjectPartError::Twice("a".to_owned()))
        );
        let profile = |text: &str| ProjectRules {
            automation_profile: Some(text.to_owned()),
            ..ProjectRules::default()
        };
        assert!(profile("supervised").checked().is_ok());
        assert!(profile("team/own").checked().is_ok());
        assert!(profile("no such thing").checked().is_err());
    }

    proptest! {
        #[test]
        fn checking_is_idempotent(tags in proptest::collection::vec("\\PC{0,20}", 0..4), invariants in proptest::collection::vec("\\PC{0,20}", 0..4)) {
            let rules = ProjectRules { tags, invariants, ..ProjectRules::default() };
            if let Ok(checked) = rules.checked() {
                prop_assert_eq!(checked.clone().checked(), Ok(checked));
            }
        }
    }
}
