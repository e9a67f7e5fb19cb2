//! [`Capability`]: properties that a tool declares and the gate enforces; [`CapabilityChange`]: an
//! override of them, which can only be stricter.

use serde::{Deserialize, Serialize};

/// Access of a tool to its subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The tool changes nothing.
    Reads,
    /// The tool may change its subjects.
    Writes,
}

/// Environment in which a tool has to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// In the environment of the sandbox.
    #[default]
    Anywhere,
    /// In a container if one is available.
    PreferContainer,
    /// In a container; fails without one.
    RequireContainer,
    /// In this container resource; fails without it.
    Specific(String),
}

/// Properties that a tool declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent properties, each a field of the user's file"
)]
pub struct Capability {
    /// Access of the tool: reading or writing.
    pub access: Access,
    /// Free text about what the tool may change, such as `database:migrations`.
    pub write_scope: Vec<String>,
    /// Whether a checkpoint can roll back the changes of the tool.
    pub checkpointable: bool,
    /// Scope of the tool's checkpoints, such as `file` or `snapshot`.
    pub checkpoint_scope: Option<String>,
    /// Effects outside the sandbox, as free text such as `network`.
    pub side_effects: Vec<String>,
    /// Whether repeating a call has no further effect.
    pub idempotent: bool,
    /// Whether the tool runs only under a profile that allows unsafe tools.
    pub is_unsafe: bool,
    /// Whether the user must approve each call.
    pub needs_approval: bool,
    /// Required execution environment.
    pub environment: Environment,
}

impl Capability {
    /// Capability of a tool that only reads.
    pub const fn reads() -> Self {
        Self {
            access: Access::Reads,
            write_scope: Vec::new(),
            checkpointable: false,
            checkpoint_scope: None,
            side_effects: Vec::new(),
            idempotent: true,
            is_unsafe: false,
            needs_approval: false,
            environment: Environment::Anywhere,
        }
    }

    /// Capability of a tool whose changes a checkpoint of this scope can roll back.
    pub fn writes(checkpoint_scope: &str) -> Self {
        Self {
            access: Access::Writes,
            checkpointable: true,
            checkpoint_scope: Some(checkpoint_scope.to_owned()),
            idempotent: false,
            ..Self::reads()
        }
    }

    /// Returns whether the access is [`Access::Writes`].
    pub fn is_writing(&self) -> bool {
        self.access == Access::Writes
    }
}

/// Override of a tool's capability by a skill. `None` keeps the tool's value; other values must be stricter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilityChange {
    /// Access of the tool: reading or writing.
    pub access: Option<Access>,
    /// Replaces the free text about what the tool may change.
    pub write_scope: Option<Vec<String>>,
    /// Whether a checkpoint can roll back the changes of the tool.
    pub checkpointable: Option<bool>,
    /// Replaces the scope of the tool's checkpoints.
    pub checkpoint_scope: Option<String>,
    /// Must contain all side effects that the tool declares.
    pub side_effects: Option<Vec<String>>,
    /// Whether repeating a call has no further effect.
    pub idempotent: Option<bool>,
    /// Whether the tool runs only under a profile that allows unsafe tools.
    pub is_unsafe: Option<bool>,
    /// Whether the user must approve each call.
    pub needs_approval: Option<bool>,
    /// Required execution environment.
    pub environment: Option<Environment>,
}

