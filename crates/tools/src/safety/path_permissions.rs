//! [`PathPermissions`]: applies permission rules to paths that a tool finds while it runs.

use super::rules::{Decision, PermissionRules};
use crate::capability::Access;
use crate::name::ToolName;
use crate::ports::PartPath;
use crate::tool::{Failure, Subject};

/// The permission rules for a running tool.
#[derive(Clone, Copy)]
pub struct PathPermissions<'a> {
    rules: &'a PermissionRules,
    tool: &'a ToolName,
    reader: &'a ToolName,
    consent: Consent,
}

/// The user's approval of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// No approval was required.
    NotRequired,
    /// The user approved the call.
    Given,
}

impl<'a> PathPermissions<'a> {
    /// `reader` is the tool that reads files. All tools hide paths that rules deny to it.
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

    /// Returns whether a path may be shown: no rule denies it to this tool or to the tool that reads files.
    pub fn shows(&self, path: &PartPath) -> bool {
        [self.tool, self.reader]
            .into_iter()
            .all(|tool| !matches!(self.decide(tool, path, Access::Reads), Decision::Deny(_)))
    }

    /// Checks a path that the call changes but does not name. Fails if rules deny the change, or require an approval
    /// that the user did not give.
    pub fn check(&self, path: &PartPath) -> Result<(), Failure> {
        match self.decide(self.tool, path, Access::Writes) {
            Decision::Allow => Ok(()),
            Decision::Ask(_) if self.consent == Consent::Given => Ok(()),
            Decision::Ask(why) => Err(Failure::new(format!(
                "it would also change `{path}`, which needs approval: {why}; change that path in a \
                 separate call"
            ))),
            Decision::Deny(why) => Err(Failure::new(format!(
                "it would also change `{path}`, which is not allowed: {why}"
            ))),
        }
    }
}
