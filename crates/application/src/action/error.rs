//! Why an action cannot be had, registered or archived.

use cleveragents_domain::{ActionFault, Code, Diagnose};
use serde_json::{Value, json};

/// What is wrong with the file of an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {fault}", place(.fault))]
pub struct ActionFileError {
    /// The file.
    pub file: String,
    /// What is wrong, and where.
    pub fault: ActionFault,
}

fn place(fault: &ActionFault) -> String {
    fault
        .fault()
        .place
        .map_or_else(String::new, |(line, column)| format!(":{line}:{column}"))
}

impl Diagnose for ActionFileError {
    fn code(&self) -> Code {
        self.fault.code()
    }

    fn hint(&self) -> Option<String> {
        let fault = self.fault.fault();
        Some(match (&fault.fix, &fault.nearest) {
            (Some(fix), _) => fix.clone(),
            (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
            (None, None) => {
                "correct it there; `agents schema action` prints what the file may hold".to_owned()
            }
        })
    }

    fn details(&self) -> Value {
        let place = self.fault.fault().place;
        json!({
            "file": self.file,
            "line": place.map(|place| place.0),
            "column": place.map(|place| place.1),
        })
    }
}

/// Why an action cannot be had, registered or archived.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// There is none of this name.
    #[error("there is no action named `{name}`")]
    NotFound {
        /// The name as it was given.
        name: String,
        /// One that is much like it.
        nearest: Option<String>,
    },
    /// There is one of this name.
    #[error("an action named `{0}` exists already; nothing was changed")]
    Exists(String),
    /// It is out of use.
    #[error("the action `{0}` is archived")]
    Archived(String),
    /// Its file is wrong.
    #[error(transparent)]
    File(#[from] Box<ActionFileError>),
    /// What names are looked for with is no regular expression.
    #[error("`{0}` is not a regular expression")]
    Pattern(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for ActionError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::ActionNotFound,
            Self::Exists(_) => Code::ActionExists,
            Self::Archived(_) => Code::ActionArchived,
            Self::File(error) => error.code(),
            Self::Pattern(_) => Code::Usage,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotFound {
                nearest: Some(name),
                ..
            } => format!("did you mean `{name}`? `agents action list` shows all"),
            Self::NotFound { .. } => "run `agents action list` to see what there is".to_owned(),
            Self::Exists(_) => {
                "choose another name, or replace it: `agents action create --config FILE --update`"
                    .to_owned()
            }
            Self::Archived(_) => {
                "take it into use again with `agents action create --config FILE --update`"
                    .to_owned()
            }
            Self::File(error) => return error.hint(),
            Self::Pattern(_) => {
                "write it in the syntax of https://docs.rs/regex, such as `^local/`".to_owned()
            }
            Self::Store(error) => return error.hint(),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound { name, nearest } => json!({"name": name, "nearest": nearest}),
            Self::Exists(name) | Self::Archived(name) => json!({"name": name}),
            Self::File(error) => error.details(),
            Self::Store(error) => error.details(),
            Self::Pattern(_) => Value::Null,
        }
    }
}
