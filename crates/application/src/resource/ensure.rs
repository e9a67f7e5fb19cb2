//! Finds the registered resource of a path, or registers a new one.

use std::collections::BTreeMap;
use std::path::Path;

use cleveragents_domain::{Resource, ResourceName};
use cleveragents_store::{Reader, resources};

use super::add::{NewResource, store_under_free_name};
use super::arguments::{canonical, is_a, is_sqlite, repository};
use super::error::ResourceError;
use super::registry::TypeRegistry;
use super::service::ResourceService;

/// The built-in types whose resources can represent a path.
const PATH_TYPES: [&str; 5] = [
    "git-checkout",
    "fs-directory",
    "fs-mount",
    "fs-file",
    "sqlite",
];

impl ResourceService {
    /// The registered resource of a path, or a new one: a checkout for the root of a git repository,
    /// an SQLite database, a file or a folder. Its name is `local/` and the name of the folder or
    /// file. Concurrent callers all get the same resource.
    pub fn ensure_path(&self, path: &Path) -> Result<Resource, ResourceError> {
        let path = canonical(path)?;
        let location = path.display().to_string();
        let kind = kind_of(&path)?;
        let existing = self
            .engine
            .read(|reader| registered(reader, &location, kind))?;
        if let Some(existing) = existing {
            return Ok(existing);
        }
        let new = NewResource {
            type_name: kind.to_owned(),
            values: BTreeMap::from([("path".to_owned(), location.clone())]),
            base: path.clone(),
            ..NewResource::default()
        };
        let prepared = self.prepare(&new)?;
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = ResourceName::for_file(&file_name);
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            // Another process may have registered the path while this process inspected the files.
            if let Some(existing) = registered(unit, &location, kind)? {
                return Ok(existing);
            }
            Ok(store_under_free_name(unit, &prepared, &name)?.resource)
        })
    }
}

/// The type that matches a path.
fn kind_of(path: &Path) -> Result<&'static str, ResourceError> {
    if path.is_dir() {
        // Git is run only if the folder may be a repository.
        let may_be_repository = path.join(".git").exists() || path.join("HEAD").is_file();
        return match may_be_repository.then(|| repository(path)) {
            Some(Ok(_)) => Ok("git-checkout"),
            Some(Err(error @ ResourceError::Git(_))) => Err(error),
            Some(Err(_)) | None => Ok("fs-directory"),
        };
    }
    if !path.is_file() {
        return Err(ResourceError::unsuitable(
            path,
            "is neither a file nor a folder",
        ));
    }
    Ok(if is_sqlite(path) { "sqlite" } else { "fs-file" })
}

/// The registered resource of a location: preferably of type `kind`, otherwise the oldest one.
fn registered(
    reader: &mut dyn Reader,
    location: &str,
    kind: &str,
) -> Result<Option<Resource>, ResourceError> {
    let types = TypeRegistry::load(reader)?;
    let mut candidates: Vec<(bool, Resource)> = resources::at_location(reader, location)?
        .into_iter()
        .filter(|resource| !resource.auto_discovered)
        .filter_map(|resource| {
            let inherited = types.inherited(&resource.type_name).ok()?;
            let represents_path = PATH_TYPES.iter().any(|name| is_a(&inherited, name));
            represents_path.then(|| (!is_a(&inherited, kind), resource))
        })
        .collect();
    candidates.sort_by_key(|(is_other, resource)| (*is_other, resource.id));
    Ok(candidates.into_iter().next().map(|(_, resource)| resource))
}
