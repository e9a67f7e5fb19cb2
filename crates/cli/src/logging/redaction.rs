//! [`LogRedactor`]: redacts the secrets that are known at the start, and those that the system keyring returns later.

use std::sync::{PoisonError, RwLock};

use cleveragents_models::{Redactor, Secret, environment_secrets, secrets_given_out};

use crate::context::Context;
use crate::remote::token_file;

/// Redacts secrets in the log.
#[derive(Default)]
pub(super) struct LogRedactor(RwLock<KnownSecrets>);

#[derive(Default)]
struct KnownSecrets {
    redactor: Redactor,
    /// Number of keyring secrets that the redactor includes.
    keyring_secrets: usize,
}

impl LogRedactor {
    /// Redacts the secrets of `redactor`, and secrets that keyrings return later.
    pub(super) fn new(redactor: Redactor) -> Self {
        Self(RwLock::new(KnownSecrets {
            redactor,
            keyring_secrets: 0,
        }))
    }

    /// A redactor for the secrets in the environment, the configuration and `models.yaml`, and the token of the server
    /// that commands are sent to. If `models.yaml` cannot be read, the other secrets are still redacted: the log must
    /// also work when the configuration is broken.
    pub(super) fn for_context(context: &Context) -> Self {
        let redactor = if let Ok(models) = context.models(None) {
            models.redactor()
        } else {
            let database = context.settings.database_url().to_owned();
            let configured = [("DATABASE_URL".to_owned(), database)];
            let variables = context.environment.texts().chain(configured);
            Redactor::new(environment_secrets(variables))
        };
        let token = std::fs::read_to_string(token_file(context)).ok();
        Self::new(redactor.and(token.map(|token| Secret::new(token.trim()))))
    }

    /// The text with secrets redacted.
    pub(super) fn text(&self, text: &str) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let new_secrets = secrets_given_out(known.keyring_secrets);
        if new_secrets.is_empty() {
            return known.redactor.text(text).into_owned();
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Reads the list again, because another thread may have added some of them meanwhile.
        for secret in secrets_given_out(known.keyring_secrets) {
            known.redactor = std::mem::take(&mut known.redactor).and(Some(secret));
            known.keyring_secrets += 1;
        }
        known.redactor.text(text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cleveragents_models::{Catalogue, CatalogueOptions, Redactor};

    use super::LogRedactor;

    #[test]
    fn secrets_returned_later_by_a_keyring_are_redacted() {
        let key = "zq81-from-the-keyring-55";
        let redactor = LogRedactor::new(Redactor::default());
        assert_eq!(redactor.text(key), key);
        let mut options = CatalogueOptions::new(Arc::new(|_: &str| None), "/");
        options.keyring = Some(Arc::new(move |_: &str| Some(key.to_owned())));
        let models = Catalogue::new(options).expect("a catalogue");
        let name = "openai/gpt-5.1".parse().expect("a name");
        assert!(models.open(&name).is_ok());
        assert_eq!(redactor.text(&format!("<{key}>")), "<[REDACTED]>");
    }
}
