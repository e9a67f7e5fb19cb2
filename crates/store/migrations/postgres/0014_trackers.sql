-- Trackers: sources of work items, and writes that wait for their tracker.

CREATE TABLE item_sources (
    name TEXT COLLATE "C" PRIMARY KEY NOT NULL CHECK (name <> ''),
    namespace TEXT COLLATE "C" NOT NULL CHECK (namespace <> ''),
    -- Full name of the project whose items it has.
    project TEXT COLLATE "C" NOT NULL CHECK (project <> ''),
    kind TEXT NOT NULL CHECK (kind IN ('forgejo', 'github', 'markdown')),
    -- Address of a repository, or path of a folder.
    address TEXT NOT NULL CHECK (address <> ''),
    -- Name of the variable that holds the token.
    credential TEXT,
    -- JSON object: labels of values of typed fields.
    labels TEXT NOT NULL,
    -- Whether changes of items are written to the tracker.
    mirrors BIGINT NOT NULL CHECK (mirrors IN (0, 1)),
    created_at BIGINT NOT NULL,
    synced_at BIGINT,
    -- Number of issues of the last complete listing.
    total BIGINT,
    last_error TEXT
);

-- A project has at most one tracker that its changes are written to.
CREATE UNIQUE INDEX item_sources_mirror ON item_sources (project) WHERE mirrors = 1;

-- The outbox. The rows of a subject wait for its row `create`, and those of one action for each other.
CREATE TABLE tracker_outbox (
    -- Also the idempotency key at the tracker.
    write_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    source TEXT COLLATE "C" NOT NULL REFERENCES item_sources (name) ON DELETE CASCADE,
    -- `item:ID` or `pool:NAME`.
    subject TEXT COLLATE "C" NOT NULL CHECK (subject <> ''),
    -- Names the change that the write mirrors; one write for each change.
    change_key TEXT COLLATE "C" NOT NULL CHECK (change_key <> ''),
    item_id TEXT COLLATE "C" REFERENCES work_items (item_id) ON DELETE CASCADE,
    action TEXT NOT NULL CHECK (action IN ('create', 'comment', 'fields', 'status')),
    -- JSON.
    payload TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'delivered', 'refused')),
    -- Number of started attempts; also the fencing token of the last one.
    attempts BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_at BIGINT NOT NULL,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    finished_at BIGINT,
    UNIQUE (source, change_key),
    CHECK ((state = 'waiting') = (finished_at IS NULL))
);

CREATE INDEX tracker_outbox_due ON tracker_outbox (next_at) WHERE state = 'waiting';
CREATE INDEX tracker_outbox_subject ON tracker_outbox (source, subject, write_id) WHERE state = 'waiting';
CREATE INDEX tracker_outbox_item ON tracker_outbox (item_id);

-- The record of a pool at a tracker, which is updated in place.
CREATE TABLE tracker_status_records (
    source TEXT COLLATE "C" NOT NULL REFERENCES item_sources (name) ON DELETE CASCADE,
    pool TEXT COLLATE "C" NOT NULL CHECK (pool <> ''),
    external_id TEXT COLLATE "C",
    -- Hash of the text that was enqueued last.
    content_hash TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (source, pool)
);
