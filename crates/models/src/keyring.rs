//! The keyring of the system: Secret Service, Keychain or Credential Manager.

use std::sync::Arc;

use crate::catalogue::Variables;

/// The service under which keys are kept; the account is the name of the variable.
const SERVICE: &str = "cleveragents";

/// Looks keys up in the keyring of the system. What cannot be read counts as not there: most
/// machines without a desktop have no keyring at all.
pub fn system_keyring() -> Variables {
    Arc::new(|name: &str| keyring::Entry::new(SERVICE, name).ok()?.get_password().ok())
}
