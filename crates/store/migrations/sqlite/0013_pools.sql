-- Pools: work items with their dependencies, sightings, transitions, attempts and reviews; the state of pools, the
-- bases of projects, and alerts.

-- SQLite cannot change a CHECK, so the table is created again; nothing refers to it.
CREATE TABLE definitions_new (
    kind TEXT NOT NULL CHECK (kind IN ('actor', 'skill', 'mcp_server', 'action', 'automation_profile', 'pool')),
    name TEXT NOT NULL CHECK (name <> ''),
    definition TEXT NOT NULL,
    source TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

INSERT INTO definitions_new (kind, name, definition, source, version, created_at, updated_at, archived_at)
SELECT kind, name, definition, source, version, created_at, updated_at, archived_at FROM definitions;

DROP TABLE definitions;
ALTER TABLE definitions_new RENAME TO definitions;

CREATE TABLE work_items (
    position INTEGER PRIMARY KEY,
    item_id TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL CHECK (namespace <> ''),
    -- Full name of the project.
    project TEXT NOT NULL CHECK (project <> ''),
    kind TEXT NOT NULL CHECK (kind IN (
        'bug', 'feature', 'task', 'test', 'refactor', 'documentation', 'epic', 'post_mortem')),
    title TEXT NOT NULL CHECK (title <> ''),
    body TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN (
        'unverified', 'verified', 'captured', 'in_progress', 'in_review', 'approved', 'completed', 'paused',
        'duplicate', 'wont_do', 'needs_person')),
    state_since INTEGER NOT NULL,
    reason TEXT,
    -- State to resume in after a pause.
    resumes_to TEXT,
    priority TEXT NOT NULL CHECK (priority IN ('ci_blocker', 'critical', 'high', 'medium', 'low', 'backlog')),
    milestone TEXT,
    points INTEGER CHECK (points IN (1, 2, 3, 5, 8, 13, 21, 34, 55, 88)),
    moscow TEXT CHECK (moscow IN ('must', 'should', 'could', 'wont_have')),
    severity TEXT CHECK (severity IN ('critical', 'high', 'medium', 'low')),
    -- JSON list.
    labels TEXT NOT NULL,
    -- JSON.
    location TEXT,
    fingerprint TEXT,
    evidence_hash TEXT,
    source TEXT,
    external_id TEXT,
    external_revision TEXT,
    external_url TEXT,
    parent_id TEXT REFERENCES work_items (item_id) ON DELETE SET NULL,
    duplicate_of TEXT REFERENCES work_items (item_id) ON DELETE SET NULL,
    -- Pool that made the open change.
    change_pool TEXT,
    change_plan TEXT,
    change_head TEXT,
    is_captured INTEGER NOT NULL DEFAULT 0 CHECK (is_captured IN (0, 1)),
    -- Grows when a person reopens the item: earlier attempts do not count any more.
    round INTEGER NOT NULL DEFAULT 1 CHECK (round >= 1),
    version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK ((source IS NULL) = (external_id IS NULL)),
    CHECK ((state = 'paused') = (resumes_to IS NOT NULL)),
    CHECK (parent_id <> item_id AND duplicate_of <> item_id)
) STRICT;

-- One open item per defect of a project, whoever reports it and how often.
CREATE UNIQUE INDEX work_items_fingerprint ON work_items (project, fingerprint)
    WHERE fingerprint IS NOT NULL AND state NOT IN ('completed', 'duplicate', 'wont_do');
CREATE INDEX work_items_known ON work_items (project, fingerprint) WHERE fingerprint IS NOT NULL;
CREATE UNIQUE INDEX work_items_external ON work_items (source, external_id) WHERE source IS NOT NULL;
CREATE INDEX work_items_open ON work_items (project, state) WHERE state NOT IN ('completed', 'duplicate', 'wont_do');
CREATE INDEX work_items_newest ON work_items (namespace, item_id);
CREATE INDEX work_items_parent ON work_items (parent_id);
CREATE INDEX work_items_duplicate ON work_items (duplicate_of);
CREATE INDEX work_items_change ON work_items (change_pool, state) WHERE change_pool IS NOT NULL;

CREATE VIRTUAL TABLE work_item_search USING fts5 (
    title, body, content = 'work_items', content_rowid = 'position', tokenize = 'unicode61 remove_diacritics 2'
);

CREATE TRIGGER work_items_index AFTER INSERT ON work_items
BEGIN
    INSERT INTO work_item_search (rowid, title, body) VALUES (new.position, new.title, new.body);
END;
CREATE TRIGGER work_items_reindex AFTER UPDATE OF title, body ON work_items
BEGIN
    INSERT INTO work_item_search (work_item_search, rowid, title, body)
    VALUES ('delete', old.position, old.title, old.body);
    INSERT INTO work_item_search (rowid, title, body) VALUES (new.position, new.title, new.body);
END;
CREATE TRIGGER work_items_unindex AFTER DELETE ON work_items
BEGIN
    INSERT INTO work_item_search (work_item_search, rowid, title, body)
    VALUES ('delete', old.position, old.title, old.body);
