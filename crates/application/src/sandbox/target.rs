//! [`Target`]: a resource to copy into a sandbox, isolated at its nearest boundary.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use cleveragents_domain::{Hint, Placeholder, Resource, SandboxStrategy, hint, suggest};
use cleveragents_sandbox::Source;

use super::error::SandboxError;
use crate::project::ProjectTarget;
use crate::resource::ResourceService;

/// A resource to be sandboxed.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name of the part in the sandbox.
    pub alias: String,
    /// Name of the resource.
    pub resource: String,
    /// Name of the isolation strategy.
    pub strategy: String,
    /// Kind of the resource.
    pub source: Source,
    /// Path, or address of a database server.
    pub location: PathBuf,
    /// Whether changes of the part cannot be applied.
    pub is_read_only: bool,
}

impl Target {
    /// Creates a target for the boundary of a resource. `alias` is simplified to a plain folder name.
    pub fn from_resource(
        resources: &ResourceService,
        resource: &Resource,
        alias: &str,
        is_read_only: bool,
    ) -> Result<Self, SandboxError> {
        let boundary = resources.boundary(resource.id)?;
        let cannot = |reason: &str, hint: Option<Hint>| {
            SandboxError::Files(cleveragents_sandbox::Error::CannotSandbox {
                what: format!("resource `{}`", resource.name),
                reason: reason.to_owned(),
                hint,
            })
        };
        let Some(location) = boundary.resource.location.as_deref().map(PathBuf::from) else {
            return Err(cannot("it has no path in the file system", None));
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
                    Some(hint!(
                        "show it with {}, and register it again",
                        suggest::resource_show(Placeholder("RESOURCE"))
                    )),
                ));
            }
            SandboxStrategy::Snapshot => {
                return Err(cannot(
                    "containers are not supported in sandboxes yet",
                    Some("leave it out".into()),
                ));
            }
            SandboxStrategy::None => {
                return Err(cannot("its type has no isolation strategy", None));
            }
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

    /// Creates a target for a path in the file system and registers the path if necessary. A path that
    /// is not UTF-8 is not registered. A path that looks like a repository is treated as a repository,
    /// so that a broken repository is refused instead of copied.
    pub fn at(resources: &ResourceService, path: &Path) -> Result<Self, SandboxError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_text = path
            .to_str()
            .is_some_and(|text| !text.contains(char::is_control));
        let mut target = if is_text {
            let resource = resources.ensure_path(path)?;
            Self::from_resource(resources, &resource, &name, false)?
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

    /// Creates targets for all linked resources of a project. Resources with a common boundary share one
    /// target.
    pub fn of_project(
        resources: &ResourceService,
        links: &[ProjectTarget],
    ) -> Result<Vec<Self>, SandboxError> {
        let mut targets: Vec<Self> = Vec::new();
        let mut target_indexes: HashMap<PathBuf, usize> = HashMap::new();
        for link in links {
            let target = Self::from_resource(
                resources,
                &link.resource,
                &link.alias.to_string(),
                link.read_only,
            )?;
            if let Some(at) = target_indexes.get(&target.location) {
                // The target is writable if at least one of its links is writable.
                targets[*at].is_read_only &= target.is_read_only;
            } else {
                target_indexes.insert(target.location.clone(), targets.len());
                targets.push(target);
            }
        }
        Ok(targets)
    }

    /// Makes the aliases unique.
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

/// Simplifies a name to a plain folder name for a part.
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
