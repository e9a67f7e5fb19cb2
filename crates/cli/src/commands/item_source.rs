//! `item sync` and `item source`: the trackers that work items come from.

use std::collections::BTreeMap;

use cleveragents_application::TrackerKind;
use cleveragents_application::tracker_operations::{
    AddItemSource, ItemSourceInfo, ListItemSources, RemoveItemSource, SyncItems, SyncedItems,
};
use cleveragents_domain::Code;
use serde_json::json;

use super::{counted, yes_no};
use crate::arguments::{Deletion, ItemSource as Command, ItemSourceAdd, SourceKind};
use crate::context::Context;
use crate::output::{Align, CommandError, Panel, Report, Table};

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &Command) -> &'static str {
    match command {
        Command::Add(_) => "item source add",
        Command::List => "item source list",
        Command::Remove { .. } => "item source remove",
    }
}

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    match command {
        Command::Add(arguments) => add(context, arguments),
        Command::List => list(context),
        Command::Remove {
            name,
            yes,
            rehearsal,
        } => remove(context, name, Deletion { yes, rehearsal }),
    }
}

pub(super) fn sync(context: &Context, source: Option<String>) -> Result<Report, CommandError> {
    let names: Vec<String> = if let Some(name) = source {
        vec![name]
    } else {
        let listed = context.call(ListItemSources {})?;
        listed.sources.into_iter().map(|known| known.name).collect()
    };
    let mut synced: Vec<SyncedItems> = Vec::new();
    for source in names {
        synced.push(context.call(SyncItems { source })?);
    }
    let mut table = Table::new("Synchronized sources")
        .column("Source", Align::Left)
        .column("Issues", Align::Right)
        .column("New", Align::Right)
        .column("Changed", Align::Right)
        .column("Moved", Align::Right)
        .column("Gone", Align::Right)
        .column("Written", Align::Right)
        .column("Waiting", Align::Right)
        .empty("No sources. Add one with `agents item source add`");
    for source in &synced {
        table = table.row(vec![
            source.source.clone().into(),
            source.report.total.into(),
            source.report.created.into(),
            source.report.changed.into(),
            source.report.moved.into(),
            source.report.gone.into(),
            source.writes.delivered.into(),
            source.writes.postponed.into(),
        ]);
    }
    let count = synced.len();
    Ok(Report::new("item sync")
        .data(json!({"sources": synced}))
        .table(table)
        .ok(format!("{} synchronized", counted(count, "source"))))
}

fn add(context: &Context, arguments: ItemSourceAdd) -> Result<Report, CommandError> {
    let mut labels = BTreeMap::new();
    for label in &arguments.labels {
        let (value, name) = label.split_once('=').ok_or_else(|| {
            let message =
                format!("`{label}` is not a value and a label, such as `kind.bug=defect`");
            CommandError::new(Code::Usage, message)
        })?;
        labels.insert(value.to_owned(), name.to_owned());
    }
    let address = match arguments.kind {
        SourceKind::Markdown => context.process().working_folder().join(&arguments.address),
        SourceKind::Forgejo | SourceKind::GitHub => arguments.address,
    };
    let added = context.call(AddItemSource {
        name: arguments.name,
        project: arguments.project,
        kind: match arguments.kind {
            SourceKind::Forgejo => TrackerKind::Forgejo,
            SourceKind::GitHub => TrackerKind::GitHub,
            SourceKind::Markdown => TrackerKind::Markdown,
        },
        address: address.display().to_string(),
        credential: arguments.credential,
        reviewer_credential: arguments.reviewer_credential,
        labels,
        mirrors: arguments.mirror,
    })?;
    let mut report = Report::new("item source add")
        .panel(panel(&added.source).row("Account", added.account.clone()));
    let mut problems = Table::new("Problems").column("Problem", Align::Left);
    for problem in &added.problems {
        problems = problems.row(vec![problem.message.clone().into()]);
    }
    if !added.problems.is_empty() {
        report = report.table(problems);
    }
    Ok(report.data(added).ok("Source added"))
}

fn panel(source: &ItemSourceInfo) -> Panel {
    Panel::new("Source")
        .row("Name", source.name.clone())
        .row("Project", source.project.clone())
        .row("Kind", source.kind.to_string())
        .row("Address", source.address.clone())
        .row("Credential", source.credential.clone())
        .row("Changes are written", yes_no(source.mirrors))
}

fn list(context: &Context) -> Result<Report, CommandError> {
    let listed = context.call(ListItemSources {})?;
    let mut table = Table::new("Sources of work items")
        .column("Name", Align::Left)
        .column("Kind", Align::Left)
        .column("Project", Align::Left)
        .column("Issues", Align::Right)
        .column("Synchronized", Align::Left)
        .column("Waiting", Align::Right)
        .column("Refused", Align::Right)
        .column("Address", Align::Left)
        .column("Last error", Align::Left)
        .keep(["Name"])
        .drop_first(["Last error", "Address"])
        .empty("No sources. Add one with `agents item source add`");
    for source in &listed.sources {
        table = table.row(vec![
            source.name.clone().into(),
            source.kind.to_string().into(),
            source.project.clone().into(),
            source.total.into(),
            source.synced.into(),
            source.waiting_writes.into(),
            source.refused_writes.into(),
            source.address.clone().into(),
            source.last_error.clone().into(),
        ]);
    }
    let count = listed.sources.len();
    Ok(Report::new("item source list")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(count, "source"))))
}

fn remove(context: &Context, name: String, deletion: Deletion) -> Result<Report, CommandError> {
    let question = format!("Remove source {name} and its pending writes? Its work items stay.");
    deletion.confirm(&question)?;
    let removed = context.call(RemoveItemSource {
        name,
        yes: true,
        dry_run: deletion.dry_run(),
    })?;
    let panel = Panel::new("Source")
        .row("Removed", removed.removed.clone())
        .row("Discarded writes", removed.discarded_writes);
    let report = Report::new("item source remove").panel(panel).data(removed);
    Ok(deletion.conclude(report, "Source removed"))
}
