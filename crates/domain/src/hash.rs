//! Content hashes: SHA-256, printed as `sha256:` and 64 hex digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const PREFIX: &str = "sha256:";

/// The text is not a content hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a content hash: sha256: and 64 hex digits are expected")]
pub struct HashError(String);

/// SHA-256 of some bytes; their key in the blob store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Hashes bytes in memory.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Hashes the concatenation of parts.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// Creates a hash from its stored 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits without prefix.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

/// Takes the hash of a hasher, for content that is too large for memory.
impl From<Sha256> for ContentHash {
    fn from(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.hex())
    }
}

impl FromStr for ContentHash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        let invalid = || HashError(text.to_owned());
        let digits = text.strip_prefix(PREFIX).ok_or_else(invalid)?;
        // Only one spelling is accepted, so that a changed case of a digit is detected.
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| invalid())?;
        Ok(Self(bytes))
    }
}

impl Serialize for ContentHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::ContentHash;
    use proptest::prelude::*;

    #[test]
    fn the_hash_is_sha_256() {
        assert_eq!(
            ContentHash::of_bytes(b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    proptest! {
        #[test]
        fn a_hash_round_trips_through_text(bytes: Vec<u8>) {
            let hash = ContentHash::of_bytes(&bytes);
            prop_assert_eq!(hash.to_string().parse::<ContentHash>().expect("printed"), hash);
            prop_assert!(hash.to_string().to_uppercase().parse::<ContentHash>().is_err());
        }

        #[test]
        fn parts_hash_like_their_concatenation(left: Vec<u8>, right: Vec<u8>) {
            let joined = [left.as_slice(), right.as_slice()].concat();
            prop_assert_eq!(ContentHash::of_parts([left.as_slice(), right.as_slice()]), ContentHash::of_bytes(&joined));
        }
    }
}
