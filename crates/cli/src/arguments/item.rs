//! `item`: the work of a project.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use cleveragents_domain::{Moscow, Priority, Severity, WorkItemKind, WorkItemState};

use super::item_source::ItemSource;

/// Parser for the names of an enumeration.
macro_rules! names {
    ($type:ty) => {
        PossibleValuesParser::new(<$type>::ALL.iter().map(|value| value.as_str()))
            .try_map(|text| <$type>::from_stored(&text).ok_or("the name is not known"))
    };
}

#[derive(Debug, Subcommand)]
pub(crate) enum Item {
    /// Add an item: a bug, a feature or other work
    #[command(after_help = "An item without --verified waits for triage.

Examples:
  agents item add --project local/shop --kind bug 'Two requests collide'
  agents item add --project local/shop --kind feature --verified 'Export orders'")]
    Add(ItemAdd),
    /// List or search items
    #[command(after_help = "Without --state and --all, closed items are left out.

Examples:
  agents item list --project local/shop
  agents item list --state in_review --state approved
  agents item list --search 'cart concurrent'
  agents --format json item list --all")]
    List(ItemList),
    /// Show an item with its attempts, reviews and history
    #[command(after_help = "Examples:
  agents item show 01J9ZC5V
  agents --format json item show 01J9ZC5V")]
    Show {
        /// Id of the item, or prefix of at least 6 characters
        #[arg(value_name = "ITEM")]
        item: String,
    },
    /// Change fields or the state of an item
    #[command(
        after_help = "An item that waited for the user and gets another state starts again with the first tier.

Examples:
  agents item edit 01J9ZC5V --priority critical --milestone v1.2
  agents item edit 01J9ZC5V --state verified --reason 'reproduced by hand'
  agents item edit 01J9ZC5V --add-label cart --remove-label web"
    )]
    Edit(ItemEdit),
    /// Link an item to one that it depends on, or to its parent
    #[command(after_help = "Examples:
  agents item link 01J9ZC5V --depends-on 01J9ZD00
  agents item link 01J9ZC5V --depends-on 01J9ZD00 --remove
  agents item link 01J9ZC5V --parent 01J9ZA11")]
    Link {
        /// Id of the item, or prefix of at least 6 characters
        #[arg(value_name = "ITEM")]
        item: String,
        /// Item that has to be completed first
        #[arg(long, value_name = "ITEM", required_unless_present = "parent")]
        depends_on: Option<String>,
        /// Item that it is a part of
        #[arg(long, value_name = "ITEM")]
        parent: Option<String>,
        /// Remove the link
        #[arg(long)]
        remove: bool,
    },
    /// Close an item as completed, rejected or a duplicate
    #[command(after_help = "Examples:
  agents item close 01J9ZC5V --reason 'fixed by hand'
  agents item close 01J9ZC5V --as wont_do --reason 'by design'
  agents item close 01J9ZC5V --duplicate-of 01J9ZD00")]
    Close {
        /// Id of the item, or prefix of at least 6 characters
        #[arg(value_name = "ITEM")]
        item: String,
        /// State to close it in
        #[arg(long = "as", value_name = "STATE", value_parser = closed_states())]
        as_state: Option<WorkItemState>,
        /// Item that it duplicates
        #[arg(long, value_name = "ITEM")]
        duplicate_of: Option<String>,
        /// Reason, shown with the item
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Synchronize work items with their tracker, and send pending writes
    #[command(after_help = "Example:
  agents item sync forge")]
    Sync {
        /// Source; all sources when not given
        #[arg(value_name = "SOURCE")]
        source: Option<String>,
    },
    /// Manage the trackers that work items come from
    #[command(subcommand)]
    Source(ItemSource),
}

fn closed_states() -> impl TypedValueParser<Value = WorkItemState> {
    PossibleValuesParser::new(["completed", "wont_do", "duplicate"])
        .try_map(|text| WorkItemState::from_stored(&text).ok_or("the name is not known"))
}

