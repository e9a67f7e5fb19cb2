//! `model key`: provider keys in the system keyring.

use std::io::{IsTerminal as _, Read as _, stdin};

use cleveragents_domain::Code;
use cleveragents_models::{CancellationToken, Secret};
use cleveragents_process::Cancel;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;

use self::keyring_store::{available, is_stored, remove, store};
use crate::arguments::ModelKey;
use crate::commands::{signals, terminal};
use crate::context::Context;
use crate::output::{CommandError, Report};
use cleveragents_application::model_operations::require_provider;

/// Maximum length of a key in bytes.
const MAX_KEY_BYTES: u64 = 16 << 10;

pub(super) fn run(context: &Context, command: ModelKey) -> Result<Report, CommandError> {
    match command {
        ModelKey::Set { provider } => {
            let name = variable(context, &provider)?;
            available()?;
            let key = read(&provider)?;
            store(&name, &key)?;
            let report = Report::new("model key set").data(json!({"variable": name}));
            Ok(match context.environment.text(&name) {
                Some(_) => report.warn(format!(
                    "The key is stored in the keyring as {name}, but the variable of that name is set and takes precedence"
                )),
                None => report.ok(format!("The key is stored in the keyring as {name}")),
            })
        }
        ModelKey::Remove {
            provider,
            rehearsal,
        } => {
            let name = variable(context, &provider)?;
            available()?;
            let was_stored = if rehearsal.dry_run {
                is_stored(&name)
            } else {
                remove(&name)?
            };
            let outcome = if was_stored {
                format!("{name} is removed from the keyring")
            } else {
                format!("{name} was not in the keyring")
            };
            let report = Report::new("model key remove")
                .data(json!({"variable": name, "removed": was_stored}));
            Ok(if was_stored {
                rehearsal.conclude(report, outcome)
            } else {
                report.ok(outcome)
            })
        }
    }
}

/// Whether this program can store keys.
pub(crate) const fn has_keyring() -> bool {
    cfg!(feature = "keyring")
}

/// Asks for the key of a provider and stores it in the keyring.
pub(crate) fn ask_and_store_key(context: &Context, provider: &str) -> Result<(), CommandError> {
    let name = variable(context, provider)?;
    available()?;
    store(&name, &read(provider)?)
}

/// Name of a provider's key in the keyring.
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

/// Reads a key without echo.
fn read(provider: &str) -> Result<Secret, CommandError> {
    let text = if stdin().is_terminal() {
        let (cancel, stop) = (Cancel::new(), CancellationToken::new());
        let signals = signals::stop_on_signals(&cancel, &stop)?;
        let echo_off = EchoOff::begin()?;
        let answer = terminal::ask(&format!("Key of {provider}"), " (not shown): ", &cancel);
        drop(echo_off);
        signals.end();
        answer.unwrap_or_default()
    } else {
        let mut text = String::new();
        let read = stdin()
            .lock()
            .take(MAX_KEY_BYTES + 1)
            .read_to_string(&mut text);
        read.map_err(|error| {
            CommandError::new(Code::InvalidUtf8, "standard input is not a key").caused_by(&error)
        })?;
        text
    };
    let key = text.trim();
    let is_key =
        !key.is_empty() && key.len() as u64 <= MAX_KEY_BYTES && !key.contains(char::is_whitespace);
    if !is_key {
        return Err(
            CommandError::usage("the input is not a key: expected one word").with_hint(
                "type it at the terminal or write it to standard input; nothing changed",
            ),
        );
    }
    Ok(Secret::new(key))
}

/// Disables terminal echo until dropped.
struct EchoOff(Termios);

impl EchoOff {
    fn begin() -> Result<Self, CommandError> {
        let failed = |error: rustix::io::Errno| {
            let error = std::io::Error::from(error);
            CommandError::new(Code::FileAccess, "the terminal cannot be used").caused_by(&error)
        };
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut settings = before.clone();
        settings.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &settings).map_err(failed)?;
        Ok(Self(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // A closed terminal needs no reset.
        let _gone = tcsetattr(stdin(), OptionalActions::Now, &self.0);
        // The typed line break was not echoed either.
        let _closed = std::io::Write::write_all(&mut std::io::stderr(), b"\n");
    }
}

#[cfg(feature = "keyring")]
mod keyring_store {
    use super::{Code, CommandError, Secret};
    use cleveragents_models::{KeyringError, remove_key, store_key};

    fn keyring_error(error: &KeyringError) -> CommandError {
        let message = "the system keyring cannot be used";
        CommandError::new(Code::KeyringUnavailable, message)
            .caused_by(error)
            .with_hint("unlock it, or set the environment variable of the provider")
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "fails without the keyring feature"
    )]
    pub(super) fn available() -> Result<(), CommandError> {
        Ok(())
    }

    pub(super) fn store(name: &str, key: &Secret) -> Result<(), CommandError> {
        store_key(name, key).map_err(|error| keyring_error(&error))
    }

    pub(super) fn remove(name: &str) -> Result<bool, CommandError> {
        remove_key(name).map_err(|error| keyring_error(&error))
    }

    pub(super) fn is_stored(name: &str) -> bool {
        cleveragents_models::system_keyring()(name).is_some()
    }
}

#[cfg(not(feature = "keyring"))]
mod keyring_store {
    use super::{Code, CommandError, Secret};

    /// Fails, so that the command stops before it asks for a key.
    pub(super) fn available() -> Result<(), CommandError> {
        Err(CommandError::new(
            Code::KeyringUnavailable,
            "this program was built without the keyring",
        )
        .with_hint(
            "set the environment variable of the provider, or build with `cargo install --path crates/cli --features keyring`",
        ))
    }

    pub(super) fn is_stored(_name: &str) -> bool {
        false
    }

    pub(super) fn store(_name: &str, _key: &Secret) -> Result<(), CommandError> {
        available()
    }

    pub(super) fn remove(_name: &str) -> Result<bool, CommandError> {
        available().map(|()| false)
    }
}
