//! Salvages readable rows from a damaged database file.
//!
//! The file and its log are renamed, never deleted. A new database is created in their place, and each table of the old
//! one is read from its beginning and, where damage stops that, from its end. Messages whose session is lost get a new
//! session. An unreadable message leaves a placeholder under its number, so that the other messages keep their numbers
//! and no gap remains.

use std::path::{Path, PathBuf};

use cleveragents_domain::{MessageId, Timestamp};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::connection::{Access, open, translate};
use super::prepare_file;
use crate::Options;
use crate::error::Error;
use crate::maintenance::companion_path;
use crate::migrate::Policy;

/// Result of a salvage.
pub(crate) struct Salvage {
    pub(crate) set_aside: PathBuf,
    pub(crate) saved: Vec<(String, u64)>,
    pub(crate) incomplete: Vec<String>,
    pub(crate) lost_messages: u64,
}

/// Placeholder text of an unreadable message.
const LOST_MESSAGE: &str = "[this message could not be read from the damaged database]";

/// Maximum number of messages that a session may count beyond its last readable message. A larger count is treated as
/// damaged.
const MAX_EXCESS: i64 = 100_000;

/// Tables that are not copied: the new file has its own list of migrations, and the search index is rebuilt.
const NOT_COPIED: &str = "name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'message\\_search%' ESCAPE '\\' \
     AND name NOT LIKE 'work\\_item\\_search%' ESCAPE '\\' AND name NOT IN ('schema_migrations', 'search_mark')";

/// The table whose only row a new database already has; the old row replaces it.
const SINGLE_ROW: &str = "audit_head";

/// Runs after the copy: creates sessions and plans for orphaned rows, sets counters to match the rows, and removes
/// dangling rows that no foreign key declares. [`fill_gaps`] sets the counters of sessions.
const REPAIR_SQL: &str = "
    INSERT INTO sessions (session_id, name, namespace, automation, created_at, updated_at)
        SELECT session_id, 'recovered', 'local', 'supervised', MIN(created_at), MAX(created_at)
        FROM messages WHERE session_id NOT IN (SELECT session_id FROM sessions) GROUP BY session_id;
    INSERT INTO plans (plan_id, phase, state, created_at, updated_at)
        SELECT DISTINCT plan_id, 'strategize', 'queued', MIN(opened_at), MAX(opened_at)
        FROM changesets WHERE plan_id NOT IN (SELECT plan_id FROM plans) GROUP BY plan_id;
    DELETE FROM change_entries WHERE changeset_id NOT IN (SELECT changeset_id FROM changesets);
    DELETE FROM session_plans WHERE session_id NOT IN (SELECT session_id FROM sessions);
    DELETE FROM turns WHERE session_id NOT IN (SELECT session_id FROM sessions);
    DELETE FROM turn_steps WHERE turn_id NOT IN (SELECT turn_id FROM turns);
    UPDATE tool_invocations SET turn_id = NULL WHERE turn_id NOT IN (SELECT turn_id FROM turns);
    UPDATE tool_invocations SET plan_id = NULL WHERE plan_id NOT IN (SELECT plan_id FROM plans);
    UPDATE tool_invocations SET session_id = NULL WHERE session_id NOT IN (SELECT session_id FROM sessions);
    UPDATE change_entries SET invocation_id = NULL WHERE invocation_id NOT IN (SELECT invocation_id FROM tool_invocations);
    UPDATE changesets SET next_entry = COALESCE((SELECT MAX(number) + 1 FROM change_entries
        WHERE change_entries.changeset_id = changesets.changeset_id), 0);
    UPDATE resource_types SET inherits_custom = NULL WHERE inherits_custom NOT IN (SELECT name FROM resource_types);
    UPDATE resources SET custom_type = NULL WHERE custom_type NOT IN (SELECT name FROM resource_types);
    DELETE FROM resource_links WHERE parent_id NOT IN (SELECT resource_id FROM resources)
        OR child_id NOT IN (SELECT resource_id FROM resources);
    DELETE FROM project_links WHERE project_id NOT IN (SELECT project_id FROM projects)
        OR resource_id NOT IN (SELECT resource_id FROM resources);
    DELETE FROM sandboxes WHERE changeset_id NOT IN (SELECT changeset_id FROM changesets);
    DELETE FROM sandbox_members WHERE sandbox_id NOT IN (SELECT sandbox_id FROM sandboxes);
    DELETE FROM sandbox_checkpoints WHERE sandbox_id NOT IN (SELECT sandbox_id FROM sandboxes);
    DELETE FROM run_steps WHERE run_id NOT IN (SELECT run_id FROM runs);
    DELETE FROM actor_contexts WHERE session_id NOT IN (SELECT session_id FROM sessions);
    DELETE FROM reservations WHERE scope NOT IN (SELECT scope FROM budgets);
    UPDATE audit_head SET (number, hash) = (SELECT number, hash FROM audit_entries ORDER BY number DESC LIMIT 1)
        WHERE EXISTS (SELECT 1 FROM audit_entries WHERE audit_entries.number > audit_head.number);
