//! The account of who did what: entries that each carry the hash of the one before.
//!
//! To change, remove or move an entry is to break the chain from there on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AuditEntryId, ContentHash, EventKind, Timestamp};

/// The hash before the first entry.
pub const AUDIT_BEGINNING: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

/// The kinds of entries that no event stands behind: what callers of a server, and changes of the configuration, leave.
const KINDS_WITHOUT_EVENT: [&str; 4] = [
    "access_denied",
    "auth_failure",
    "auth_success",
    "config_changed",
];

/// Every kind of entry there can be, in order.
pub fn audit_kinds() -> Vec<&'static str> {
    let audited = EventKind::ALL.iter().filter_map(|kind| kind.audited());
    let mut kinds: Vec<&str> = audited.chain(KINDS_WITHOUT_EVENT).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// What is to be written down.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAuditEntry {
    /// What kind of thing happened, such as `plan_applied`.
    pub kind: &'static str,
    /// Who did it.
    pub identity: String,
    /// Where, if it was in a namespace.
    pub namespace: Option<String>,
    /// What it was done to, such as `plan 01J…`.
    pub subject: Option<String>,
    /// The rest.
    pub details: Value,
}

/// One entry of the account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its place, from 1 and without gap.
    pub number: u64,
    /// Its id.
    pub entry_id: AuditEntryId,
    /// What kind of thing happened.
    pub kind: String,
    /// Who did it.
    pub identity: String,
    /// Where, if it was in a namespace.
    pub namespace: Option<String>,
    /// What it was done to.
    pub subject: Option<String>,
    /// The rest, as the text that is stored: the hash is over its bytes.
    pub details: String,
    /// When.
    pub occurred_at: Timestamp,
    /// The hash of the entry before.
    pub previous_hash: String,
    /// The hash of this one.
    pub hash: String,
}

impl AuditEntry {
    /// The hash that the entry must have. Each part goes in with its length, so that nothing can move from one
    /// part to another.
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
        ContentHash::of(text.as_bytes()).hex()
    }

    /// Whether the entry follows the one before, and is as it was written.
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
    fn defect_5809_every_change_of_an_entry_is_noticed() {
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
    fn nothing_can_move_from_one_part_to_another() {
        let mut one = entry();
        one.kind = "ab".to_owned();
        one.identity = "c".to_owned();
        let mut other = one.clone();
        other.kind = "a".to_owned();
        other.identity = "bc".to_owned();
        assert_ne!(one.expected_hash(), other.expected_hash());
    }
}
