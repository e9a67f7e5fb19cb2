//! [`WorkItemError`]: failure of a command on work items.

use cleveragents_domain::{
    Code, Diagnose, Hint, IdError, SearchQueryError, StoryPointsError, WorkItemId, WorkItemState,
    WorkItemTextError, hint, suggest,
};
use serde_json::{Value, json};

/// Failure of a command on a work item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkItemError {
    #[error("there is no work item `{0}`")]
    NotFound(String),
    #[error("`{reference}` is the beginning of several work items")]
    Ambiguous {
        reference: String,
        candidates: Vec<WorkItemId>,
    },
    #[error(transparent)]
    Id(#[from] IdError),
    #[error(transparent)]
    Text(#[from] WorkItemTextError),
    #[error(transparent)]
    Points(#[from] StoryPointsError),
    #[error(transparent)]
    Query(#[from] SearchQueryError),
    /// A combination of values that no item can have.
    #[error("{0}; nothing was changed")]
    Refused(String),
    #[error("the work item {item} is {from} and cannot become {to}; nothing was changed")]
    Transition {
        item: WorkItemId,
        from: WorkItemState,
        to: WorkItemState,
    },
    #[error("{on} already depends on {item}, so {item} cannot depend on it; nothing was changed")]
    Cycle { item: WorkItemId, on: WorkItemId },
    #[error("the work item {0} was changed by another process; nothing was changed")]
    Changed(WorkItemId),
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for WorkItemError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::WorkItemNotFound,
            Self::Ambiguous { .. } => Code::AmbiguousWorkItem,
            Self::Id(error) => error.code(),
            Self::Text(_) | Self::Points(_) | Self::Refused(_) => Code::InvalidWorkItem,
            Self::Query(_) => Code::InvalidSearchQuery,
            Self::Transition { .. } => Code::WorkItemTransition,
            Self::Cycle { .. } => Code::DependencyCycle,
            Self::Changed(_) => Code::VersionConflict,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotFound(_) | Self::Ambiguous { .. } => {
                hint!("give the full id; {} lists the items", suggest::item_list())
            }
            Self::Id(error) => return error.hint(),
            Self::Text(_) | Self::Points(_) | Self::Refused(_) => {
                "correct the value and repeat the command".into()
            }
            Self::Query(_) => "search for at least one word".into(),
            Self::Transition { item, .. } | Self::Changed(item) => {
                hint!("{} shows its current state", suggest::item_show(item))
            }
            Self::Cycle { on, .. } => {
                hint!("{} shows its dependencies", suggest::item_show(on))
            }
            Self::Store(error) => return error.hint(),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::Ambiguous { candidates, .. } => json!({"candidates": candidates}),
            Self::Transition { from, to, .. } => json!({"from": from, "to": to}),
            Self::Store(error) => error.details(),
            _ => Value::Null,
        }
    }
}
