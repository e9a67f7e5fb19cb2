//! Secrets that keyrings returned to this process. A [`Redactor`](super::Redactor) that was created earlier, such as
//! the redactor of the log, does not contain them.

use std::sync::{PoisonError, RwLock};

use crate::secret::Secret;

static RETURNED: RwLock<Vec<Secret>> = RwLock::new(Vec::new());

/// Stores a secret that a keyring returned.
pub(crate) fn remember(secret: &Secret) {
    let mut returned = RETURNED.write().unwrap_or_else(PoisonError::into_inner);
    if !returned
        .iter()
        .any(|known| known.expose() == secret.expose())
    {
        returned.push(secret.clone());
    }
}

/// Returns the secrets that keyrings returned to this process, without the first `known` secrets.
pub fn secrets_given_out(known: usize) -> Vec<Secret> {
    let returned = RETURNED.read().unwrap_or_else(PoisonError::into_inner);
    returned.get(known..).unwrap_or_default().to_vec()
}
