//! Registers, lists and removes resource types.

use cleveragents_domain::{InheritedType, ResourceKind, ResourceType, TypeName};
use cleveragents_store::{resource_types, resources};

use super::add::Outcome;
use super::error::ResourceError;
use super::registry::TypeRegistry;
use super::service::{Register, ResourceService};
use super::yaml;

#[derive(Debug, Clone)]
pub struct RegisteredType {
    /// The type with everything it inherits.
    pub inherited: InheritedType,
    /// Whether the type was created, updated or unchanged.
    pub outcome: Outcome,
}

impl ResourceService {
    /// Snapshot of all types.
    pub fn types(&self) -> Result<TypeRegistry, ResourceError> {
        Ok(self.engine.read(|reader| TypeRegistry::load(reader))?)
    }

    /// Returns the type with this name, including everything it inherits. The user may omit the namespace `local`.
    pub fn show_type(&self, reference: &str) -> Result<InheritedType, ResourceError> {
        self.types()?.resolve(reference)
    }

    /// Registers the type that a YAML text describes. `variables` returns the values of `${NAME}`.
    pub fn add_type(
        &self,
        text: &str,
        variables: &dyn Fn(&str) -> Option<String>,
        register: Register,
    ) -> Result<RegisteredType, ResourceError> {
        let written = yaml::read(text, variables)?;
        let name = written.declared.name.clone();
        let is_built_in_name = [name.clone(), without_namespace(&name)]
            .iter()
            .any(|name| ResourceType::find_built_in(name).is_some());
        if is_built_in_name {
            return Err(ResourceError::BuiltIn(name.last_segment().to_owned()));
        }
        name.require_free_namespace()?;
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let registry = TypeRegistry::load(unit)?;
            let declared = complete(&written, &registry)?;
            let existing = registry.find(&declared.name).cloned();
            if existing.is_some() && register == Register::New {
                return Err(ResourceError::TypeExists(declared.name.to_string()));
            }
            let users = resource_types::users(unit, &declared.name)?;
            if let Some(existing) = &existing
                && existing.kind != declared.kind
                && !users.is_empty()
            {
                return Err(ResourceError::TypeInUse {
                    name: declared.name.to_string(),
                    resources: users.resources,
                    subtypes: users.subtypes,
                });
            }
            let registry = registry.with(declared.clone());
            check_all(&registry, &declared)?;
            let outcome = match existing {
                None => {
                    resource_types::insert(unit, &declared)?;
                    Outcome::Created
                }
                Some(existing) if existing == declared => Outcome::Unchanged,
                Some(_) => {
                    resource_types::update(unit, &declared)?;
                    Outcome::Updated
                }
            };
            let inherited = TypeRegistry::load(unit)?.inherited(&declared.name)?;
            Ok(RegisteredType { inherited, outcome })
        })
    }

    /// Removes a registered type that nothing refers to.
    pub fn remove_type(&self, reference: &str) -> Result<ResourceType, ResourceError> {
        let reference = reference.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let registry = TypeRegistry::load(unit)?;
            let name = registry.name_of(&reference)?;
            let declared = registry
                .find(&name)
                .cloned()
                .filter(|declared| !declared.is_built_in())
                .ok_or_else(|| ResourceError::BuiltIn(name.to_string()))?;
            let users = resource_types::users(unit, &name)?;
            if !users.is_empty() {
                return Err(ResourceError::TypeInUse {
                    name: name.to_string(),
                    resources: users.resources,
                    subtypes: users.subtypes,
                });
            }
            resource_types::delete(unit, &name)?;
            Ok(declared)
        })
    }
}

fn without_namespace(name: &TypeName) -> TypeName {
    name.last_segment().parse().unwrap_or_else(|_| name.clone())
}

/// Adds the namespace to all names, and sets the inherited kind if the text names none.
fn complete(
    written: &yaml::ParsedType,
    registry: &TypeRegistry,
) -> Result<ResourceType, ResourceError> {
    let mut declared = written.declared.clone();
    declared.name = declared.name.in_local();
    let full_name = |name: &TypeName| match ResourceType::find_built_in(name) {
        Some(_) => name.clone(),
        None => name.in_local(),
    };
    declared.inherits = declared.inherits.as_ref().map(full_name);
    for name in &mut declared.parent_types {
        *name = full_name(name);
    }
    for child in &mut declared.child_types {
        child.name = full_name(&child.name);
    }
    if let Some(discovery) = &mut declared.auto_discovery {
        for name in &mut discovery.parent_types {
            *name = full_name(name);
        }
    }
    if let Some(parent) = &declared.inherits
        && !written.has_kind
    {
        declared.kind = registry.inherited(parent)?.whole.kind;
        if !written.has_user_addable {
            declared.user_addable = declared.kind == ResourceKind::Physical;
        }
    }
    Ok(declared)
}

/// Validates a new definition, and every type that inherits from it.
fn check_all(registry: &TypeRegistry, declared: &ResourceType) -> Result<(), ResourceError> {
    let is_unknown = |name: &&TypeName| registry.find(name).is_none();
    let related = declared.parent_types.iter().chain(
        declared
            .auto_discovery
            .iter()
            .flat_map(|found| &found.parent_types),
    );
    if let Some(unknown) = related.into_iter().find(is_unknown) {
        return Err(ResourceError::TypeNotFound {
            name: unknown.to_string(),
            nearest: None,
        });
    }
    for kind in registry.custom() {
        let inherited = registry.inherited(&kind.name)?;
        if inherited.is_a(&declared.name) {
            inherited
                .whole
                .check_whole()
                .map_err(|rule| ResourceError::Rule {
                    name: kind.name.to_string(),
                    rule,
                })?;
        }
    }
    Ok(())
}
