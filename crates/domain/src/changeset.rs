//! Changesets: the recorded changes of one unit of work, entry by entry.
//!
//! A changeset is open or closed; entries are numbered from 0 without gaps and are added only while
//! it is open. The store enforces both in the statement that writes the entry.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ChangesetId, FileState, PlanId, Timestamp, ToolInvocationId};

/// The number of an entry in its changeset, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryNumber(pub u64);

impl fmt::Display for EntryNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// Change of a path. Each operation carries only the facts that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "lowercase")]
pub enum Operation {
    /// A file was created.
    Create {
        /// New file.
        after: FileState,
    },
    /// The content changed.
    Modify {
        /// File before the change.
        before: FileState,
        /// File after the change.
        after: FileState,
    },
    /// The file was deleted.
    Delete {
        /// Deleted file.
        before: FileState,
    },
    /// The path changed, possibly with the content.
    Rename {
        new_path: String,
        /// File before the change.
        before: FileState,
        /// File after the change.
        after: FileState,
    },
    /// The permissions changed, the content did not.
    Mode {
        /// File before the change.
        before: FileState,
        /// File after the change.
        after: FileState,
    },
}

/// The given or stored facts do not form an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The operation does not exist.
    #[error("`{0}` is not an operation")]
    Unknown(String),
    /// A fact that the operation needs is missing.
    #[error("the operation `{operation}` needs {missing}")]
    Missing {
        /// Name of the operation.
        operation: String,
        /// Name of the missing fact.
        missing: &'static str,
    },
    /// The path is empty or contains a NUL character.
    #[error("`{0}` is not a path")]
    Path(String),
}

impl Operation {
    /// Stored and printed name.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Modify { .. } => "modify",
            Self::Delete { .. } => "delete",
            Self::Rename { .. } => "rename",
            Self::Mode { .. } => "mode",
        }
    }

    /// File before the change, if it existed.
    pub const fn before(&self) -> Option<FileState> {
        match self {
            Self::Create { .. } => None,
            Self::Modify { before, .. }
            | Self::Delete { before }
            | Self::Rename { before, .. }
            | Self::Mode { before, .. } => Some(*before),
        }
    }

    /// File after the change, if it exists.
    pub const fn after(&self) -> Option<FileState> {
        match self {
            Self::Delete { .. } => None,
            Self::Create { after }
            | Self::Modify { after, .. }
            | Self::Rename { after, .. }
            | Self::Mode { after, .. } => Some(*after),
        }
    }

    /// New path of a rename.
    pub fn new_path(&self) -> Option<&str> {
        match self {
            Self::Rename { new_path, .. } => Some(new_path),
            _ => None,
        }
    }

    /// The operation that turns one state into another. `None` when nothing changed.
    pub fn between(before: Option<FileState>, after: Option<FileState>) -> Option<Self> {
        match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(Self::Create { after }),
            (Some(before), None) => Some(Self::Delete { before }),
            (Some(before), Some(after)) if before == after => None,
            (Some(before), Some(after)) if before.same_content(&after) => {
                Some(Self::Mode { before, after })
            }
            (Some(before), Some(after)) => Some(Self::Modify { before, after }),
        }
    }

    /// Builds an operation from stored facts.
    pub fn from_stored(
        name: &str,
        before: Option<FileState>,
        after: Option<FileState>,
        new_path: Option<String>,
    ) -> Result<Self, OperationError> {
        let missing = |missing| OperationError::Missing {
            operation: name.to_owned(),
            missing,
        };
        let before = before.ok_or_else(|| missing("the state before"));
        let after = after.ok_or_else(|| missing("the state after"));
        Ok(match name {
            "create" => Self::Create { after: after? },
            "modify" => Self::Modify {
                before: before?,
                after: after?,
            },
            "delete" => Self::Delete { before: before? },
            "rename" => Self::Rename {
                new_path: new_path.ok_or_else(|| missing("the new path"))?,
                before: before?,
                after: after?,
            },
            "mode" => Self::Mode {
                before: before?,
                after: after?,
            },
            _ => return Err(OperationError::Unknown(name.to_owned())),
        })
    }
}

/// A valid change that is not recorded yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChange {
    resource: String,
    path: String,
    operation: Operation,
    tool: Option<String>,
    invocation: Option<ToolInvocationId>,
    actor_node: Option<String>,
}

