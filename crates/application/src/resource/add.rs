//! Registering resources, with what discovery finds below them, in one unit of work.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cleveragents_domain::{
    Properties, Resource, ResourceId, ResourceName, Timestamp, TypeName, Version,
};
use cleveragents_store::resources::{Link, Linking};
use cleveragents_store::{Reader, UnitOfWork, resources};

use super::arguments::{self, Checked};
use super::discovery::{self, Findings, Found};
use super::error::ResourceError;
use super::service::{Register, ResourceService, delete_all, holders, with_discovered};

/// What a person says about a resource.
#[derive(Debug, Clone, Default)]
pub struct NewResource {
    /// Its type.
    pub type_name: String,
    /// Its name; without a namespace it is in `local/`.
    pub name: String,
    /// The values of its type's arguments, by name.
    pub values: BTreeMap<String, String>,
    /// What it is, for people.
    pub description: Option<String>,
    /// Whether plans may only read it.
    pub read_only: bool,
    /// The folder that relative paths start from.
    pub base: PathBuf,
}

/// What became of something that was registered.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is new.
    Created,
    /// It was known and differs now.
    Updated,
    /// It was known just so.
    Unchanged,
}

/// A resource that was registered.
#[derive(Debug, Clone)]
pub struct Registered {
    /// The resource as it is stored.
    pub resource: Resource,
    /// What became of it.
    pub outcome: Outcome,
    /// What lies below it by discovery.
    pub discovered: Vec<Resource>,
    /// What was discovered before and is gone.
    pub removed: Vec<Resource>,
    /// What could not be looked at, or not be removed.
    pub warnings: Vec<String>,
}

/// A resource that was checked and looked into, ready to be stored.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) type_name: TypeName,
    pub(super) checked: Checked,
    pub(super) description: Option<String>,
    pub(super) read_only: bool,
    pub(super) findings: Findings,
}

impl Prepared {
    /// A row that is not stored yet. The unit sets version and times.
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
    /// Registers a resource and what lies below it.
    pub fn add(&self, new: &NewResource, register: Register) -> Result<Registered, ResourceError> {
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
                Some(present) => replace(unit, &present, &prepared, register),
            }
        })
    }

    /// Checks what was given and looks at the files, before anything is written.
    pub(super) fn prepare(&self, new: &NewResource) -> Result<Prepared, ResourceError> {
        let types = self.types()?;
        let kind = types.resolve(&new.type_name)?;
        if !kind.whole.user_addable {
            return Err(ResourceError::NotAddable(kind.whole.name.to_string()));
        }
        let checked = arguments::check(&kind, &new.values, &new.base)?;
        let findings = discovery::look(&kind, &checked, &types)?;
        Ok(Prepared {
            type_name: kind.whole.name,
            checked,
            description: new.description.clone(),
            read_only: new.read_only,
            findings,
        })
    }
}

/// Stores a resource under a name that is free, and what was found below it.
pub(super) fn store_new(
    unit: &mut UnitOfWork<'_>,
    row: &Resource,
    findings: &Findings,
) -> Result<Registered, ResourceError> {
    resources::insert(unit, row)?;
    finish(unit, row.id, Outcome::Created, findings)
}

/// Stores a new resource under the first free name of `name`, `name-2`, `name-3`…
pub(super) fn store_under_free_name(
    unit: &mut UnitOfWork<'_>,
    prepared: &Prepared,
    name: &ResourceName,
) -> Result<Registered, ResourceError> {
    let name = free_name(unit, name)?;
    let row = prepared.row(ResourceId::generate(), name);
    store_new(unit, &row, &prepared.findings)
}

fn replace(
    unit: &mut UnitOfWork<'_>,
    present: &Resource,
    prepared: &Prepared,
    register: Register,
) -> Result<Registered, ResourceError> {
    let is_same_kind = present.type_name == prepared.type_name && !present.auto_discovered;
    if register == Register::New || !is_same_kind {
        return Err(ResourceError::Exists {
            name: present.name.to_string(),
            type_name: present.type_name.to_string(),
        });
    }
    let id = present.id;
    let wanted = Resource {
        content_hash: present.content_hash,
        version: present.version,
        created_at: present.created_at,
        updated_at: present.updated_at,
        ..prepared.row(id, present.name.clone())
    };
    let outcome = if wanted == *present {
        Outcome::Unchanged
    } else {
        resources::update(unit, &wanted)?;
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

/// Brings what lies below a resource in line with what was found, and reads everything back.
fn finish(
    unit: &mut UnitOfWork<'_>,
    id: ResourceId,
    outcome: Outcome,
    findings: &Findings,
) -> Result<Registered, ResourceError> {
    let missing = || ResourceError::NotFound(id.to_string());
    let resource = resources::get(unit, id)?.ok_or_else(missing)?;
    let mut warnings = findings.warnings.clone();
    let before = resources::children(unit, id)?;
    for found in &findings.found {
        take_in(unit, &resource, found)?;
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
        let doomed = with_discovered(unit, child.clone())?;
        if holders(unit, &doomed)?.is_empty() {
            delete_all(unit, &doomed)?;
            removed.extend(doomed);
        } else {
            warnings.push(format!(
                "{} is gone, but still in use; it was kept",
                child.name
            ));
        }
    }
    let discovered = resources::children(unit, id)?
        .into_iter()
        .filter(|child| child.auto_discovered)
        .map(|child| child.resource)
        .collect();
    Ok(Registered {
        resource,
        outcome,
        discovered,
        removed,
        warnings,
    })
}

/// Stores something that was found, or what changed about it. Its id depends on the parent and the
/// key alone, so finding it again finds the same row.
fn take_in(
    unit: &mut UnitOfWork<'_>,
    parent: &Resource,
    found: &Found,
) -> Result<(), ResourceError> {
    let id = parent.id.child(&found.key);
    if let Some(present) = resources::get(unit, id)? {
        let location = Some(found.location.clone());
        if present.location != location || present.properties != found.properties {
            resources::update(
                unit,
                &Resource {
                    location,
                    properties: found.properties.clone(),
                    ..present
                },
            )?;
        }
        return Ok(());
    }
    let name = free_name(unit, &parent.name.below(&found.segment)?)?;
    resources::insert(unit, &discovered_row(id, name, found))?;
    let link = Link {
        parent: parent.id,
        child: id,
        auto_discovered: true,
    };
    match resources::link(unit, link)? {
        Linking::Made | Linking::Present => Ok(()),
        Linking::Circle => Err(ResourceError::Circle {
            parent: parent.name.to_string(),
            child: found.segment.clone(),
        }),
    }
}

fn discovered_row(id: ResourceId, name: ResourceName, found: &Found) -> Resource {
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