";

/// Renames a damaged database and copies its readable rows into a new one.
pub(crate) fn set_aside_and_salvage(path: &Path, options: &Options) -> Result<Salvage, Error> {
    let stamp = Timestamp::now().as_micros();
    let set_aside = companion_path(path, &format!(".damaged-{stamp}"));
    rename(path, &set_aside)?;
    for suffix in ["-wal", "-shm"] {
        let companion = companion_path(path, suffix);
        if companion.exists() {
            rename(&companion, &companion_path(&set_aside, suffix))?;
        }
    }
    let fresh = prepare_file(path, options, Policy::Upgrade)?;
    let (mut saved, mut incomplete) = (Vec::new(), Vec::new());
    let mut lost_messages = 0;
    let broken = |error| translate(&path.display().to_string(), error);
    if let Ok(old) = open(&set_aside, Access::Read, options.busy_timeout) {
        lost_messages = copy_all(&old, &fresh, &mut saved, &mut incomplete).map_err(broken)?;
    } else {
        let all = tables(&fresh).map_err(broken)?;
        incomplete.extend(all.into_iter().map(|table| table.name));
    }
    Ok(Salvage {
        set_aside,
        saved,
        incomplete,
        lost_messages,
    })
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs_err::rename(from, to).map_err(|error| Error::file(from, &error))
}

fn copy_all(
    old: &Connection,
    fresh: &Connection,
    saved: &mut Vec<(String, u64)>,
    incomplete: &mut Vec<String>,
) -> rusqlite::Result<u64> {
    fresh.execute_batch("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")?;
    let tables = tables(fresh)?;
    for table in &tables {
        if !has_table(old, &table.name) {
            saved.push((table.name.clone(), 0));
            continue;
        }
        let forward = copy_table(old, fresh, table, "ASC");
        let mut count = forward.rows;
        if !forward.complete {
            count += copy_table(old, fresh, table, "DESC").rows;
            incomplete.push(table.name.clone());
        }
        saved.push((table.name.clone(), count));
    }
    fresh.execute_batch(REPAIR_SQL)?;
    remove_dangling_rows(fresh, &tables)?;
    let lost = fill_gaps(fresh)?;
    fresh.execute_batch("COMMIT; PRAGMA foreign_keys = ON")?;
    Ok(lost)
}

/// A table of the schema.
struct TableKey {
    name: String,
    /// Columns of the primary key. Events and messages keep their positions in the copy, so that a reader that resumes
    /// after a position continues at the right place.
    key: Vec<String>,
}

/// Every table that is copied, in the order of its creation.
fn tables(fresh: &Connection) -> rusqlite::Result<Vec<TableKey>> {
    let mut names = fresh.prepare(&format!(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND {NOT_COPIED} ORDER BY rowid"
    ))?;
    let mut columns =
        fresh.prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?;
    let names = names.query_map([], |row| row.get(0))?;
    let names = names.collect::<rusqlite::Result<Vec<String>>>()?;
    names
        .into_iter()
        .map(|name| {
            let key = columns.query_map([&name], |row| row.get(0))?;
            let key = key.collect::<rusqlite::Result<_>>()?;
            Ok(TableKey { name, key })
        })
        .collect()
}

/// A foreign key of a table: its columns, and those of the parent.
struct ForeignKey {
    parent: String,
    columns: Vec<(String, String)>,
    sets_null: bool,
}

/// Deletes rows whose parent could not be read, or clears the reference if the foreign key is declared `ON DELETE SET
/// NULL`. Repeats until no row has a missing parent.
fn remove_dangling_rows(fresh: &Connection, tables: &[TableKey]) -> rusqlite::Result<()> {
    let mut statements = Vec::new();
    for table in tables {
        for key in foreign_keys(fresh, &table.name)? {
            statements.push(dangling_statement(&table.name, &key));
        }
    }
    loop {
        let mut changed = 0;
        for statement in &statements {
            changed += fresh.execute(statement, [])?;
        }
        if changed == 0 {
            return Ok(());
        }
    }
}

fn foreign_keys(fresh: &Connection, table: &str) -> rusqlite::Result<Vec<ForeignKey>> {
    let mut select = fresh.prepare(
        "SELECT id, \"table\", \"from\", \"to\", on_delete FROM pragma_foreign_key_list(?1) ORDER BY id, seq",
    )?;
    let mut rows = select.query([table])?;
    let mut keys: Vec<ForeignKey> = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let (parent, from): (String, String) = (row.get(1)?, row.get(2)?);
        // A foreign key that names no column of the parent refers to its primary key, whose column has the same name.
        let to = row
            .get::<_, Option<String>>(3)?
            .unwrap_or_else(|| from.clone());
        let sets_null = row.get::<_, String>(4)? == "SET NULL";
        match keys.last_mut() {
            Some(key) if last == Some(id) => key.columns.push((from, to)),
            _ => keys.push(ForeignKey {
                parent,
                columns: vec![(from, to)],
                sets_null,
            }),
        }
        last = Some(id);
    }
    Ok(keys)
}

