//! Commands common to all kinds of definitions: register a file, list, remove.

use std::path::Path;

use cleveragents_application::{Operation, Outcome, RemovedDefinition};
use cleveragents_domain::{Code, DefinitionKind};

use super::{counted, read_definition};
use crate::arguments::Deletion;
use crate::context::Context;
use crate::output::{CommandError, Panel, Report};

/// Text of a definition, and the path that is stored as its origin.
pub(crate) struct DefinitionInput {
    pub(crate) text: String,
    pub(crate) source: Option<String>,
}

/// Reads a definition file, `-` for standard input.
pub(crate) fn read_input(
    context: &Context,
    config: &Path,
    kind: DefinitionKind,
) -> Result<DefinitionInput, CommandError> {
    Ok(DefinitionInput {
        text: read_text_of(config, kind)?,
        source: context.definition_source(config),
    })
}

/// Reads the text of a definition file, `-` for standard input.
pub(crate) fn read_text_of(config: &Path, kind: DefinitionKind) -> Result<String, CommandError> {
    let noun = format!("the file of {}", kind.with_article());
    read_definition(config, &noun, kind.malformed())
}

/// Message after a definition was registered. `verb` is printed for a new definition,
/// such as `created`.
pub(crate) fn registered(kind: DefinitionKind, outcome: Outcome, verb: &str) -> String {
    let verb = match outcome {
        Outcome::Updated => "updated",
        Outcome::Created | Outcome::Unchanged => verb,
    };
    format!("{} {verb}", title(kind))
}

/// Message after definitions were listed.
pub(crate) fn listed(kind: DefinitionKind, count: impl TryInto<u64>) -> String {
    format!("{} listed", counted(count, kind.noun()))
}

/// Removes a definition. Without confirmation, first calls the operation unconfirmed, which only runs its checks; then
/// asks the user and calls it again. `request` receives the confirmation, and whether it is a rehearsal.
pub(crate) fn remove<O: Operation<Response = RemovedDefinition>>(
    context: &Context,
    command: &'static str,
    kind: DefinitionKind,
    deletion: Deletion,
    request: impl Fn(bool, bool) -> O,
) -> Result<Report, CommandError> {
    let is_confirmed = deletion.yes || deletion.dry_run();
    let removed = match context.call(request(is_confirmed, deletion.dry_run())) {
        Err(error) if error.code() == Code::ConfirmationNeeded && !is_confirmed => {
            let details = error.details();
            let name = details["name"].as_str().unwrap_or_default();
            deletion.confirm(&format!("Remove {kind} {name}?"))?;
            context.call(request(true, false))
        }
        result => result,
    }?;
    let noun = title(kind);
    let panel = Panel::new("Removal Summary")
        .row(noun.as_str(), removed.removed.clone())
        .row("Config", removed.config.clone());
    let report = Report::new(command).data(removed).panel(panel);
    Ok(deletion.conclude(report, format!("{noun} removed")))
}

/// Noun of the kind, capitalized.
fn title(kind: DefinitionKind) -> String {
    let noun = kind.noun();
    let (first, rest) = noun.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::{listed, registered};
    use cleveragents_application::Outcome;
    use cleveragents_domain::DefinitionKind;

    #[test]
    fn messages_name_the_kind() {
        let kind = DefinitionKind::AutomationProfile;
        assert_eq!(
            registered(kind, Outcome::Created, "registered"),
            "Automation profile registered"
        );
        assert_eq!(
            registered(kind, Outcome::Updated, "registered"),
            "Automation profile updated"
        );
        assert_eq!(listed(DefinitionKind::Skill, 1_u64), "1 skill listed");
    }
}
