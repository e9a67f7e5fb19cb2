//! Registers resources and the resources discovered below them in one unit of work.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cleveragents_domain::{
    Properties, Resource, ResourceId, ResourceName, Timestamp, TypeName, Version,
};
use cleveragents_store::resources::{Link, LinkResult};
use cleveragents_store::{Reader, UnitOfWork, resources};

use super::arguments::{self, ValidatedArguments};
use super::discovery::{self, DiscoveredResource, DiscoveryResult};
use super::error::ResourceError;
use super::service::{Register, ResourceService, delete_all, holders, with_discovered};

/// A resource to register, as given by the user.
#[derive(Debug, Clone, Default)]
pub struct NewResource {
    pub type_name: String,
    /// Name of the resource; the default namespace is `local`.
    pub name: String,
    /// Values for the arguments of the type, by argument name.
    pub values: BTreeMap<String, String>,
    /// Description for users.
    pub description: Option<String>,
    /// Whether plans may only read the resource.
    pub read_only: bool,
    /// The folder that relative paths start from.
    pub base: PathBuf,
}

/// Outcome of a registration.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Created,
    /// The object existed and was changed.
    Updated,
    /// The object existed and did not change.
    Unchanged,
}

#[derive(Debug, Clone)]
pub struct RegisteredResource {
    /// Stored row.
    pub resource: Resource,
    /// Whether the resource was created, updated or unchanged.
    pub outcome: Outcome,
    /// Resources discovered below the resource.
    pub discovered: Vec<Resource>,
    /// Discovered resources that no longer exist and were removed.
    pub removed: Vec<Resource>,
    /// Paths that could not be inspected, and resources that could not be removed.
    pub warnings: Vec<String>,
}

/// A validated resource and the resources discovered below it, ready to be stored.
#[derive(Debug, Clone)]
pub(super) struct ResourceDraft {
    pub(super) type_name: TypeName,
    pub(super) checked: ValidatedArguments,
    pub(super) description: Option<String>,
    pub(super) read_only: bool,
    pub(super) findings: DiscoveryResult,
}

impl ResourceDraft {
    /// A row that is not stored yet. The unit of work sets version and times.
    fn row(&self, id: ResourceId, name: ResourceName) -> Resource {
        Resource {
            id,
            name,
            type_name: self.type_name.clone(),
            properties: self.checked.properties.clone(),
            location: self.checked.location.clone(),
            description: self.description.clone(),
            read_only: self.read_only,
            auto_discovered: false,
            content_hash: None,
            version: Version(1),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        }
    }
}

impl ResourceService {
    /// Registers a resource and the resources discovered below it.
    pub fn add(
        &self,
        new: &NewResource,
        register: Register,
    ) -> Result<RegisteredResource, ResourceError> {
        let name: ResourceName = new.name.parse()?;
        name.require_free_namespace()?;
        let prepared = self.prepare(new)?;
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            match resources::with_name(unit, &name)? {
                None => {
                    let row = prepared.row(ResourceId::generate(), name.clone());
                    store_new(unit, &row, &prepared.findings)
                }
                Some(existing) => replace(unit, &existing, &prepared, register),
            }
        })
    }

    /// Validates the input and inspects the files, before anything is written.
    pub(super) fn prepare(&self, new: &NewResource) -> Result<ResourceDraft, ResourceError> {
        let types = self.types()?;
        let kind = types.resolve(&new.type_name)?;
        if !kind.whole.user_addable {
            return Err(ResourceError::NotAddable(kind.whole.name.to_string()));
        }
        let checked = arguments::check(&kind, &new.values, &new.base)?;
        let findings = discovery::look(&kind, &checked, &types)?;
        Ok(ResourceDraft {
            type_name: kind.whole.name,
            checked,
            description: new.description.clone(),
            read_only: new.read_only,
            findings,
        })
    }
}

/// Stores a resource under an unused name, and the resources discovered below it.
pub(super) fn store_new(
    unit: &mut UnitOfWork<'_>,
    row: &Resource,
    findings: &DiscoveryResult,
) -> Result<RegisteredResource, ResourceError> {
    resources::insert(unit, row)?;
    finish(unit, row.id, Outcome::Created, findings)
}

/// Stores a new resource under the first free name of `name`, `name-2`, `name-3`…
pub(super) fn store_under_free_name(
    unit: &mut UnitOfWork<'_>,
    prepared: &ResourceDraft,
    name: &ResourceName,
) -> Result<RegisteredResource, ResourceError> {
    let name = free_name(unit, name)?;
    let row = prepared.row(ResourceId::generate(), name);
    store_new(unit, &row, &prepared.findings)
}

