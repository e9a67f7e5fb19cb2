//! Blobs: large content stored under its hash, compressed, and kept while another row refers to it.

use std::borrow::Cow;

use cleveragents_domain::{ContentHash, Timestamp};

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::params;

/// Minimum size in bytes at which content is compressed.
const MIN_COMPRESSED_BYTES: usize = 256;
const COMPRESSION_LEVEL: i32 = 3;

/// Minimum age in seconds before unreferenced content is removed, so that a unit of work that is
/// about to refer to it still finds it.
const GRACE_SECONDS: i64 = 3600;

/// SQL that selects content without references whose grace period is over.
const UNREFERENCED: &str = " FROM blobs WHERE created_at < ?1 \
     AND NOT EXISTS (SELECT 1 FROM tool_invocations WHERE output_hash = blobs.hash OR log_hash = blobs.hash) \
     AND NOT EXISTS (SELECT 1 FROM validation_results WHERE output_hash = blobs.hash) \
     AND NOT EXISTS (SELECT 1 FROM change_entries WHERE before_hash = blobs.hash OR after_hash = blobs.hash)";

/// Stores content once and returns its hash.
pub fn put(unit: &mut UnitOfWork<'_>, content: &[u8]) -> Result<ContentHash, Error> {
    let hash = ContentHash::of_bytes(content);
    let packed = (content.len() >= MIN_COMPRESSED_BYTES)
        .then(|| zstd::bulk::compress(content, COMPRESSION_LEVEL))
        .transpose()
        .map_err(|error| Error::Internal(format!("content does not compress: {error}")))?
        .filter(|packed| packed.len() < content.len());
    let (encoding, stored) = match packed {
        Some(packed) => ("zstd", Cow::Owned(packed)),
        None => ("raw", Cow::Borrowed(content)),
    };
    let now = unit.now();
    // Content that already exists starts a new grace period.
    unit.execute(
        "INSERT INTO blobs (hash, size, encoding, content, created_at) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (hash) DO UPDATE SET created_at = excluded.created_at",
        params![hash, content.len() as u64, encoding, stored.as_ref(), now],
    )?;
    Ok(hash)
}

/// Returns the content with this hash, verified against it. `None` when it is not stored.
pub fn get(reader: &mut dyn Reader, hash: ContentHash) -> Result<Option<Vec<u8>>, Error> {
    let row = reader.query_first(
        "SELECT size, encoding, content FROM blobs WHERE hash = ?1",
        params![hash],
    )?;
    let Some(mut row) = row else {
        return Ok(None);
    };
    let size: u64 = row.take()?;
    let encoding: String = row.take()?;
    let stored: Vec<u8> = row.take()?;
    let altered = || Error::Blob {
        hash: hash.to_string(),
        problem: "altered",
    };
    let content = if encoding == "zstd" {
        let size = usize::try_from(size).map_err(|_| altered())?;
        zstd::bulk::decompress(&stored, size).map_err(|_| altered())?
    } else {
        stored
    };
    if ContentHash::of_bytes(&content) != hash {
        return Err(altered());
    }
    Ok(Some(content))
}

/// Number and stored size, in bytes, of blobs without references.
pub fn unreferenced(reader: &mut dyn Reader, now: Timestamp) -> Result<(u64, u64), Error> {
    let before = now.plus_seconds(-GRACE_SECONDS);
    let sql =
        format!("SELECT COUNT(*), CAST(COALESCE(SUM(LENGTH(content)), 0) AS BIGINT){UNREFERENCED}");
    let mut row = reader
        .query_first(&sql, params![before])?
        .ok_or_else(|| Error::stored("a count", "is missing"))?;
    Ok((row.take()?, row.take()?))
}

/// Removes content without references and returns the number of blobs removed.
pub fn collect(unit: &mut UnitOfWork<'_>) -> Result<u64, Error> {
    let before = unit.now().plus_seconds(-GRACE_SECONDS);
    unit.execute(&format!("DELETE{UNREFERENCED}"), params![before])
}
