//! Errors at positions of an actor file.

use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{DefinitionFault, Hint};

use super::tree::FilePosition;

/// The file is malformed at a position.
pub(crate) fn malformed(
    place: FilePosition,
    message: impl Into<String>,
    fix: impl Into<Hint>,
) -> DefinitionFault {
    DefinitionFault::Malformed(fault(place, message, fix))
}

/// The definition is invalid at a position.
pub(crate) fn broken_rule(
    place: FilePosition,
    message: impl Into<String>,
    fix: impl Into<Hint>,
) -> DefinitionFault {
    DefinitionFault::Rule(fault(place, message, fix))
}

fn fault(place: FilePosition, message: impl Into<String>, fix: impl Into<Hint>) -> Fault {
    let place = (place.line.into(), place.column.into());
    Fault::new(message).at_place(place).fixed_by(fix)
}

/// "did you mean …", or the alternatives.
pub(crate) fn did_you_mean<'w>(
    word: &str,
    known: impl Iterator<Item = &'w str> + Clone,
    otherwise: impl FnOnce() -> String,
) -> String {
    match cleveragents_domain::nearest::best(word, known) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => otherwise(),
    }
}