impl NewChange {
    /// Creates a change of `path` inside `resource`.
    pub fn new(
        resource: impl Into<String>,
        path: impl Into<String>,
        operation: Operation,
    ) -> Result<Self, OperationError> {
        let (resource, path) = (resource.into(), path.into());
        for text in [
            Some(resource.as_str()),
            Some(path.as_str()),
            operation.new_path(),
        ]
        .into_iter()
        .flatten()
        {
            if text.is_empty() || text.contains('\0') {
                return Err(OperationError::Path(text.to_owned()));
            }
        }
        Ok(Self {
            resource,
            path,
            operation,
            tool: None,
            invocation: None,
            actor_node: None,
        })
    }

    /// Sets the tool and the call that made the change.
    #[must_use]
    pub fn by_tool(
        mut self,
        tool: impl Into<String>,
        invocation: Option<ToolInvocationId>,
    ) -> Self {
        self.tool = Some(tool.into());
        self.invocation = invocation;
        self
    }

    /// Sets the node of the actor's graph that made the change.
    #[must_use]
    pub fn by_node(mut self, node: impl Into<String>) -> Self {
        self.actor_node = Some(node.into());
        self
    }

    /// Changed resource.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Changed path inside the resource.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Change of the path.
    pub const fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Tool that made the change.
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// Call of the tool.
    pub const fn invocation(&self) -> Option<ToolInvocationId> {
        self.invocation
    }

    /// Node of the actor's graph.
    pub fn actor_node(&self) -> Option<&str> {
        self.actor_node.as_deref()
    }
}

/// A recorded change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeEntry {
    /// Changeset that contains the entry.
    pub changeset: ChangesetId,
    /// Number in the changeset.
    pub number: EntryNumber,
    /// Recorded change.
    pub change: NewChange,
    /// Time of recording.
    pub recorded_at: Timestamp,
}

/// Whether entries may still be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangesetState {
    /// Entries may be added.
    Open,
    /// No entry can be added any more.
    Closed,
}

/// A changeset without its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changeset {
    pub id: ChangesetId,
    /// Plan whose run opened the changeset; `None` for a manually created sandbox.
    pub plan: Option<PlanId>,
    /// Number of entries, which is also the number of the next one.
    pub entry_count: u64,
    /// Time of opening.
    pub opened_at: Timestamp,
    /// Time of closing.
    pub closed_at: Option<Timestamp>,
}

impl Changeset {
    /// Whether entries may still be added.
    pub const fn state(&self) -> ChangesetState {
        match self.closed_at {
            None => ChangesetState::Open,
            Some(_) => ChangesetState::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NewChange, Operation};
    use crate::{ContentHash, FileMode, FileState};
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = FileState> {
        any::<Vec<u8>>().prop_map(|bytes| FileState {
            hash: ContentHash::of_bytes(&bytes),
            size: bytes.len() as u64,
            mode: FileMode::REGULAR,
        })
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            state().prop_map(|after| Operation::Create { after }),
            (state(), state()).prop_map(|(before, after)| Operation::Modify { before, after }),
            state().prop_map(|before| Operation::Delete { before }),
            (state(), state(), "[a-z/]{1,9}").prop_map(|(before, after, new_path)| {
                Operation::Rename {
                    new_path,
                    before,
                    after,
                }
            }),
            (state(), state()).prop_map(|(before, after)| Operation::Mode { before, after }),
        ]
    }

    proptest! {
        #[test]
        fn an_operation_is_rebuilt_from_its_stored_facts(operation in operation()) {
            let rebuilt = Operation::from_stored(
                operation.as_str(),
                operation.before(),
                operation.after(),
                operation.new_path().map(str::to_owned),
            );
            prop_assert_eq!(rebuilt.expect("complete"), operation);
        }

        #[test]
        fn an_operation_round_trips_through_json(operation in operation()) {
            let text = serde_json::to_string(&operation).expect("serializes");
            prop_assert_eq!(serde_json::from_str::<Operation>(&text).expect("reads"), operation);
        }
    }

    #[test]
    fn a_change_needs_a_resource_and_a_path() {
        let create = || Operation::Create {
            after: FileState {
                hash: ContentHash::of_bytes(b""),
                size: 0,
                mode: FileMode::REGULAR,
            },
        };
        assert!(NewChange::new("", "a", create()).is_err());
        assert!(NewChange::new("r", "", create()).is_err());
        assert!(NewChange::new("r", "a\0", create()).is_err());
        assert!(NewChange::new("r", "a", create()).is_ok());
    }
}