fn dangling_statement(table: &str, key: &ForeignKey) -> String {
    let join = |each: &dyn Fn(&(String, String)) -> String, separator: &str| {
        let parts: Vec<String> = key.columns.iter().map(each).collect();
        parts.join(separator)
    };
    let is_set = join(&|(from, _)| format!("{table}.{from} IS NOT NULL"), " AND ");
    let is_equal = join(
        &|(from, to)| format!("parent.{to} = {table}.{from}"),
        " AND ",
    );
    let condition = format!(
        "{is_set} AND NOT EXISTS (SELECT 1 FROM {} parent WHERE {is_equal})",
        key.parent
    );
    if key.sets_null {
        let cleared = join(&|(from, _)| format!("{from} = NULL"), ", ");
        format!("UPDATE {table} SET {cleared} WHERE {condition}")
    } else {
        format!("DELETE FROM {table} WHERE {condition}")
    }
}

/// Whether the old file has a table; a file of an older version has fewer tables. If the list of tables cannot be read,
/// the table is assumed to exist, and reading it then fails.
fn has_table(old: &Connection, table: &str) -> bool {
    let count = old.query_row(
        "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1",
        [table],
        |row| row.get::<_, i64>(0),
    );
    count.map_or(true, |count| count > 0)
}

/// Inserts a placeholder for every missing message number and returns their count.
fn fill_gaps(fresh: &Connection) -> rusqlite::Result<u64> {
    let mut sessions = fresh.prepare(
        "SELECT session.session_id, session.next_sequence, COUNT(message.sequence), COALESCE(MAX(message.sequence) + 1, 0)
         FROM sessions session LEFT JOIN messages message ON message.session_id = session.session_id
         GROUP BY session.session_id, session.next_sequence",
    )?;
    let rows = sessions.query_map([], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, i64>(3)?,
        ))
    })?;
    let mut numbers =
        fresh.prepare("SELECT sequence FROM messages WHERE session_id = ?1 ORDER BY sequence")?;
    let mut insert = fresh.prepare(
        "INSERT INTO messages (message_id, session_id, sequence, role, state, content, metadata, created_at)
         VALUES (?1, ?2, ?3, 'system', 'failed', ?4, '{}', ?5)",
    )?;
    let mut update_counters = fresh.prepare(
        "UPDATE sessions SET next_sequence = ?2, content_bytes = COALESCE((SELECT SUM(LENGTH(CAST(content AS BLOB)))
         FROM messages WHERE messages.session_id = sessions.session_id), 0) WHERE session_id = ?1",
    )?;
    let (mut lost, now) = (0, Timestamp::now().as_micros());
    for row in rows.collect::<rusqlite::Result<Vec<_>>>()? {
        let (session, counted, present, after_last) = row;
        let end = if counted > after_last + MAX_EXCESS {
            after_last
        } else {
            counted.max(after_last)
        };
        if present < end {
            let existing: Vec<i64> = numbers
                .query_map([&session], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut existing = existing.into_iter().peekable();
            for number in 0..end {
                if existing.next_if_eq(&number).is_none() {
                    let id = MessageId::generate().to_string();
                    lost +=
                        insert.execute(rusqlite::params![id, session, number, LOST_MESSAGE, now])?
                            as u64;
                }
            }
        }
        update_counters.execute(rusqlite::params![session, end])?;
    }
    Ok(lost)
}

struct CopiedRows {
    rows: u64,
    complete: bool,
}

/// Copies rows until the table ends or damage stops the reading.
fn copy_table(
    old: &Connection,
    fresh: &Connection,
    TableKey { name: table, key }: &TableKey,
    direction: &str,
) -> CopiedRows {
    let order: Vec<String> = key
        .iter()
        .map(|column| format!("{column} {direction}"))
        .collect();
    let order = order.join(", ");
    let insert_or = if table == SINGLE_ROW {
        "REPLACE"
    } else {
        "IGNORE"
    };
    let mut copied = CopiedRows {
        rows: 0,
        complete: false,
    };
    let outcome = (|| -> rusqlite::Result<()> {
        let mut select = old.prepare(&format!("SELECT * FROM {table} ORDER BY {order}"))?;
        let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
        let placeholders = (1..=columns.len())
            .map(|number| format!("?{number}"))
            .collect::<Vec<_>>()
            .join(", ");
        let mut insert = fresh.prepare(&format!(
            "INSERT OR {insert_or} INTO {table} ({}) VALUES ({placeholders})",
            columns.join(", ")
        ))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let values = (0..columns.len())
                .map(|column| row.get(column))
                .collect::<rusqlite::Result<Vec<Value>>>()?;
            // A row that violates a constraint of the schema counts as damaged and is not copied.
            copied.rows += insert
                .execute(rusqlite::params_from_iter(values))
                .unwrap_or(0) as u64;
        }
        Ok(())
    })();
    copied.complete = outcome.is_ok();
    copied
}