/// An override that would loosen the capability of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an override can only make a tool stricter, but this one {0}")]
pub struct OverrideError(pub &'static str);

impl CapabilityChange {
    /// Applies the override to the capability of a tool.
    pub fn apply(&self, base: &Capability) -> Result<Capability, OverrideError> {
        let enables = |change: Option<bool>, base: bool| change == Some(true) && !base;
        let disables = |change: Option<bool>, base: bool| change == Some(false) && base;
        let mut changed = base.clone();
        match (base.access, self.access) {
            (Access::Writes, Some(Access::Reads)) => {
                return Err(OverrideError("declares a writing tool read-only"));
            }
            (Access::Reads, Some(Access::Writes)) => {
                changed.access = Access::Writes;
                changed.checkpointable = true;
                changed.idempotent = false;
            }
            _ => {}
        }
        if enables(self.checkpointable, changed.checkpointable) {
            return Err(OverrideError(
                "declares a tool checkpointable, although it is not",
            ));
        }
        if enables(self.idempotent, changed.idempotent) {
            return Err(OverrideError(
                "declares a tool idempotent, although it is not",
            ));
        }
        if disables(self.is_unsafe, base.is_unsafe) {
            return Err(OverrideError("declares an unsafe tool safe"));
        }
        if disables(self.needs_approval, base.needs_approval) {
            return Err(OverrideError("removes an approval that the tool requires"));
        }
        let set = |field: &mut bool, change: Option<bool>| *field = change.unwrap_or(*field);
        set(&mut changed.checkpointable, self.checkpointable);
        set(&mut changed.idempotent, self.idempotent);
        set(&mut changed.is_unsafe, self.is_unsafe);
        set(&mut changed.needs_approval, self.needs_approval);
        if let Some(effects) = &self.side_effects {
            if base
                .side_effects
                .iter()
                .any(|effect| !effects.contains(effect))
            {
                return Err(OverrideError("removes a side effect of the tool"));
            }
            changed.side_effects.clone_from(effects);
        }
        if let Some(environment) = &self.environment {
            if base.environment != Environment::Anywhere && base.environment != *environment {
                return Err(OverrideError(
                    "changes the environment that the tool requires",
                ));
            }
            changed.environment = environment.clone();
        }
        if let Some(scope) = &self.write_scope {
            changed.write_scope.clone_from(scope);
        }
        if let Some(scope) = &self.checkpoint_scope {
            changed.checkpoint_scope = Some(scope.clone());
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Capability, CapabilityChange, Environment};
    use proptest::prelude::*;

    fn capability() -> impl Strategy<Value = Capability> {
        let flags = proptest::array::uniform5(any::<bool>());
        (flags, proptest::option::of("[ab]")).prop_map(|(flags, effect)| Capability {
            access: if flags[0] {
                Access::Writes
            } else {
                Access::Reads
            },
            checkpointable: flags[1],
            idempotent: flags[2],
            is_unsafe: flags[3],
            needs_approval: flags[4],
            side_effects: effect.into_iter().collect(),
            ..Capability::reads()
        })
    }

    fn change() -> impl Strategy<Value = CapabilityChange> {
        let flags = proptest::array::uniform5(any::<Option<bool>>());
        (
            flags,
            proptest::option::of(proptest::collection::vec("[ab]", 0..2)),
        )
            .prop_map(|(flags, side_effects)| CapabilityChange {
                access: flags[0].map(|writes| {
                    if writes {
                        Access::Writes
                    } else {
                        Access::Reads
                    }
                }),
                checkpointable: flags[1],
                idempotent: flags[2],
                is_unsafe: flags[3],
                needs_approval: flags[4],
                side_effects,
                ..CapabilityChange::default()
            })
    }

    proptest! {
        #[test]
        fn overrides_never_loosen_a_capability(base in capability(), change in change()) {
            if let Ok(changed) = change.apply(&base) {
                prop_assert!(changed.is_writing() || !base.is_writing());
                prop_assert!(changed.is_unsafe || !base.is_unsafe);
                prop_assert!(changed.needs_approval || !base.needs_approval);
                prop_assert!(base.side_effects.iter().all(|effect| changed.side_effects.contains(effect)));
                if base.is_writing() {
                    prop_assert!(base.checkpointable || !changed.checkpointable);
                    prop_assert!(base.idempotent || !changed.idempotent);
                }
            }
        }

        #[test]
        fn an_empty_override_changes_nothing(base in capability()) {
            prop_assert_eq!(CapabilityChange::default().apply(&base).expect("allowed"), base);
        }
    }

    #[test]
    fn an_override_cannot_remove_a_required_container() {
        let base = Capability {
            environment: Environment::RequireContainer,
            ..Capability::reads()
        };
        let change = CapabilityChange {
            environment: Some(Environment::Anywhere),
            ..CapabilityChange::default()
        };
        assert!(change.apply(&base).is_err());
    }
}
