//! `model key …`: keys of providers in the keyring of the system.

use std::io::{IsTerminal as _, Read as _, stdin};

use cleveragents_domain::Code;
use cleveragents_models::{CancellationToken, Secret};
use cleveragents_process::Cancel;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;

use self::kept::{available, remove, store};
use crate::arguments::ModelKey;
use crate::commands::{signals, terminal};
use crate::context::Context;
use crate::output::{CommandError, Report};
use cleveragents_application::model_operations::require_provider;

/// No key is longer.
const LONGEST: u64 = 16 << 10;

pub(super) fn run(context: &Context, command: ModelKey) -> Result<Report, CommandError> {
    match command {
        ModelKey::Set { provider } => {
            let name = variable(context, &provider)?;
            available()?;
            let key = read(context, &provider)?;
            store(&name, &key)?;
            let report = Report::new("model key set").data(json!({"variable": name}));
            Ok(match context.environment.text(&name) {
                Some(_) => report.warn(format!(
                    "The key is in the keyring as {name}, but the variable of that name is set and comes first"
                )),
                None => report.ok(format!("The key is in the keyring as {name}")),
            })
        }
        ModelKey::Remove { provider } => {
            let name = variable(context, &provider)?;
            available()?;
            let was_there = remove(&name)?;
            let said = if was_there {
                format!("{name} is no longer in the keyring")
            } else {
                format!("{name} was not in the keyring")
            };
            Ok(Report::new("model key remove")
                .data(json!({"variable": name, "removed": was_there}))
                .ok(said))
        }
    }
}

/// The name under which the key of a provider is kept.
fn variable(context: &Context, provider: &str) -> Result<String, CommandError> {
    let catalogue = context.models(None)?;
    let provider = provider.to_lowercase();
    let names = catalogue.key_variables_of(&provider);
    if names.is_none() {
        require_provider(&catalogue, &provider)?;
    }
    let first = names.and_then(|names| names.into_iter().next());
    first.ok_or_else(|| {
        CommandError::usage(format!("`{provider}` needs no key"))
            .with_hint("`agents model list` shows the providers that do")
    })
}

/// Reads a key without showing it.
fn read(context: &Context, provider: &str) -> Result<Secret, CommandError> {
    let text = if stdin().is_terminal() {
        let (cancel, stop) = (Cancel::new(), CancellationToken::new());
        let signals = signals::stop_on_signals(context, &cancel, &stop)?;
        let quiet = Quiet::begin()?;
        let answer = terminal::ask(&format!("Key of {provider}"), " (not shown): ", &cancel);
        drop(quiet);
        signals.end();
        answer.unwrap_or_default()
    } else {
        let mut text = String::new();
        let read = stdin().lock().take(LONGEST + 1).read_to_string(&mut text);
        read.map_err(|error| {
            CommandError::new(Code::InvalidUtf8, "standard input holds no key").caused_by(&error)
        })?;
        text
    };
    let key = text.trim();
    let is_key =
        !key.is_empty() && key.len() as u64 <= LONGEST && !key.contains(char::is_whitespace);
    if !is_key {
        return Err(CommandError::usage("that is no key: one word is expected")
            .with_hint("give it at the terminal or on standard input; nothing was changed"));
    }
    Ok(Secret::new(key))
}

/// A terminal that does not show what is typed, until this is dropped.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> Result<Self, CommandError> {
        let failed = |error: rustix::io::Errno| {
            let error = std::io::Error::from(error);
            CommandError::new(Code::FileAccess, "the terminal cannot be used").caused_by(&error)
        };
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &quiet).map_err(failed)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _gone = tcsetattr(stdin(), OptionalActions::Now, &self.0);
        // The line break that was typed was not shown either.
        let _closed = std::io::Write::write_all(&mut std::io::stderr(), b"\n");
    }
}

#[cfg(feature = "keyring")]
mod kept {
    use super::{Code, CommandError, Secret};
    use cleveragents_models::{KeyringError, remove_key, store_key};

    fn unusable(error: &KeyringError) -> CommandError {
        let message = "the keyring of the system cannot be used";
        CommandError::new(Code::KeyringUnavailable, message)
            .caused_by(error)
            .with_hint("unlock it, or set the variable of the provider instead")
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "without the keyring it is an error"
    )]
    pub(super) fn available() -> Result<(), CommandError> {
        Ok(())
    }

    pub(super) fn store(name: &str, key: &Secret) -> Result<(), CommandError> {
        store_key(name, key).map_err(|error| unusable(&error))
    }

    pub(super) fn remove(name: &str) -> Result<bool, CommandError> {
        remove_key(name).map_err(|error| unusable(&error))
    }
}

#[cfg(not(feature = "keyring"))]
mod kept {
    use super::{Code, CommandError, Secret};

    /// A program without the keyring says so before it asks for a key.
    pub(super) fn available() -> Result<(), CommandError> {
        Err(CommandError::new(
            Code::KeyringUnavailable,
            "this program was built without the keyring",
        )
        .with_hint(
            "set the variable of the provider, or build it with `cargo install --path crates/cli --features keyring`",
        ))
    }

    pub(super) fn store(_name: &str, _key: &Secret) -> Result<(), CommandError> {
        available()
    }

    pub(super) fn remove(_name: &str) -> Result<bool, CommandError> {
        available().map(|()| false)
    }
}
