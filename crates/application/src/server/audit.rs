//! [`AuditService`]: reads and verifies the audit log.

use std::net::IpAddr;
use std::sync::Arc;

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{AuditEntry, NewAuditEntry, audit_kinds, nearest};
use cleveragents_store::audit::{self, AuditFilter, ChainVerdict};
use cleveragents_store::tokens::Token;
use cleveragents_store::{Engine, Error};
use serde_json::json;

use super::error::AuditError;

/// Result of a successful verification: the hash chain is intact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditCheck {
    /// Number of entries.
    pub count: u64,
    /// The hash of the last entry. A user who stores it elsewhere can later detect a truncated log.
    pub head: String,
}

/// Reads and verifies the audit log.
#[derive(Clone)]
pub struct AuditService {
    engine: Arc<Engine>,
}

impl AuditService {
    /// A service for a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Matching entries, newest first. An unknown kind is an error unless the log has entries of that kind, written by
    /// another version of the program.
    pub fn list(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, AuditError> {
        let entries = self.engine.read(|reader| audit::list(reader, filter))?;
        let kinds = audit_kinds();
        match &filter.kind {
            Some(kind) if entries.is_empty() && !kinds.contains(&kind.as_str()) => {
                Err(AuditError::UnknownKind {
                    kind: kind.clone(),
                    nearest: nearest::best(kind, kinds.iter().copied()),
                })
            }
            _ => Ok(entries),
        }
    }

    /// Verifies the whole chain. With `expected`, the last entry must have that hash.
    pub fn verify(&self, expected: Option<&str>) -> Result<AuditCheck, AuditError> {
        let (count, head) = match self.engine.read(audit::verify)? {
            ChainVerdict::Intact { count, head } => (count, head),
            ChainVerdict::Broken { number, reason } => {
                return Err(AuditError::Broken { number, reason });
            }
        };
        if let Some(expected) = expected
            && !head.eq_ignore_ascii_case(expected)
        {
            return Err(AuditError::OtherHead {
                head,
                expected: expected.to_owned(),
            });
        }
        Ok(AuditCheck { count, head })
    }

    /// Records a change of a configuration key. The values must be redacted.
    pub fn configuration_changed(
        &self,
        key: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<(), AuditError> {
        let entry = NewAuditEntry {
            kind: "config_changed",
            identity: self.engine.identity().to_owned(),
            namespace: None,
            subject: Some(key.to_owned()),
            details: json!({"before": before, "after": after}),
        };
        Ok(self.record(entry)?)
    }

    /// Records that a server denied access because the role of the caller is insufficient.
    pub fn access_denied(
        &self,
        identity: &str,
        route: &str,
        needed: Permission,
        namespace: &str,
    ) -> Result<(), Error> {
        self.record(NewAuditEntry {
            kind: "access_denied",
            identity: identity.to_owned(),
            namespace: Some(namespace.to_owned()),
            subject: Some(route.to_owned()),
            details: json!({"needs": needed.least_role().as_str()}),
        })
    }

    /// Records that a server refused a request without a valid token.
    pub fn authentication_failed(&self, from: IpAddr, route: &str) -> Result<(), Error> {
        self.record(NewAuditEntry {
            kind: "auth_failure",
            identity: format!("unknown at {from}"),
            namespace: None,
            subject: Some(route.to_owned()),
            details: json!({}),
        })
    }

    /// Records that a server accepted a token.
    pub fn authentication_succeeded(&self, token: &Token, from: IpAddr) -> Result<(), Error> {
        self.record(NewAuditEntry {
            kind: "auth_success",
            identity: token.name.clone(),
            namespace: None,
            subject: Some(token.id.to_string()),
            details: json!({"from": from.to_string()}),
        })
    }

    fn record(&self, entry: NewAuditEntry) -> Result<(), Error> {
        self.engine
            .write(move |unit| audit::record(unit, entry.clone()))?;
        Ok(())
    }
}
