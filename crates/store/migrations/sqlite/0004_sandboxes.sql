-- Sandboxes, what they hold, their checkpoints; changesets that belong to no plan.

-- A changeset may now be a sandbox's instead of a plan's. SQLite cannot drop NOT NULL, so the table
-- and the one that refers to it are made anew.
CREATE TABLE changesets_new (
    changeset_id TEXT PRIMARY KEY NOT NULL,
    plan_id TEXT REFERENCES plans (plan_id) ON DELETE CASCADE,
    next_entry INTEGER NOT NULL DEFAULT 0 CHECK (next_entry >= 0),
    opened_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO changesets_new (changeset_id, plan_id, next_entry, opened_at, closed_at)
SELECT changeset_id, plan_id, next_entry, opened_at, closed_at FROM changesets;

CREATE TABLE change_entries_new (
    changeset_id TEXT NOT NULL REFERENCES changesets_new (changeset_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    operation TEXT NOT NULL CHECK (operation IN ('create', 'modify', 'delete', 'rename', 'mode')),
    resource TEXT NOT NULL CHECK (resource <> ''),
    path TEXT NOT NULL CHECK (path <> ''),
    new_path TEXT,
    before_hash TEXT,
    before_size INTEGER,
    after_hash TEXT,
    after_size INTEGER,
    before_mode INTEGER,
    after_mode INTEGER,
    tool TEXT,
    invocation_id TEXT REFERENCES tool_invocations (invocation_id) ON DELETE SET NULL,
    actor_node TEXT,
    recorded_at INTEGER NOT NULL,
    PRIMARY KEY (changeset_id, number)
) STRICT, WITHOUT ROWID;

INSERT INTO change_entries_new (changeset_id, number, operation, resource, path, new_path, before_hash,
    before_size, after_hash, after_size, before_mode, after_mode, tool, invocation_id, actor_node, recorded_at)
SELECT changeset_id, number, operation, resource, path, new_path, before_hash,
    before_size, after_hash, after_size, before_mode, after_mode, tool, invocation_id, actor_node, recorded_at
FROM change_entries;

DROP TABLE change_entries;
DROP TABLE changesets;
ALTER TABLE changesets_new RENAME TO changesets;
ALTER TABLE change_entries_new RENAME TO change_entries;
CREATE INDEX changesets_plan ON changesets (plan_id, changeset_id);
CREATE INDEX change_entries_invocation ON change_entries (invocation_id);

CREATE TABLE sandboxes (
    sandbox_id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL CHECK (name <> ''),
    state TEXT NOT NULL CHECK (state IN ('creating', 'active', 'applying', 'applied', 'discarding', 'discarded')),
    changeset_id TEXT NOT NULL REFERENCES changesets (changeset_id) ON DELETE RESTRICT,
    machine TEXT NOT NULL,
    folder TEXT NOT NULL,
    origin TEXT NOT NULL,
    rolling_back_to INTEGER CHECK (rolling_back_to >= 0),
    result TEXT,
    version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One sandbox of a name at a time; a name is free again once its sandbox has ended.
CREATE UNIQUE INDEX sandboxes_name ON sandboxes (name) WHERE state NOT IN ('applied', 'discarded');
CREATE INDEX sandboxes_changeset ON sandboxes (changeset_id);

CREATE TABLE sandbox_members (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (sandbox_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    alias TEXT NOT NULL CHECK (alias <> ''),
    resource TEXT NOT NULL,
    strategy TEXT NOT NULL,
    location TEXT NOT NULL,
    is_read_only INTEGER NOT NULL CHECK (is_read_only IN (0, 1)),
    base TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, number),
    UNIQUE (sandbox_id, alias)
) STRICT, WITHOUT ROWID;

CREATE TABLE sandbox_checkpoints (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (sandbox_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 1),
    reason TEXT NOT NULL CHECK (reason IN ('created', 'manual', 'before-exec', 'before-rollback')),
    label TEXT,
    position INTEGER NOT NULL CHECK (position >= 0),
    target INTEGER CHECK (target >= 1),
    undone INTEGER NOT NULL DEFAULT 0 CHECK (undone IN (0, 1)),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, number)
) STRICT, WITHOUT ROWID;