fn replace(
    unit: &mut UnitOfWork<'_>,
    existing: &Resource,
    prepared: &ResourceDraft,
    register: Register,
) -> Result<RegisteredResource, ResourceError> {
    let is_same_kind = existing.type_name == prepared.type_name && !existing.auto_discovered;
    if register == Register::New || !is_same_kind {
        return Err(ResourceError::Exists {
            name: existing.name.to_string(),
            type_name: existing.type_name.to_string(),
        });
    }
    let id = existing.id;
    let new_row = Resource {
        content_hash: existing.content_hash,
        version: existing.version,
        created_at: existing.created_at,
        updated_at: existing.updated_at,
        ..prepared.row(id, existing.name.clone())
    };
    let outcome = if new_row == *existing {
        Outcome::Unchanged
    } else {
        resources::update(unit, &new_row)?;
        Outcome::Updated
    };
    finish(unit, id, outcome, &prepared.findings)
}

/// The first free name of `name`, `name-2`, `name-3`…
fn free_name(reader: &mut dyn Reader, name: &ResourceName) -> Result<ResourceName, ResourceError> {
    let mut candidate = name.clone();
    let mut number = 2;
    while resources::with_name(reader, &candidate)?.is_some() {
        candidate = name.numbered(number)?;
        number += 1;
    }
    Ok(candidate)
}

/// Updates the discovered resources below a resource, and returns the stored rows.
fn finish(
    unit: &mut UnitOfWork<'_>,
    id: ResourceId,
    outcome: Outcome,
    findings: &DiscoveryResult,
) -> Result<RegisteredResource, ResourceError> {
    let missing = || ResourceError::NotFound(id.to_string());
    let resource = resources::get(unit, id)?.ok_or_else(missing)?;
    let mut warnings = findings.warnings.clone();
    let before = resources::children(unit, id)?;
    for found in &findings.found {
        store_discovered(unit, &resource, found)?;
    }
    let mut removed = Vec::new();
    for old in before.into_iter().filter(|child| child.auto_discovered) {
        let child = old.resource;
        if findings
            .found
            .iter()
            .any(|found| id.child(&found.key) == child.id)
        {
            continue;
        }
        let obsolete = with_discovered(unit, child.clone())?;
        if holders(unit, &obsolete)?.is_empty() {
            delete_all(unit, &obsolete)?;
            removed.extend(obsolete);
        } else {
            warnings.push(format!(
                "{} no longer exists, but is still in use; it was kept",
                child.name
            ));
        }
    }
    let discovered = resources::children(unit, id)?
        .into_iter()
        .filter(|child| child.auto_discovered)
        .map(|child| child.resource)
        .collect();
    Ok(RegisteredResource {
        resource,
        outcome,
        discovered,
        removed,
        warnings,
    })
}

/// Stores or updates a discovered resource. Its id depends only on the parent and the key, so the
/// next discovery updates the same row.
fn store_discovered(
    unit: &mut UnitOfWork<'_>,
    parent: &Resource,
    found: &DiscoveredResource,
) -> Result<(), ResourceError> {
    let id = parent.id.child(&found.key);
    if let Some(existing) = resources::get(unit, id)? {
        let location = Some(found.location.clone());
        if existing.location != location || existing.properties != found.properties {
            resources::update(
                unit,
                &Resource {
                    location,
                    properties: found.properties.clone(),
                    ..existing
                },
            )?;
        }
        return Ok(());
    }
    let name = free_name(unit, &parent.name.child_name(&found.segment)?)?;
    resources::insert(unit, &discovered_row(id, name, found))?;
    let link = Link {
        parent: parent.id,
        child: id,
        auto_discovered: true,
    };
    match resources::link(unit, link)? {
        LinkResult::Made | LinkResult::Present => Ok(()),
        LinkResult::Circle => Err(ResourceError::Circle {
            parent: parent.name.to_string(),
            child: found.segment.clone(),
        }),
    }
}

fn discovered_row(id: ResourceId, name: ResourceName, found: &DiscoveredResource) -> Resource {
    Resource {
        id,
        name,
        type_name: found.type_name.clone(),
        properties: Properties::clone(&found.properties),
        location: Some(found.location.clone()),
        description: None,
        read_only: false,
        auto_discovered: true,
        content_hash: None,
        version: Version(1),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}
