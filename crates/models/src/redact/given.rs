//! Secrets that keyrings gave out to this process. No [`Redactor`](super::Redactor) that was made before knows them,
//! such as that of the log.

use std::sync::{PoisonError, RwLock};

use crate::secret::Secret;

static GIVEN: RwLock<Vec<Secret>> = RwLock::new(Vec::new());

/// Remembers a secret that a keyring gave out.
pub(crate) fn remember(secret: &Secret) {
    let mut given = GIVEN.write().unwrap_or_else(PoisonError::into_inner);
    if !given.iter().any(|known| known.expose() == secret.expose()) {
        given.push(secret.clone());
    }
}

/// The secrets that keyrings gave out to this process after the first `known` ones.
pub fn secrets_given_out(known: usize) -> Vec<Secret> {
    let given = GIVEN.read().unwrap_or_else(PoisonError::into_inner);
    given.get(known..).unwrap_or_default().to_vec()
}
