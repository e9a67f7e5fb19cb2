-- Sessions, messages, plans, changesets, tool invocations, leases, events and blobs.
--
-- Times are microseconds since the epoch, ids are ULIDs, JSON is text. The rules of concurrency
-- are here: numbers are unique where they must be, states are checked, children go with their parent.

CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY NOT NULL,
    name TEXT,
    actor TEXT,
    namespace TEXT NOT NULL,
    automation TEXT NOT NULL,
    next_sequence INTEGER NOT NULL DEFAULT 0 CHECK (next_sequence >= 0),
    content_bytes INTEGER NOT NULL DEFAULT 0 CHECK (content_bytes >= 0),
    input_tokens INTEGER NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
    output_tokens INTEGER NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
    cost_micro_usd INTEGER NOT NULL DEFAULT 0 CHECK (cost_micro_usd >= 0),
    forked_from TEXT,
    forked_at INTEGER CHECK (forked_at >= 0),
    version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    position INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    state TEXT NOT NULL CHECK (state IN ('complete', 'failed')),
    content TEXT NOT NULL CHECK (content <> ''),
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (session_id, sequence)
) STRICT;

CREATE TABLE session_plans (
    session_id TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    plan_id TEXT NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (session_id, plan_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE plans (
    plan_id TEXT PRIMARY KEY NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE changesets (
    changeset_id TEXT PRIMARY KEY NOT NULL,
    plan_id TEXT NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    next_entry INTEGER NOT NULL DEFAULT 0 CHECK (next_entry >= 0),
    opened_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX changesets_plan ON changesets (plan_id, changeset_id);

CREATE TABLE tool_invocations (
    invocation_id TEXT PRIMARY KEY NOT NULL,
    plan_id TEXT REFERENCES plans (plan_id) ON DELETE CASCADE,
    session_id TEXT REFERENCES sessions (session_id) ON DELETE CASCADE,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('running', 'succeeded', 'failed', 'refused')),
    output_hash TEXT,
    error TEXT,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    CHECK ((outcome = 'running') = (finished_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX tool_invocations_plan ON tool_invocations (plan_id, invocation_id);
CREATE INDEX tool_invocations_session ON tool_invocations (session_id, invocation_id);

CREATE TABLE change_entries (
    changeset_id TEXT NOT NULL REFERENCES changesets (changeset_id) ON DELETE CASCADE,
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

CREATE INDEX change_entries_invocation ON change_entries (invocation_id);

CREATE TABLE leases (
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    token INTEGER NOT NULL CHECK (token >= 1),
    owner_process TEXT,
    owner_host TEXT,
    owner_pid INTEGER,
    owner_started INTEGER,
    acquired_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (kind, subject_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    payload TEXT NOT NULL,
    occurred_at INTEGER NOT NULL
) STRICT;

CREATE TABLE blobs (
    hash TEXT PRIMARY KEY NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    encoding TEXT NOT NULL CHECK (encoding IN ('raw', 'zstd')),
    content BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Full-text search. Appending a message does not pay for it: a search first indexes the messages
-- behind the mark, and removing an indexed message takes it out of the index.
CREATE VIRTUAL TABLE message_search USING fts5 (
    content, content = 'messages', content_rowid = 'position', tokenize = 'unicode61 remove_diacritics 2'
);

CREATE TABLE search_mark (
    only INTEGER PRIMARY KEY NOT NULL CHECK (only = 1),
    indexed_through INTEGER NOT NULL
) STRICT;

INSERT INTO search_mark (only, indexed_through) VALUES (1, 0);

CREATE TRIGGER messages_unindex AFTER DELETE ON messages
WHEN old.position <= (SELECT indexed_through FROM search_mark)
BEGIN
    INSERT INTO message_search (message_search, rowid, content) VALUES ('delete', old.position, old.content);
END;