#[derive(Debug, Args)]
pub(crate) struct ItemAdd {
    /// One line
    #[arg(value_name = "TITLE")]
    pub(crate) title: String,
    /// Project of the item
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: String,
    /// Kind of work
    #[arg(long, value_parser = names!(WorkItemKind))]
    pub(crate) kind: WorkItemKind,
    /// Description
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) body: String,
    /// Priority; medium when not given
    #[arg(long, value_parser = names!(Priority))]
    pub(crate) priority: Option<Priority>,
    /// Milestone, such as v1.2
    #[arg(long, value_name = "NAME")]
    pub(crate) milestone: Option<String>,
    /// Story points: 1, 2, 3, 5, 8, 13, 21, 34, 55 or 88
    #[arg(long, value_name = "N")]
    pub(crate) points: Option<u32>,
    /// Importance for the milestone
    #[arg(long, value_parser = names!(Moscow))]
    pub(crate) moscow: Option<Moscow>,
    /// Severity of a defect
    #[arg(long, value_parser = names!(Severity))]
    pub(crate) severity: Option<Severity>,
    /// Label; repeat the option for several
    #[arg(long = "label", value_name = "LABEL")]
    pub(crate) labels: Vec<String>,
    /// Item that it is a part of
    #[arg(long, value_name = "ITEM")]
    pub(crate) parent: Option<String>,
    /// Item that has to be completed first; repeat the option for several
    #[arg(long, value_name = "ITEM")]
    pub(crate) depends_on: Vec<String>,
    /// The item needs no triage
    #[arg(long)]
    pub(crate) verified: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ItemList {
    /// Only items of this project
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only items in this state; repeat the option for several
    #[arg(long = "state", value_parser = names!(WorkItemState))]
    pub(crate) states: Vec<WorkItemState>,
    /// Only items of this kind; repeat the option for several
    #[arg(long = "kind", value_parser = names!(WorkItemKind))]
    pub(crate) kinds: Vec<WorkItemKind>,
    /// Only items of this priority; repeat the option for several
    #[arg(long = "priority", value_parser = names!(Priority))]
    pub(crate) priorities: Vec<Priority>,
    /// Only items with this label
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Option<String>,
    /// Only items of this milestone
    #[arg(long, value_name = "NAME")]
    pub(crate) milestone: Option<String>,
    /// Words to search for in titles and descriptions, best matches first
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["states", "kinds", "priorities", "label", "milestone", "all"])]
    pub(crate) search: Option<String>,
    /// List closed items too
    #[arg(long)]
    pub(crate) all: bool,
    /// Maximum number of items
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Only items older than this one, for the next page
    #[arg(long, value_name = "ITEM")]
    pub(crate) before: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ItemEdit {
    /// Id of the item, or prefix of at least 6 characters
    #[arg(value_name = "ITEM")]
    pub(crate) item: String,
    /// New title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// New description
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// New kind
    #[arg(long, value_parser = names!(WorkItemKind))]
    pub(crate) kind: Option<WorkItemKind>,
    /// New priority
    #[arg(long, value_parser = names!(Priority))]
    pub(crate) priority: Option<Priority>,
    /// New milestone; an empty text removes it
    #[arg(long, value_name = "NAME")]
    pub(crate) milestone: Option<String>,
    /// New estimate in story points
    #[arg(long, value_name = "N")]
    pub(crate) points: Option<u32>,
    /// Importance for the milestone
    #[arg(long, value_parser = names!(Moscow))]
    pub(crate) moscow: Option<Moscow>,
    /// New severity
    #[arg(long, value_parser = names!(Severity))]
    pub(crate) severity: Option<Severity>,
    /// Label to add; repeat the option for several
    #[arg(long = "add-label", value_name = "LABEL")]
    pub(crate) add_labels: Vec<String>,
    /// Label to remove; repeat the option for several
    #[arg(long = "remove-label", value_name = "LABEL")]
    pub(crate) remove_labels: Vec<String>,
    /// New state
    #[arg(long, value_parser = names!(WorkItemState))]
    pub(crate) state: Option<WorkItemState>,
    /// Reason of the new state
    #[arg(long, value_name = "TEXT", requires = "state")]
    pub(crate) reason: Option<String>,
    /// Fail if the stored version is another one
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
}
