//! The keyring of the operating system: Secret Service, Keychain or Credential Manager.

use std::sync::Arc;

use crate::catalogue::Variables;
use crate::secret::Secret;

/// Service name of the entries; the account is the name of the variable.
const SERVICE: &str = "cleveragents";

/// The keyring is not usable.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct KeyringError(keyring::Error);

/// Looks up keys in the system keyring. An unreadable keyring counts as empty, because most machines
/// without a desktop have no keyring.
pub fn system_keyring() -> Variables {
    Arc::new(|name: &str| keyring::Entry::new(SERVICE, name).ok()?.get_password().ok())
}

/// Stores a key in the keyring, replacing an older one.
pub fn store_key(name: &str, key: &Secret) -> Result<(), KeyringError> {
    keyring::Entry::new(SERVICE, name)
        .and_then(|entry| entry.set_password(key.expose()))
        .map_err(KeyringError)
}

/// Removes a key from the keyring; returns whether it existed.
pub fn remove_key(name: &str) -> Result<bool, KeyringError> {
    let removed = keyring::Entry::new(SERVICE, name).and_then(|entry| entry.delete_credential());
    match removed {
        Ok(()) => Ok(true),
        Err(keyring::Error::NoEntry) => Ok(false),
        Err(error) => Err(KeyringError(error)),
    }
}
