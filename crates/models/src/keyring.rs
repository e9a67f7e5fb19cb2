//! The keyring of the system: Secret Service, Keychain or Credential Manager.

use std::sync::Arc;

use crate::catalogue::Variables;
use crate::secret::Secret;

/// The service under which keys are kept; the account is the name of the variable.
const SERVICE: &str = "cleveragents";

/// The keyring cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct KeyringError(keyring::Error);

/// Looks keys up in the keyring of the system. What cannot be read counts as not there: most
/// machines without a desktop have no keyring at all.
pub fn system_keyring() -> Variables {
    Arc::new(|name: &str| keyring::Entry::new(SERVICE, name).ok()?.get_password().ok())
}

/// Puts a key into the keyring, in place of an older one.
pub fn store_key(name: &str, key: &Secret) -> Result<(), KeyringError> {
    keyring::Entry::new(SERVICE, name)
        .and_then(|entry| entry.set_password(key.expose()))
        .map_err(KeyringError)
}

/// Takes a key out of the keyring; says whether it was there.
pub fn remove_key(name: &str) -> Result<bool, KeyringError> {
    let removed = keyring::Entry::new(SERVICE, name).and_then(|entry| entry.delete_credential());
    match removed {
        Ok(()) => Ok(true),
        Err(keyring::Error::NoEntry) => Ok(false),
        Err(error) => Err(KeyringError(error)),
    }
}
