//! [`LogRedactor`]: the redactor that everything else uses, with the secrets that become known while the program runs.

use std::sync::{PoisonError, RwLock};

use cleveragents_models::{Redactor, Secret, environment_secrets, secrets_given_out};

use crate::context::Context;
use crate::remote::token_file;

/// Masks secrets in the log.
#[derive(Default)]
pub(super) struct LogRedactor(RwLock<Known>);

#[derive(Default)]
struct Known {
    redactor: Redactor,
    /// How many secrets of keyrings the redactor knows.
    given: usize,
}

impl LogRedactor {
    /// A redactor of these secrets, and of those that keyrings give out.
    pub(super) fn new(redactor: Redactor) -> Self {
        Self(RwLock::new(Known { redactor, given: 0 }))
    }

    /// A redactor of all secrets that the program knows: the environment, the configuration, the file of models and
    /// the token of the server that commands are sent to. A file of models that cannot be read leaves the others: a
    /// log must also work when the configuration is broken.
    pub(super) fn of(context: &Context) -> Self {
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

    /// The text without secrets.
    pub(super) fn text(&self, text: &str) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let more = secrets_given_out(known.given);
        if more.is_empty() {
            return known.redactor.text(text).into_owned();
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have added them meanwhile.
        for secret in secrets_given_out(known.given) {
            known.redactor = std::mem::take(&mut known.redactor).and(Some(secret));
            known.given += 1;
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
    fn keys_that_a_keyring_gives_out_later_are_masked() {
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
