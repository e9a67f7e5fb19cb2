//! What a sandbox is made of: resources, each by its nearest boundary.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use cleveragents_domain::{Resource, SandboxStrategy};
use cleveragents_sandbox::Source;

use super::error::SandboxError;
use crate::project::ProjectTarget;
use crate::resource::ResourceService;

/// A resource to be put into a sandbox.
#[derive(Debug, Clone)]
pub struct Target {
    /// What it is called in the sandbox.
    pub alias: String,
    /// The name of the resource.
    pub resource: String,
    /// How it is isolated, as printed.
    pub strategy: String,
    /// What kind of thing it is.
    pub source: Source,
    /// Where it is.
    pub location: PathBuf,
    /// Whether its changes may never be applied.
    pub is_read_only: bool,
}

impl Target {
    /// A resource, isolated at its boundary. `alias` is made plain.
    pub fn of(
        resources: &ResourceService,
        resource: &Resource,
        alias: &str,
        is_read_only: bool,
    ) -> Result<Self, SandboxError> {
        let boundary = resources.boundary(resource.id)?;
        let cannot = |reason: &str, hint: Option<&str>| {
            SandboxError::Files(cleveragents_sandbox::Error::CannotSandbox {
                what: format!("resource `{}`", resource.name),
                reason: reason.to_owned(),
                hint: hint.map(str::to_owned),
            })
        };
        let Some(location) = boundary.resource.location.as_deref().map(PathBuf::from) else {
            return Err(cannot("it has no place in the file system", None));
        };
        let source = match boundary.strategy.effective() {
            SandboxStrategy::GitWorktree => Source::Git,
            SandboxStrategy::CopyOnWrite
            | SandboxStrategy::FilesystemCopy
            | SandboxStrategy::Overlay => {
                if location.is_dir() {
                    Source::Directory
                } else {
                    Source::File
                }
            }
            SandboxStrategy::TransactionRollback
                if boundary.resource.properties.contains_key("url") =>
            {
                Source::Postgres
            }
            SandboxStrategy::TransactionRollback if location.is_file() => Source::Sqlite,
            SandboxStrategy::TransactionRollback => {
                return Err(cannot(
                    "it is neither an SQLite file nor a PostgreSQL database with an address",
                    Some("look at it with `agents resource show RESOURCE`, and register it again"),
                ));
            }
            SandboxStrategy::Snapshot => {
                return Err(cannot(
                    "containers cannot be worked on in a sandbox yet",
                    Some("leave it out"),
                ));
            }
            SandboxStrategy::None => return Err(cannot("its type isolates nothing", None)),
        };
        Ok(Self {
            alias: plain(alias),
            resource: boundary.resource.name.to_string(),
            strategy: boundary.strategy.as_str().to_owned(),
            source,
            location,
            is_read_only: is_read_only || boundary.resource.read_only || resource.read_only,
        })
    }

    /// Something in the file system, registered if it is not yet. What looks like a repository is
    /// taken for one, so that one that cannot be used is refused instead of copied. A path that is no
    /// plain text is not registered.
    pub fn at(resources: &ResourceService, path: &Path) -> Result<Self, SandboxError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_text = path
            .to_str()
            .is_some_and(|text| !text.contains(char::is_control));
        let mut target = if is_text {
            let resource = resources.ensure_path(path)?;
            Self::of(resources, &resource, &name, false)?
        } else {
            let (source, strategy) = if path.is_dir() {
                (Source::Directory, SandboxStrategy::CopyOnWrite)
            } else {
                (Source::File, SandboxStrategy::CopyOnWrite)
            };
            Self {
                alias: plain(&name),
                resource: path.display().to_string(),
                strategy: strategy.as_str().to_owned(),
                source,
                location: path.to_owned(),
                is_read_only: false,
            }
        };
        if looks_like_a_repository(path) {
            target.source = Source::Git;
            SandboxStrategy::GitWorktree
                .as_str()
                .clone_into(&mut target.strategy);
        }
        Ok(target)
    }

    /// All that a project links; what shares a boundary is one.
    pub fn of_project(
        resources: &ResourceService,
        links: &[ProjectTarget],
    ) -> Result<Vec<Self>, SandboxError> {
        let mut targets: Vec<Self> = Vec::new();
        let mut places: HashMap<PathBuf, usize> = HashMap::new();
        for link in links {
            let target = Self::of(
                resources,
                &link.resource,
                &link.alias.to_string(),
                link.read_only,
            )?;
            if let Some(at) = places.get(&target.location) {
                // One of the links allows writing, so the files may be written.
                targets[*at].is_read_only &= target.is_read_only;
            } else {
                places.insert(target.location.clone(), targets.len());
                targets.push(target);
            }
        }
        Ok(targets)
    }

    /// Gives every part a name of its own.
    pub fn make_distinct(targets: &mut [Self]) {
        let mut names = HashSet::new();
        for target in targets {
            let first = target.alias.clone();
            let mut count = 1;
            while !names.insert(target.alias.clone()) {
                count += 1;
                target.alias = format!("{first}-{count}");
            }
        }
    }
}

fn looks_like_a_repository(path: &Path) -> bool {
    let is_bare = || {
        ["objects", "refs"]
            .iter()
            .all(|name| path.join(name).is_dir())
    };
    path.join(".git").symlink_metadata().is_ok() || (path.join("HEAD").is_file() && is_bare())
}

/// A plain word for the folder of a part.
fn plain(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let word: String = name
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '-' })
        .take(64)
        .collect();
    let word = word.trim_matches(['.', '-']).to_owned();
    if word.is_empty() {
        "part".to_owned()
    } else {
        word
    }
}
