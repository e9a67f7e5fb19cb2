//! [`Capability`]: what a tool declares about itself, on which the gate decides; and
//! [`CapabilityChange`]: what somebody else says of it, which can only be stricter.

use serde::{Deserialize, Serialize};

/// Whether a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It only looks.
    Reads,
    /// It may change what it works on.
    Writes,
}

/// Where a tool has to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// Wherever the sandbox is.
    #[default]
    Anywhere,
    /// In a container where there is one.
    PreferContainer,
    /// In a container, or not at all.
    RequireContainer,
    /// In this container resource, or not at all.
    Specific(String),
}

/// What a tool declares about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent answers, each a field of the user's file"
)]
pub struct Capability {
    /// Whether it changes anything.
    pub access: Access,
    /// What it may change, in its own words, such as `database:migrations`.
    pub write_scope: Vec<String>,
    /// Whether a checkpoint can take its changes back.
    pub checkpointable: bool,
    /// What a checkpoint for it covers, such as `file` or `snapshot`.
    pub checkpoint_scope: Option<String>,
    /// Effects beyond the sandbox, in its own words, such as `network`.
    pub side_effects: Vec<String>,
    /// Whether calling it twice does the same as once.
    pub idempotent: bool,
    /// Whether only a profile that allows unsafe tools may run it.
    pub is_unsafe: bool,
    /// Whether a person must agree to each call.
    pub needs_approval: bool,
    /// Where it has to run.
    pub environment: Environment,
}

impl Capability {
    /// A tool that only looks.
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

    /// A tool whose changes a checkpoint of this scope can take back.
    pub fn writes(checkpoint_scope: &str) -> Self {
        Self {
            access: Access::Writes,
            checkpointable: true,
            checkpoint_scope: Some(checkpoint_scope.to_owned()),
            idempotent: false,
            ..Self::reads()
        }
    }

    /// Whether it may change something.
    pub fn is_writing(&self) -> bool {
        self.access == Access::Writes
    }
}

/// What somebody who offers a tool to a model says of it beyond what it says itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilityChange {
    /// Whether it changes anything.
    pub access: Option<Access>,
    /// What it may change.
    pub write_scope: Option<Vec<String>>,
    /// Whether a checkpoint can take its changes back.
    pub checkpointable: Option<bool>,
    /// What a checkpoint for it covers.
    pub checkpoint_scope: Option<String>,
    /// Effects beyond the sandbox.
    pub side_effects: Option<Vec<String>>,
    /// Whether calling it twice does the same as once.
    pub idempotent: Option<bool>,
    /// Whether only a profile that allows unsafe tools may run it.
    pub is_unsafe: Option<bool>,
    /// Whether a person must agree to each call.
    pub needs_approval: Option<bool>,
    /// Where it has to run.
    pub environment: Option<Environment>,
}

/// A change would open what the tool itself keeps shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an override can only make a tool stricter, and this one {0}")]
pub struct Loosened(pub &'static str);

impl CapabilityChange {
    /// The capability of a tool after the change.
    pub fn apply(&self, base: &Capability) -> Result<Capability, Loosened> {
        let on = |change: Option<bool>, base: bool| change == Some(true) && !base;
        let off = |change: Option<bool>, base: bool| change == Some(false) && base;
        let mut changed = base.clone();
        match (base.access, self.access) {
            (Access::Writes, Some(Access::Reads)) => {
                return Err(Loosened("calls a tool read-only that writes"));
            }
            (Access::Reads, Some(Access::Writes)) => {
                changed.access = Access::Writes;
                changed.checkpointable = true;
                changed.idempotent = false;
            }
            _ => {}
        }
        if on(self.checkpointable, changed.checkpointable) {
            return Err(Loosened("promises checkpoints that the tool does not"));
        }
        if on(self.idempotent, changed.idempotent) {
            return Err(Loosened("calls a tool idempotent that is not"));
        }
        if off(self.is_unsafe, base.is_unsafe) {
            return Err(Loosened("calls an unsafe tool safe"));
        }
        if off(self.needs_approval, base.needs_approval) {
            return Err(Loosened("takes away an approval that the tool demands"));
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
                return Err(Loosened("leaves out a side effect of the tool"));
            }
            changed.side_effects.clone_from(effects);
        }
        if let Some(environment) = &self.environment {
            if base.environment != Environment::Anywhere && base.environment != *environment {
                return Err(Loosened(
                    "moves a tool out of the place where it has to run",
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
        fn no_change_makes_a_tool_freer(base in capability(), change in change()) {
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
        fn saying_nothing_changes_nothing(base in capability()) {
            prop_assert_eq!(CapabilityChange::default().apply(&base).expect("allowed"), base);
        }
    }

    #[test]
    fn a_tool_for_a_container_stays_there() {
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
