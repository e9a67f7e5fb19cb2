//! The audit log: entries that each carry the hash of the previous one.
//!
//! Changing, removing or moving an entry breaks the chain from there on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AuditEntryId, ContentHash, EventKind, Timestamp};

/// Value of `previous_hash` in the first entry.
pub const AUDIT_BEGINNING: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

/// Entry kinds without a corresponding event: those written for callers of a server and for configuration changes.
const KINDS_WITHOUT_EVENT: [&str; 4] = [
    "access_denied",
    "auth_failure",
    "auth_success",
    "config_changed",
];

/// All kinds of entries, sorted.
pub fn audit_kinds() -> Vec<&'static str> {
    let audited = EventKind::ALL.iter().filter_map(|kind| kind.audited());
    let mut kinds: Vec<&str> = audited.chain(KINDS_WITHOUT_EVENT).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// An entry to append.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAuditEntry {
    /// Kind of the action, such as `plan_applied`.
    pub kind: &'static str,
    /// Identity that performed the action.
    pub identity: String,
    /// Namespace, if any.
    pub namespace: Option<String>,
    /// Subject of the action, such as `plan 01J…`.
    pub subject: Option<String>,
    /// Further facts.
    pub details: Value,
}

/// One entry of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Number, from 1 without gaps.
    pub number: u64,
    pub entry_id: AuditEntryId,
    /// Kind of the action.
    pub kind: String,
    /// Identity that performed the action.
    pub identity: String,
    /// Namespace, if any.
    pub namespace: Option<String>,
    /// Subject of the action.
    pub subject: Option<String>,
    /// Further facts, as stored text, because the hash covers its bytes.
    pub details: String,
    /// Time of the action.
    pub occurred_at: Timestamp,
    pub previous_hash: String,
    /// Hash of this entry.
    pub hash: String,
}

impl AuditEntry {
    /// Computes the hash that the entry must have. Each field is hashed with its length, so that no text can move from
    /// one field to another.
    pub fn expected_hash(&self) -> String {
        let absent_or = |part: &Option<String>| match part {
            Some(text) => format!("+{text}"),
            None => "-".to_owned(),
        };
        let parts = [
            self.previous_hash.clone(),
            self.number.to_string(),
            self.entry_id.to_string(),
            self.kind.clone(),
            self.identity.clone(),
            absent_or(&self.namespace),
            absent_or(&self.subject),
            self.details.clone(),
            self.occurred_at.to_string(),
        ];
        let mut text = String::new();
        for part in &parts {
            text.push_str(&part.len().to_string());
            text.push(':');
            text.push_str(part);
        }
        ContentHash::of_bytes(text.as_bytes()).hex()
    }

    /// Whether the entry follows the previous one and is unchanged.
    pub fn follows(&self, number: u64, hash: &str) -> bool {
        self.number == number + 1 && self.previous_hash == hash && self.hash == self.expected_hash()
    }
}

#[cfg(test)]
mod tests {
    use super::{AUDIT_BEGINNING, AuditEntry};
    use crate::{AuditEntryId, Timestamp};

    fn entry() -> AuditEntry {
        let mut entry = AuditEntry {
            number: 1,
            entry_id: AuditEntryId::generate(),
            kind: "plan_applied".to_owned(),
            identity: "ada".to_owned(),
            namespace: Some("acme".to_owned()),
            subject: None,
            details: "{}".to_owned(),
            occurred_at: Timestamp::now(),
            previous_hash: AUDIT_BEGINNING.to_owned(),
            hash: String::new(),
        };
        entry.hash = entry.expected_hash();
        entry
    }

    #[test]
    fn defect_5809_every_change_of_an_entry_is_detected() {
        assert!(entry().follows(0, AUDIT_BEGINNING));
        let changes: [fn(&mut AuditEntry); 8] = [
            |entry| entry.number += 1,
            |entry| entry.entry_id = AuditEntryId::generate(),
            |entry| entry.kind = "plan_cancelled".to_owned(),
            |entry| entry.identity.push('x'),
            |entry| entry.namespace = None,
            |entry| entry.subject = Some(String::new()),
            |entry| entry.details = "{} ".to_owned(),
            |entry| entry.previous_hash = "1".repeat(64),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut entry = entry();
            change(&mut entry);
            assert!(!entry.follows(0, AUDIT_BEGINNING), "change {index}");
        }
    }

    #[test]
    fn moving_text_between_fields_changes_the_hash() {
        let mut left = entry();
        left.kind = "ab".to_owned();
        left.identity = "c".to_owned();
        let mut right = left.clone();
        right.kind = "a".to_owned();
        right.identity = "bc".to_owned();
        assert_ne!(left.expected_hash(), right.expected_hash());
    }
}
