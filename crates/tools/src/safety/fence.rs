//! [`Fence`]: what rules say of paths that a tool only comes upon while it runs.

use super::rules::{Decision, PermissionRules};
use crate::capability::Access;
use crate::name::ToolName;
use crate::ports::PartPath;
use crate::tool::{Failure, Subject};

/// The rules, as far as a running tool needs them.
#[derive(Clone, Copy)]
pub struct Fence<'a> {
    rules: &'a PermissionRules,
    tool: &'a ToolName,
    reader: &'a ToolName,
    consent: Consent,
}

/// Whether somebody agreed to the call, and so to what it entails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// Nobody was asked.
    NotAsked,
    /// A person agreed.
    Given,
}

impl<'a> Fence<'a> {
    /// `reader` is the tool that reads files: what it may not read, no other tool shows.
    pub(crate) const fn new(
        rules: &'a PermissionRules,
        tool: &'a ToolName,
        reader: &'a ToolName,
        consent: Consent,
    ) -> Self {
        Self {
            rules,
            tool,
            reader,
            consent,
        }
    }

    fn decide(&self, tool: &ToolName, path: &PartPath, access: Access) -> Decision {
        let subject = Subject::Path {
            path: path.clone(),
            access,
        };
        self.rules.decide(tool, &[subject])
    }

    /// Whether a path may be shown: neither this tool nor the one that reads files is forbidden it.
    pub fn shows(&self, path: &PartPath) -> bool {
        [self.tool, self.reader]
            .into_iter()
            .all(|tool| !matches!(self.decide(tool, path, Access::Reads), Decision::Deny(_)))
    }

    /// Refuses to change a path that was not named in the call and may not be changed without asking.
    pub fn check(&self, path: &PartPath) -> Result<(), Failure> {
        match self.decide(self.tool, path, Access::Writes) {
            Decision::Allow => Ok(()),
            Decision::Ask(_) if self.consent == Consent::Given => Ok(()),
            Decision::Ask(why) => Err(Failure::new(format!(
                "`{path}` would be changed too, and somebody has to agree to that: {why}; name it in a \
                 call of its own"
            ))),
            Decision::Deny(why) => Err(Failure::new(format!(
                "`{path}` would be changed too, and may not be: {why}"
            ))),
        }
    }
}
