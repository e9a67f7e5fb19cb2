//! What this machine can enforce, found out by setting it all up and running nothing.

use crate::cancel::Cancel;
use crate::invocation::{Invocation, Policy, WhenMissing};
use crate::outcome::Enforced;
use crate::run::{Attempt, Purpose};

/// What this machine can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Every layer as it would be in force for a command without network; `None` when not even
    /// the stages can be started.
    pub enforced: Option<Enforced>,
    /// What keeps a command from being confined, or confined as well as it could be.
    pub missing: Vec<String>,
}

impl Capabilities {
    /// Whether a command whose policy says to refuse would be run.
    pub fn can_confine(&self) -> bool {
        self.enforced.as_ref().is_some_and(|enforced| {
            enforced.reading_confined()
                && enforced.writing_confined()
                && enforced.network_confined()
        })
    }
}

/// Finds out what this machine can enforce.
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
