//! The redactor of the log: the one that everything else uses.

use cleveragents_models::{Redactor, environment_secrets};

use crate::context::Context;

/// A redactor of all secrets that the program knows. A file of models that cannot be read leaves those of the
/// environment and of the address of the database: a log must also work when the configuration is broken.
pub(super) fn redactor(context: &Context) -> Redactor {
    match context.models(None) {
        Ok(models) => models.redactor(),
        Err(_) => {
            let database = context.settings.database_url().to_owned();
            let configured = [("DATABASE_URL".to_owned(), database)];
            Redactor::new(environment_secrets(
                context.environment.texts().chain(configured),
            ))
        }
    }
}
