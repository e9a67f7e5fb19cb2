-- Trackers: sources of work items, and writes that wait for their tracker.

CREATE TABLE item_sources (
    name TEXT PRIMARY KEY NOT NULL CHECK (name <> ''),
    namespace TEXT NOT NULL CHECK (namespace <> ''),
    -- Full name of the project whose items it has.
    project TEXT NOT NULL CHECK (project <> ''),
    kind TEXT NOT NULL CHECK (kind IN ('forgejo', 'github', 'markdown')),
    -- Address of a repository, or path of a folder.
    address TEXT NOT NULL CHECK (address <> ''),
    -- Name of the variable that holds the token.
    credential TEXT,
    -- JSON object: labels of values of typed fields.
    labels TEXT NOT NULL,
    -- Whether changes of items are written to the tracker.
    mirrors INTEGER NOT NULL CHECK (mirrors IN (0, 1)),
    created_at INTEGER NOT NULL,
    synced_at INTEGER,
    -- Number of issues of the last complete listing.
    total INTEGER,
    last_error TEXT
) STRICT, WITHOUT ROWID;

-- A project has at most one tracker that its changes are written to.
CREATE UNIQUE INDEX item_sources_mirror ON item_sources (project) WHERE mirrors = 1;

-- The outbox. The rows of a subject wait for its row `create`, and those of one action for each other.
CREATE TABLE tracker_outbox (
    -- Also the idempotency key at the tracker.
    write_id TEXT PRIMARY KEY NOT NULL,
    source TEXT NOT NULL REFERENCES item_sources (name) ON DELETE CASCADE,
    -- `item:ID` or `pool:NAME`.
    subject TEXT NOT NULL CHECK (subject <> ''),
    -- Names the change that the write mirrors; one write for each change.
    change_key TEXT NOT NULL CHECK (change_key <> ''),
    item_id TEXT REFERENCES work_items (item_id) ON DELETE CASCADE,
    action TEXT NOT NULL CHECK (action IN ('create', 'comment', 'fields', 'status')),
    -- JSON.
    payload TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'delivered', 'refused')),
    -- Number of started attempts; also the fencing token of the last one.
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_at INTEGER NOT NULL,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    UNIQUE (source, change_key),
    CHECK ((state = 'waiting') = (finished_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX tracker_outbox_due ON tracker_outbox (next_at) WHERE state = 'waiting';
CREATE INDEX tracker_outbox_subject ON tracker_outbox (source, subject, write_id) WHERE state = 'waiting';
CREATE INDEX tracker_outbox_item ON tracker_outbox (item_id);

-- The record of a pool at a tracker, which is updated in place.
CREATE TABLE tracker_status_records (
    source TEXT NOT NULL REFERENCES item_sources (name) ON DELETE CASCADE,
    pool TEXT NOT NULL CHECK (pool <> ''),
    external_id TEXT,
    -- Hash of the text that was enqueued last.
    content_hash TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (source, pool)
) STRICT, WITHOUT ROWID;
