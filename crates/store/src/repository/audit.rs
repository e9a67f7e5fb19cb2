//! The audit log: actions and the identities that performed them. The unit of work of an action writes its entry. Each
//! entry carries the hash of the previous one; database triggers refuse to change or remove entries.

use cleveragents_domain::{AUDIT_BEGINNING, AuditEntry, AuditEntryId, NewAuditEntry, Timestamp};

use super::json_text;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// Number of entries read at a time to verify the chain.
const PAGE: u64 = 1_000;

/// Filter for listing audit entries.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only entries of this kind.
    pub kind: Option<String>,
    /// Only entries by this caller.
    pub identity: Option<String>,
    /// Only entries about this subject.
    pub subject: Option<String>,
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// Only entries with a smaller number.
    pub before: Option<u64>,
    /// Maximum number of entries.
    pub limit: u64,
}

/// Result of verifying the hash chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainVerdict {
    /// Every entry is unchanged.
    Intact {
        /// Number of entries.
        count: u64,
        /// Hash of the last entry.
        head: String,
    },
    /// The chain is broken from this entry on.
    Broken {
        /// Number of the first entry that is missing or was changed.
        number: u64,
        /// Description of the problem.
        reason: &'static str,
    },
}

macro_rules! columns {
    () => {
        "number, entry_id, kind, identity, namespace, subject, details, occurred_at, previous_hash, hash"
    };
}

fn read(mut row: Row) -> Result<AuditEntry, Error> {
    Ok(AuditEntry {
        number: row.take()?,
        entry_id: row.take()?,
        kind: row.take()?,
        identity: row.take()?,
        namespace: row.take()?,
        subject: row.take()?,
        details: row.take()?,
        occurred_at: row.take()?,
        previous_hash: row.take()?,
        hash: row.take()?,
    })
}

/// Appends an entry to the chain.
pub fn record(unit: &mut UnitOfWork<'_>, entry: NewAuditEntry) -> Result<AuditEntry, Error> {
    // The update comes first: it locks the head until the transaction ends, on both databases.
    unit.execute(
        "UPDATE audit_head SET number = number + 1 WHERE one = 1",
        &[],
    )?;
    let mut head = unit
        .query_first("SELECT number, hash FROM audit_head WHERE one = 1", &[])?
        .ok_or_else(|| Error::stored("the audit log", "has no head"))?;
    let mut entry = AuditEntry {
        number: head.take()?,
        entry_id: AuditEntryId::generate(),
        kind: entry.kind.to_owned(),
        identity: entry.identity,
        namespace: entry.namespace,
        subject: entry.subject,
        details: json_text(&entry.details),
        occurred_at: unit.now(),
        previous_hash: head.take()?,
        hash: String::new(),
    };
    entry.hash = entry.expected_hash();
    unit.execute(
        concat!(
            "INSERT INTO audit_entries (",
            columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
        ),
        params![
            entry.number,
            entry.entry_id,
            &entry.kind,
            &entry.identity,
            entry.namespace.as_deref(),
            entry.subject.as_deref(),
            &entry.details,
            entry.occurred_at,
            &entry.previous_hash,
            &entry.hash,
        ],
    )?;
    unit.execute(
        "UPDATE audit_head SET hash = ?1 WHERE one = 1",
        params![&entry.hash],
    )?;
    Ok(entry)
}

/// Lists matching entries, newest first.
pub fn list(reader: &mut dyn Reader, filter: &AuditFilter) -> Result<Vec<AuditEntry>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM audit_entries WHERE (?1 = '' OR kind = ?1) AND (?2 = '' OR identity = ?2) \
                 AND (?3 = '' OR subject = ?3) AND occurred_at >= ?4 \
                 AND number < ?5 ORDER BY number DESC LIMIT ?6"
            ),
            params![
                filter.kind.as_deref().unwrap_or_default(),
                filter.identity.as_deref().unwrap_or_default(),
                filter.subject.as_deref().unwrap_or_default(),
                filter.since.unwrap_or(Timestamp::from_micros(0)),
                filter.before.unwrap_or(i64::MAX.unsigned_abs()),
                filter.limit.min(i64::MAX.unsigned_abs())
            ],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Verifies the whole chain.
pub fn verify(reader: &mut dyn Reader) -> Result<ChainVerdict, Error> {
    let (mut number, mut hash) = (0_u64, AUDIT_BEGINNING.to_owned());
    loop {
        let page = reader.query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM audit_entries WHERE number > ?1 ORDER BY number LIMIT ?2"
            ),
            params![number, PAGE],
        )?;
        let is_last = (page.len() as u64) < PAGE;
        for row in page {
            let entry = read(row)?;
            if entry.number != number + 1 {
                return Ok(ChainVerdict::Broken {
                    number: number + 1,
                    reason: "is missing",
                });
            }
            if !entry.follows(number, &hash) {
                return Ok(ChainVerdict::Broken {
                    number: entry.number,
                    reason: "was changed after it was written",
                });
            }
            (number, hash) = (entry.number, entry.hash);
        }
        if is_last {
            break;
        }
    }
    let head = reader.query_first("SELECT number, hash FROM audit_head WHERE one = 1", &[])?;
    let Some(mut head) = head else {
        return Ok(ChainVerdict::Broken {
            number: number + 1,
            reason: "cannot be verified: the head of the chain is missing",
        });
    };
    let (last, last_hash): (u64, String) = (head.take()?, head.take()?);
    if last != number || last_hash != hash {
        return Ok(ChainVerdict::Broken {
            number: number.min(last) + 1,
            reason: "is missing, or was added outside the program",
        });
    }
    Ok(ChainVerdict::Intact {
        count: number,
        head: hash,
    })
}