END;

CREATE TABLE work_item_dependencies (
    item_id TEXT NOT NULL REFERENCES work_items (item_id) ON DELETE CASCADE,
    depends_on TEXT NOT NULL REFERENCES work_items (item_id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (item_id, depends_on),
    CHECK (item_id <> depends_on)
) STRICT, WITHOUT ROWID;

CREATE INDEX work_item_dependencies_reverse ON work_item_dependencies (depends_on);

CREATE TABLE work_item_sightings (
    item_id TEXT NOT NULL REFERENCES work_items (item_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 1),
    -- JSON.
    finding TEXT NOT NULL,
    plan_id TEXT,
    reported_at INTEGER NOT NULL,
    PRIMARY KEY (item_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE work_item_transitions (
    item_id TEXT NOT NULL REFERENCES work_items (item_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 1),
    from_state TEXT,
    to_state TEXT NOT NULL,
    cause TEXT NOT NULL CHECK (cause IN ('person', 'role', 'rule', 'tracker')),
    caused_by TEXT NOT NULL,
    reason TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (item_id, number),
    CHECK ((number = 1) = (from_state IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX work_item_transitions_time ON work_item_transitions (at);

CREATE TABLE attempts (
    attempt_id TEXT PRIMARY KEY NOT NULL,
    item_id TEXT NOT NULL REFERENCES work_items (item_id) ON DELETE CASCADE,
    pool TEXT NOT NULL CHECK (pool <> ''),
    role TEXT NOT NULL CHECK (role IN ('hunt', 'triage', 'capture', 'fix', 'review', 'merge', 'watch')),
    number INTEGER NOT NULL CHECK (number >= 1),
    round INTEGER NOT NULL CHECK (round >= 1),
    tier TEXT NOT NULL CHECK (tier <> ''),
    actor TEXT NOT NULL CHECK (actor <> ''),
    base TEXT,
    head TEXT,
    plan_id TEXT,
    -- Fencing token of the lease on the item and the role.
    token INTEGER NOT NULL CHECK (token >= 1),
    -- Nothing while it runs.
    outcome TEXT CHECK (outcome IN (
        'succeeded', 'failed_gates', 'empty_change', 'environment_failure', 'red_base', 'blocked', 'cancelled',
        'limit_reached', 'interrupted')),
    reason TEXT,
    -- JSON.
    gates TEXT NOT NULL DEFAULT '[]',
    regression TEXT,
    summary TEXT NOT NULL DEFAULT '',
    reserved INTEGER NOT NULL CHECK (reserved >= 0),
    cost INTEGER NOT NULL DEFAULT 0 CHECK (cost >= 0),
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    UNIQUE (item_id, role, number),
    CHECK ((outcome IS NULL) = (finished_at IS NULL)),
    CHECK (outcome <> 'succeeded' OR reason IS NULL)
) STRICT, WITHOUT ROWID;

-- One attempt at a time on an item, whatever its role.
CREATE UNIQUE INDEX attempts_open ON attempts (item_id) WHERE outcome IS NULL;
CREATE INDEX attempts_running ON attempts (pool) WHERE outcome IS NULL;
CREATE INDEX attempts_finished ON attempts (pool, finished_at) WHERE outcome IS NOT NULL;

CREATE TABLE work_item_reviews (
    item_id TEXT NOT NULL REFERENCES work_items (item_id) ON DELETE CASCADE,
    -- Commit or hash of the sandbox state that was reviewed.
    head TEXT NOT NULL CHECK (head <> ''),
    profile TEXT NOT NULL CHECK (profile <> ''),
    attempt_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    -- JSON.
    verdict TEXT NOT NULL,
    approves INTEGER NOT NULL CHECK (approves IN (0, 1)),
    reviewed_at INTEGER NOT NULL,
    PRIMARY KEY (item_id, head, profile)
) STRICT, WITHOUT ROWID;

CREATE TABLE pools (
    name TEXT PRIMARY KEY NOT NULL CHECK (name <> ''),
    state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'draining', 'stopped')),
    reason TEXT,
    version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Whether the base of a project passes its gates.
CREATE TABLE project_bases (
    project TEXT PRIMARY KEY NOT NULL CHECK (project <> ''),
    commit_id TEXT,
    is_red INTEGER NOT NULL CHECK (is_red IN (0, 1)),
    -- JSON list of the names of the gates that fail.
    failing_gates TEXT NOT NULL,
    since INTEGER NOT NULL,
    checked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pool_alerts (
    alert_id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind <> ''),
    subject TEXT NOT NULL CHECK (subject <> ''),
    namespace TEXT NOT NULL CHECK (namespace <> ''),
    message TEXT NOT NULL,
    -- Number of cycles that found it.
    occurrences INTEGER NOT NULL DEFAULT 1 CHECK (occurrences >= 1),
    raised_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    resolved_at INTEGER
) STRICT;

-- One open alert per anomaly and subject.
CREATE UNIQUE INDEX pool_alerts_open ON pool_alerts (kind, subject) WHERE resolved_at IS NULL;
