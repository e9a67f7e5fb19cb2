//! [`AuditService`]: the account of who did what, to be read and to be verified.

use std::sync::Arc;

use cleveragents_domain::{AuditEntry, NewAuditEntry, audit_kinds, nearest};
use cleveragents_store::Engine;
use cleveragents_store::audit::{self, AuditFilter, Verdict};
use serde_json::json;

use super::error::AuditError;

/// What verifying found: that every entry is as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditCheck {
    /// How many entries there are.
    pub count: u64,
    /// The hash of the last one. Who notes it elsewhere can tell later whether the end was cut off.
    pub head: String,
}

/// Reads and verifies the account.
#[derive(Clone)]
pub struct AuditService {
    engine: Arc<Engine>,
}

impl AuditService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Entries that match, the newest first. A kind that this program does not know is refused, unless another version
    /// of it wrote such entries.
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

    /// Walks the whole chain. With `expected` its end must be the entry with that hash, or come after it.
    pub fn verify(&self, expected: Option<&str>) -> Result<AuditCheck, AuditError> {
        let (count, head) = match self.engine.read(audit::verify)? {
            Verdict::Whole { count, head } => (count, head),
            Verdict::Broken { number, reason } => {
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

    /// Writes down that a key of the configuration was changed. The values come without their secrets.
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
        self.engine
            .write(move |unit| audit::record(unit, entry.clone()))?;
        Ok(())
    }
}
