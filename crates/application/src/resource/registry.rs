//! [`TypeRegistry`]: snapshot of all types, built-in and registered, with their inheritance.

use cleveragents_domain::{
    InheritanceError, InheritedType, ResourceType, SandboxStrategy, TypeName, inherit, nearest,
};
use cleveragents_store::{Reader, resource_types};

use super::error::ResourceError;

/// Snapshot of all types.
#[derive(Debug, Clone)]
pub struct TypeRegistry {
    custom: Vec<ResourceType>,
}

impl TypeRegistry {
    /// Loads the registered types.
    pub(super) fn load(reader: &mut dyn Reader) -> Result<Self, cleveragents_store::Error> {
        Ok(Self {
            custom: resource_types::list(reader)?,
        })
    }

    /// Every type: the built-in ones first, then the registered ones by name.
    pub fn all(&self) -> impl Iterator<Item = &ResourceType> {
        ResourceType::built_in().iter().chain(&self.custom)
    }

    /// The declaration of a type, without inherited parts.
    pub fn find(&self, name: &TypeName) -> Option<&ResourceType> {
        self.all().find(|declared| declared.name == *name)
    }

    /// A type with everything it inherits.
    pub fn inherited(&self, name: &TypeName) -> Result<InheritedType, InheritanceError> {
        inherit(name, |ancestor| self.find(ancestor))
    }

    /// Resolves the name of a type as the user enters it; the default namespace is `local`.
    pub fn resolve(&self, reference: &str) -> Result<InheritedType, ResourceError> {
        let name = self.name_of(reference)?;
        Ok(self.inherited(&name)?)
    }

    /// Returns the full name of a type, whose name the user may enter without the namespace `local`.
    pub(super) fn name_of(&self, reference: &str) -> Result<TypeName, ResourceError> {
        let unknown = || ResourceError::TypeNotFound {
            name: reference.to_owned(),
            nearest: self.nearest(reference),
        };
        let name: TypeName = reference.parse().map_err(|_| unknown())?;
        [name.clone(), name.in_local()]
            .into_iter()
            .find(|name| self.find(name).is_some())
            .ok_or_else(unknown)
    }

    /// Whether a type is `ancestor` or inherits from it.
    pub fn is_a(&self, name: &TypeName, ancestor: &TypeName) -> bool {
        self.inherited(name)
            .is_ok_and(|inherited| inherited.is_a(ancestor))
    }

    /// The isolation strategy of a type, its own or an inherited one.
    pub fn strategy(&self, name: &TypeName) -> Option<SandboxStrategy> {
        self.inherited(name).ok()?.whole.sandbox_strategy
    }

    fn nearest(&self, reference: &str) -> Option<String> {
        nearest::best(reference, self.all().map(|declared| declared.name.as_str()))
    }

    /// This registry with a type added or redefined.
    pub(super) fn with(mut self, declared: ResourceType) -> Self {
        self.custom.retain(|known| known.name != declared.name);
        self.custom.push(declared);
        self
    }

    /// The registered types.
    pub(super) fn custom(&self) -> &[ResourceType] {
        &self.custom
    }
}
