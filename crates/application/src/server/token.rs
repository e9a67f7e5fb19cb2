//! [`TokenService`]: tokens that authenticate callers of a server.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use cleveragents_domain::identity::{Caller, Grant, Scope};
use cleveragents_domain::{ContentHash, EventKind, NewEvent, Timestamp, TokenId};
use cleveragents_store::tokens::{self, Token};
use cleveragents_store::{Engine, Error};
use serde_json::json;

use super::error::TokenError;

/// Prefix of every secret, so that leaked secrets can be detected.
const PREFIX: &str = "ca_";

/// The digits of a secret.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Maximum length of a name, in bytes.
const MAX_NAME_LENGTH: usize = 64;

/// Minimum interval between two stored uses of a token, in seconds.
const MIN_USE_INTERVAL_SECONDS: f64 = 60.0;

/// The secret of a token. It is shown only once, to the creator of the token, and never stored.
pub struct Secret(String);

impl Secret {
    /// A new secret of 256 random bits.
    fn generate() -> Result<Self, TokenError> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(|_| TokenError::Randomness)?;
        let mut text = String::from(PREFIX);
        let (mut bits, mut count) = (0_u32, 0_u32);
        for byte in random {
            bits = (bits << 8) | u32::from(byte);
            count += 8;
            while count >= 5 {
                count -= 5;
                text.push(digit(bits >> count));
            }
        }
        text.push(digit(bits << (5 - count)));
        Ok(Self(text))
    }

    /// The text, to be shown to the creator of the token.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

fn digit(bits: u32) -> char {
    let index = usize::try_from(bits & 31).unwrap_or_default();
    char::from(DIGITS.get(index).copied().unwrap_or(b'0'))
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// A token to create.
#[derive(Debug, Clone, Default)]
pub struct NewToken {
    /// Name of the token; identifies its caller in records.
    pub name: String,
    /// Roles of the token in namespaces.
    pub grants: Vec<Grant>,
    /// Scopes of the token; empty for all scopes.
    pub scopes: BTreeSet<Scope>,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
}

/// A new token with its secret.
#[derive(Debug)]
pub struct CreatedToken {
    /// Stored token.
    pub token: Token,
    /// The secret of the token, which is not stored.
    pub secret: Secret,
}

/// Creates, lists and revokes tokens.
#[derive(Clone)]
pub struct TokenService {
    engine: Arc<Engine>,
}

impl TokenService {
    /// A service for a store. The user of the engine is recorded as the creator of tokens.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    pub fn create(&self, new: NewToken) -> Result<CreatedToken, TokenError> {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
        if new.name.is_empty()
            || new.name.len() > MAX_NAME_LENGTH
            || !new.name.bytes().all(is_legal)
        {
            return Err(TokenError::Name(new.name));
        }
        if new.grants.is_empty() {
            return Err(TokenError::NoGrant);
        }
        let now = Timestamp::now();
        if let Some(end) = new.expires_at.filter(|end| *end <= now) {
            return Err(TokenError::Expired(end));
        }
        let secret = Secret::generate()?;
        let mut grants = new.grants;
        // Of several roles in the same namespace, only the highest is kept.
        grants.sort_by(|left, right| {
            let by_namespace = left.namespace().cmp(right.namespace());
            by_namespace.then(right.role().cmp(&left.role()))
        });
        grants.dedup_by(|later, kept| later.namespace() == kept.namespace());
        let token = Token {
            id: TokenId::generate(),
            name: new.name,
            secret_hash: ContentHash::of_bytes(secret.reveal().as_bytes()).hex(),
            scopes: if new.scopes.is_empty() {
                Scope::ALL.iter().copied().collect()
            } else {
                new.scopes
            },
            grants,
            created_by: self.engine.identity().to_owned(),
            created_at: now,
            expires_at: new.expires_at,
            revoked_at: None,
            last_used_at: None,
        };
        let stored = token.clone();
        self.engine.write(move |unit| {
            if !tokens::insert(unit, &stored)? {
                return Err(TokenError::Exists(stored.name.clone()));
            }
            unit.emit(event(EventKind::TokenCreated, &stored));
            Ok(())
        })?;
        Ok(CreatedToken { token, secret })
    }

    /// The valid token whose secret has this hash. Records the use of the token at most once a minute.
    pub fn authenticate(&self, secret_hash: &str) -> Result<Option<Token>, Error> {
        let found = self
            .engine
            .read(|reader| tokens::by_hash(reader, secret_hash))?;
        let now = Timestamp::now();
        let Some(token) = found.filter(|token| token.is_valid_at(now)) else {
            return Ok(None);
        };
        let is_recent = token
            .last_used_at
            .is_some_and(|used| now.seconds_since(used) < MIN_USE_INTERVAL_SECONDS);
        if !is_recent {
            let id = token.id;
            self.engine
                .write(move |unit| tokens::record_use(unit, id))?;
        }
        Ok(Some(token))
    }

    /// Whether any token is valid, so that a client can call a server.
    pub fn has_valid(&self) -> Result<bool, Error> {
        let all = self.engine.read(|reader| tokens::list(reader, false))?;
        let now = Timestamp::now();
        Ok(all.iter().any(|token| token.is_valid_at(now)))
    }

    /// The caller whose valid token has this name, with its current roles.
    pub fn caller(&self, name: &str) -> Result<Option<Caller>, Error> {
        let all = self.engine.read(|reader| tokens::list(reader, false))?;
        let now = Timestamp::now();
        let mut valid = all.into_iter().filter(|token| token.is_valid_at(now));
        Ok(valid
            .find(|token| token.name == name)
            .map(|token| Caller::with_token(token.name, token.grants, token.scopes)))
    }

    /// All tokens, newest first; revoked ones only with `with_revoked`.
    pub fn list(&self, with_revoked: bool) -> Result<Vec<Token>, TokenError> {
        Ok(self
            .engine
            .read(|reader| tokens::list(reader, with_revoked))?)
    }

    /// Revokes a token permanently, by its name or id.
    pub fn revoke(&self, reference: &str) -> Result<Token, TokenError> {
        let reference = reference.to_owned();
        self.engine.write(move |unit| {
            let known = tokens::list(unit, false)?;
            let mut valid_tokens = known.into_iter();
            let token = valid_tokens
                .find(|token| token.name == reference || token.id.to_string() == reference)
                .ok_or_else(|| TokenError::NotFound(reference.clone()))?;
            if !tokens::revoke(unit, token.id)? {
                return Err(TokenError::NotFound(reference.clone()));
            }
            unit.emit(event(EventKind::TokenRevoked, &token));
            Ok(token)
        })
    }
}

/// The event about a token, without its secret.
fn event(kind: EventKind, token: &Token) -> NewEvent {
    let grants: Vec<String> = token.grants.iter().map(Grant::to_string).collect();
    NewEvent {
        kind,
        subject: token.id.to_string(),
        payload: json!({
            "name": token.name, "grants": grants, "scopes": token.scopes, "expires_at": token.expires_at,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;
    use std::collections::BTreeSet;

    #[test]
    fn secrets_have_256_bits_and_are_not_shown_by_accident() {
        let secrets: BTreeSet<String> = (0..100)
            .map(|_| Secret::generate().expect("randomness").reveal().to_owned())
            .collect();
        assert_eq!(secrets.len(), 100);
        for secret in &secrets {
            // 256 bits in digits of 5 bits.
            assert!(
                secret.starts_with("ca_") && secret.len() == 3 + 52,
                "{secret}"
            );
        }
        let secret = Secret::generate().expect("randomness");
        assert!(!format!("{secret:?}").contains("ca_"));
    }
}
