//! Secrets that keyrings returned to this process. A [`Redactor`](super::Redactor) created earlier, such as that of the
//! log, does not know them.

use std::sync::{PoisonError, RwLock};

use crate::secret::Secret;

static GIVEN: RwLock<Vec<Secret>> = RwLock::new(Vec::new());

/// Stores a secret that a keyring returned.
pub(crate) fn remember(secret: &Secret) {
    let mut given = GIVEN.write().unwrap_or_else(PoisonError::into_inner);
    if !given.iter().any(|known| known.expose() == secret.expose()) {
        given.push(secret.clone());
    }
}

/// Secrets that keyrings returned to this process, after the first `known` ones.
pub fn secrets_given_out(known: usize) -> Vec<Secret> {
    let given = GIVEN.read().unwrap_or_else(PoisonError::into_inner);
    given.get(known..).unwrap_or_default().to_vec()
}
