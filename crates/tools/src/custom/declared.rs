//! Resolves the resource slots and the capability of a custom tool.

use cleveragents_domain::DefinitionFault;
use cleveragents_domain::yaml::{Expand, Fault};

use serde_saphyr::Spanned;

use super::entries::{Definition, NamedSlot, SlotAccess, SlotEntry};
use super::scalar::{EnvironmentEntry, Texts, UnresolvedValue, resolve};
use crate::capability::{Access, Capability, Environment};
use crate::spec::{Binding, Slot};

impl Definition {
    pub(super) fn slots(&mut self, expand: &Expand<'_>) -> Result<Vec<Slot>, DefinitionFault> {
        let map = self.resources.take().unwrap_or_default();
        let list = match self.resource_slots.take() {
            Some(list) if !map.is_empty() => {
                return Err(DefinitionFault::rule(
                    Fault::at(&list, "`resources` and `resource_slots` cannot both be set"),
                    "remove one of them",
                ));
            }
            Some(list) => list.value,
            None => Vec::new(),
        };
        let named = map.into_iter().map(|(name, entry)| Spanned {
            referenced: entry.referenced,
            defined: entry.defined,
            value: entry.value.named(name),
        });
        let mut slots: Vec<Slot> = Vec::new();
        for mut entry in named.chain(list) {
            let slot = &mut entry.value;
            let texts = [&mut slot.name, &mut slot.r#type].into_iter();
            for text in texts.chain(&mut slot.description).chain(&mut slot.resource) {
                expand.text(text)?;
            }
            if slots.iter().any(|other| other.name == entry.value.name) {
                let message = format!("there are two slots named `{}`", entry.value.name);
                return Err(DefinitionFault::rule(
                    Fault::at(&entry, message),
                    "rename one of them",
                ));
            }
            slots.push(Self::slot(entry)?);
        }
        Ok(slots)
    }

    fn slot(entry: Spanned<NamedSlot>) -> Result<Slot, DefinitionFault> {
        let slot = &entry.value;
        let invalid = |message: String, fix: &str| {
            Err(DefinitionFault::rule(Fault::at(&entry, message), fix))
        };
        let is_word = |name: &str| {
            let legal = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            !name.is_empty() && name.chars().all(legal)
        };
        if !is_word(&slot.name) {
            let message = format!("`{}` cannot be the name of a slot", slot.name);
            return invalid(message, "use letters, digits and `_`");
        }
        let binding = slot.binding.unwrap_or_default();
        if (binding == Binding::Static) != slot.resource.is_some() {
            let name = &slot.name;
            let message =
                format!("the slot `{name}` sets only one of `binding: static` and `resource`");
            return invalid(message, "set both, or neither");
        }
        let slot = entry.value;
        Ok(Slot {
            name: slot.name,
            resource_type: slot.r#type,
            access: match slot.access {
                Some(SlotAccess::ReadWrite) => Access::Writes,
                Some(SlotAccess::ReadOnly) | None => Access::Reads,
            },
            required: slot.required.unwrap_or(true),
            description: slot.description.unwrap_or_default(),
            binding,
            resource: slot.resource,
        })
    }

    pub(super) fn capability(
        &mut self,
        expand: &Expand<'_>,
    ) -> Result<Capability, DefinitionFault> {
        let nested = self.capability.take();
        let place = nested.as_ref().map_or((0, 0), |entry| {
            (entry.referenced.line(), entry.referenced.column())
        });
        let mut nested = nested.map(|entry| entry.value).unwrap_or_default();
        let mut duplicate = None;
        let mut flag = |name: &'static str,
                        top: &mut Option<UnresolvedValue>,
                        inner: &mut Option<UnresolvedValue>| {
            if top.is_some() && inner.is_some() {
                duplicate.get_or_insert(name);
            }
            resolve::<bool>(
                top.take().or_else(|| inner.take()),
                expand,
                "`true` or `false`",
            )
        };
        let read_only_place = self.read_only.clone().or_else(|| nested.read_only.clone());
        let read_only = flag("read_only", &mut self.read_only, &mut nested.read_only)?;
        let writes = flag("writes", &mut self.writes, &mut nested.writes)?;
        let checkpointable = flag(
            "checkpointable",
            &mut self.checkpointable,
            &mut nested.checkpointable,
        )?;
        let idempotent = flag("idempotent", &mut self.idempotent, &mut nested.idempotent)?;
        let is_unsafe = flag("unsafe", &mut self.r#unsafe, &mut nested.r#unsafe)?;
        let approval = &mut self.human_approval_required;
        let needs_approval = flag(
            "human_approval_required",
            approval,
            &mut nested.human_approval_required,
        )?;
        if let Some(name) = duplicate {
            let fault = Fault {
                message: format!("`{name}` is set at the top level and in `capability`"),
                place: Some(place),
                nearest: None,
                fix: None,
            };
            return Err(DefinitionFault::rule(fault, "remove one of them"));
        }
        let access = match (read_only, writes) {
            (Some(true), Some(true)) => {
                let message = "the tool is declared both read_only and writing";
                let fault = match &read_only_place {
                    Some(place) => Fault::at(place, message),
                    None => Fault::at(&self.name, message),
                };
                return Err(DefinitionFault::rule(fault, "remove one of them"));
            }
            (Some(true), _) | (_, Some(false)) => Access::Reads,
            // Without a declaration, assume that the tool writes.
            _ => Access::Writes,
        };
        let mut capability = Capability {
            access,
            write_scope: texts(self.write_scope.take(), nested.write_scope),
            checkpointable: checkpointable.unwrap_or(access == Access::Writes),
            checkpoint_scope: self.checkpoint_scope.take().or(nested.checkpoint_scope),
            side_effects: texts(self.side_effects.take(), nested.side_effects),
            idempotent: idempotent.unwrap_or(access == Access::Reads),
            is_unsafe: is_unsafe.unwrap_or(false),
            needs_approval: needs_approval.unwrap_or(false),
            environment: self.environment(nested.environment)?,
        };
        let specific = match &mut capability.environment {
            Environment::Specific(name) => Some(name),
            _ => None,
        };
        let words = capability
            .write_scope
            .iter_mut()
            .chain(&mut capability.side_effects)
            .chain(&mut capability.checkpoint_scope)
            .chain(specific);
        for word in words {
            expand.text(word)?;
        }
        Ok(capability)
    }

    fn environment(
        &mut self,
        nested: Option<EnvironmentEntry>,
    ) -> Result<Environment, DefinitionFault> {
        let entry = self.environment.take().or(nested);
        match (entry, self.execution_environment.take()) {
            (Some(_), Some(other)) => Err(DefinitionFault::rule(
                Fault::at(
                    &other,
                    "`environment` and `execution_environment` cannot both be set",
                ),
                "remove one of them",
            )),
            (Some(entry), None) => Ok(entry.0),
            (None, Some(entry)) => Ok(entry.value.0),
            (None, None) => Ok(Environment::Anywhere),
        }
    }
}

/// Returns the texts of a field at the top level of the file, or else the texts of the same field in `capability`.
fn texts(top: Option<Texts>, nested: Option<Texts>) -> Vec<String> {
    top.or(nested).unwrap_or_default().0
}

impl SlotEntry {
    /// Converts a slot of the map `resources` to a slot of the list `resource_slots`.
    fn named(self, name: String) -> NamedSlot {
        NamedSlot {
            name,
            r#type: self.r#type,
            access: self.access,
            required: self.required,
            description: self.description,
            binding: self.binding,
            resource: self.resource,
        }
    }
}
