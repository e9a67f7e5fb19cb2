//! Probes which confinement this machine can enforce, by setting up all layers without running a command.

use crate::cancel::Cancel;
use crate::invocation::{Invocation, Policy, WhenMissing};
use crate::outcome::Enforcement;
use crate::run::{Attempt, Purpose};

/// Confinement that this machine supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Layers that would be in force for a command without network; `None` when the stages, the processes that set up
    /// the confinement, cannot be started.
    pub enforced: Option<Enforcement>,
    /// Reasons why a command cannot be confined, or not completely.
    pub missing: Vec<String>,
}

impl Capabilities {
    /// Whether a command with [`WhenMissing::Refuse`] would run.
    pub fn can_confine(&self) -> bool {
        self.enforced.as_ref().is_some_and(|enforced| {
            enforced.reading_confined()
                && enforced.writing_confined()
                && enforced.network_confined()
        })
    }
}

/// Probes which confinement this machine can enforce.
pub fn capabilities() -> Capabilities {
    let policy = Policy {
        when_missing: WhenMissing::Warn,
        ..Policy::default()
    };
    let invocation = Invocation {
        environment: Vec::new(),
        confinement: Some(policy),
        ..Invocation::new("true", "/")
    };
    let cancel = Cancel::new();
    let rehearsed =
        Attempt::new(&invocation, &cancel).and_then(|attempt| attempt.run(Purpose::Rehearsal));
    match rehearsed {
        Ok(finished) => Capabilities {
            missing: finished.enforced.missing(),
            enforced: Some(finished.enforced),
        },
        Err(error) => Capabilities {
            enforced: None,
            missing: vec![error.to_string()],
        },
    }
}
