//! [`Trackers`]: opens the trackers of sources, with tokens from the environment or the keyring.

use std::path::Path;

use cleveragents_models::{Secret, Variables};
use cleveragents_store::item_sources::ItemSource;

use super::error::TrackerError;
use super::forgejo::ForgejoTracker;
use super::github::GitHubTracker;
use super::labels::LabelMapping;
use super::markdown::MarkdownTracker;
use super::types::TrackerKind;
use super::{Tracker, forge_repository};
use crate::forge::{FORGEJO_TOKENS, GITHUB_TOKENS};

/// Opens trackers. Cheap to clone.
#[derive(Clone)]
pub struct Trackers {
    variables: Variables,
}

impl Trackers {
    /// Trackers with tokens that `variables` looks up in the environment and the keyring.
    pub fn new(variables: Variables) -> Self {
        Self { variables }
    }

    /// The tracker of a source. Calls nothing.
    pub fn open(&self, source: &ItemSource) -> Result<Box<dyn Tracker>, TrackerError> {
        let credential = source.credential.as_deref();
        Ok(match source.kind.parse()? {
            TrackerKind::Markdown => Box::new(MarkdownTracker::new(Path::new(&source.address))?),
            TrackerKind::Forgejo => {
                let token = self.token(credential, FORGEJO_TOKENS)?;
                Box::new(ForgejoTracker::new(&source.address, token)?)
            }
            TrackerKind::GitHub => {
                let token = self.token(credential, GITHUB_TOKENS)?;
                let tracker = GitHubTracker::new(&source.address, token, &*self.variables)?;
                Box::new(tracker)
            }
        })
    }

    /// The tracker of a source, with the token of another variable.
    pub(super) fn open_as(
        &self,
        source: &ItemSource,
        credential: &str,
    ) -> Result<Box<dyn Tracker>, TrackerError> {
        self.open(&ItemSource {
            credential: Some(credential.to_owned()),
            ..source.clone()
        })
    }

    fn token(&self, name: Option<&str>, usual: &[&str]) -> Result<Secret, TrackerError> {
        let names: Vec<&str> = match name {
            Some(name) => vec![name],
            None => usual.to_vec(),
        };
        let mut found = names.iter().filter_map(|name| (self.variables)(name));
        let token = found.find(|token| !token.trim().is_empty());
        token.map(Secret::new).ok_or_else(|| {
            TrackerError::NoCredential(names.into_iter().map(str::to_owned).collect())
        })
    }
}

/// The mapping of a source: the usual labels, with the changes of the source.
pub(super) fn mapping_of(source: &ItemSource) -> Result<LabelMapping, TrackerError> {
    let changes: std::collections::BTreeMap<String, String> = serde_json::from_str(&source.labels)
        .map_err(|_| TrackerError::InvalidSource {
            reason: format!("the labels of source `{}` cannot be read", source.name),
        })?;
    let mut mapping = LabelMapping::scoped();
    for (value, label) in &changes {
        mapping.set(value, label)?;
    }
    Ok(mapping)
}

/// Checks the parts of a new source.
pub(super) fn check_source(source: &ItemSource) -> Result<(), TrackerError> {
    let refused = |reason: &str| {
        Err(TrackerError::InvalidSource {
            reason: reason.to_owned(),
        })
    };
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_name = |letter: char| is_plain(letter) || matches!(letter, '-' | '_');
    let starts_well = source.name.chars().next().is_some_and(is_plain);
    if !starts_well || source.name.len() > 64 || !source.name.chars().all(is_name) {
        return refused("the name of a source consists of lowercase letters, digits, `-` and `_`");
    }
    let is_variable = |name: &str| {
        let is_letter =
            |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
        let starts_well = name
            .chars()
            .next()
            .is_some_and(|letter| letter.is_ascii_uppercase());
        starts_well && name.len() <= 64 && name.ends_with("TOKEN") && name.chars().all(is_letter)
    };
    if source
        .credential
        .as_deref()
        .is_some_and(|name| !is_variable(name))
    {
        // The value is not shown: it may be a token.
        return refused("a credential is the name of a variable that ends with `TOKEN`");
    }
    match source.kind.parse()? {
        TrackerKind::Markdown => {
            if source.credential.is_some() {
                return refused("a folder needs no credential");
            }
            MarkdownTracker::new(Path::new(&source.address))?;
        }
        TrackerKind::Forgejo | TrackerKind::GitHub => {
            forge_repository(&source.address)?;
        }
    }
    mapping_of(source).map(|_| ())
}
