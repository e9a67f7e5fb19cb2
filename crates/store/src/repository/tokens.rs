//! API tokens with which clients call a server. Only the hash of a secret is stored.

use std::collections::BTreeSet;

use cleveragents_domain::identity::{Grant, Scope};
use cleveragents_domain::{Timestamp, TokenId};

use super::stored_json;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// A stored API token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    /// Name, recorded as the caller in events and the audit log.
    pub name: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub secret_hash: String,
    /// Areas in which the token may be used.
    pub scopes: BTreeSet<Scope>,
    /// Granted roles.
    pub grants: Vec<Grant>,
    /// Identity that created it.
    pub created_by: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time from which it is rejected.
    pub expires_at: Option<Timestamp>,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
    /// Time of the last use, accurate to minutes.
    pub last_used_at: Option<Timestamp>,
}

impl Token {
    /// Whether the token is accepted at a point in time.
    pub fn is_valid_at(&self, moment: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| moment < end)
    }
}

macro_rules! columns {
    () => {
        "token_id, name, secret_hash, scopes, created_by, created_at, expires_at, revoked_at, last_used_at"
    };
}

fn read(mut row: Row) -> Result<Token, Error> {
    Ok(Token {
        id: row.take()?,
        name: row.take()?,
        secret_hash: row.take()?,
        scopes: stored_json("the scopes of a token", &row.take::<String>()?)?,
        grants: Vec::new(),
        created_by: row.take()?,
        created_at: row.take()?,
        expires_at: row.take()?,
        revoked_at: row.take()?,
        last_used_at: row.take()?,
    })
}

fn with_grants(reader: &mut dyn Reader, mut token: Token) -> Result<Token, Error> {
    let granted = reader.query(
        "SELECT namespace, role FROM token_grants WHERE token_id = ?1 ORDER BY namespace",
        params![token.id],
    )?;
    for mut row in granted {
        let (namespace, role): (String, String) = (row.take()?, row.take()?);
        let grant = role
            .parse()
            .and_then(|role| Grant::new(&namespace, role))
            .map_err(|error| Error::stored("a grant of a token", error.to_string()))?;
        token.grants.push(grant);
    }
    Ok(token)
}

/// Stores a new token. Returns `false` when an unrevoked token has its name.
pub fn insert(unit: &mut UnitOfWork<'_>, token: &Token) -> Result<bool, Error> {
    let other = unit.query_first(
        "SELECT 1 FROM tokens WHERE name = ?1 AND revoked_at IS NULL",
        params![&token.name],
    )?;
    if other.is_some() {
        return Ok(false);
    }
    let scopes = serde_json::to_string(&token.scopes)
        .map_err(|error| Error::Internal(format!("scopes cannot be written: {error}")))?;
    unit.execute(
        concat!(
            "INSERT INTO tokens (",
            columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, NULL)"
        ),
        params![
            token.id,
            &token.name,
            &token.secret_hash,
            &scopes,
            &token.created_by,
            token.created_at,
            token.expires_at
        ],
    )?;
    for grant in &token.grants {
        unit.execute(
            "INSERT INTO token_grants (token_id, namespace, role) VALUES (?1, ?2, ?3)",
            params![token.id, grant.namespace(), grant.role().as_str()],
        )?;
    }
    Ok(true)
}

/// Revokes a token permanently. Returns `false` when it does not exist or was already revoked.
pub fn revoke(unit: &mut UnitOfWork<'_>, id: TokenId) -> Result<bool, Error> {
    let now = unit.now();
    let count = unit.execute(
        "UPDATE tokens SET revoked_at = ?2 WHERE token_id = ?1 AND revoked_at IS NULL",
        params![id, now],
    )?;
    Ok(count == 1)
}

pub fn record_use(unit: &mut UnitOfWork<'_>, id: TokenId) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "UPDATE tokens SET last_used_at = ?2 WHERE token_id = ?1 \
         AND (last_used_at IS NULL OR last_used_at < ?2)",
        params![id, now],
    )?;
    Ok(())
}

/// Returns the token with this secret hash.
pub fn by_hash(reader: &mut dyn Reader, secret_hash: &str) -> Result<Option<Token>, Error> {
    let row = reader.query_first(
        concat!("SELECT ", columns!(), " FROM tokens WHERE secret_hash = ?1"),
        params![secret_hash],
    )?;
    row.map(|row| read(row).and_then(|token| with_grants(reader, token)))
        .transpose()
}

/// All tokens, newest first, with revoked ones on request.
pub fn list(reader: &mut dyn Reader, with_revoked: bool) -> Result<Vec<Token>, Error> {
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM tokens WHERE ?1 = 1 OR revoked_at IS NULL ORDER BY token_id DESC"
        ),
        params![u64::from(with_revoked)],
    )?;
    rows.into_iter()
        .map(|row| read(row).and_then(|token| with_grants(reader, token)))
        .collect()
}
