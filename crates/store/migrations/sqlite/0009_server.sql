-- Server mode: who may call (tokens and their roles), what was asked for (tasks, keys of requests), and an account of
-- it that cannot be changed unnoticed.

-- Messages are most of the events and nobody looks for theirs by subject, so they do not pay for this.
CREATE INDEX events_subject ON events (subject, position) WHERE kind <> 'session.message_appended';

-- Where a plan belongs: with its first project, or with its action.
ALTER TABLE plans ADD COLUMN namespace TEXT NOT NULL DEFAULT 'local' CHECK (namespace <> '');
UPDATE plans SET namespace = COALESCE(
    (SELECT substr(project, 1, instr(project, '/') - 1) FROM plan_projects
     WHERE plan_projects.plan_id = plans.plan_id AND number = 0 AND instr(project, '/') > 1),
    CASE WHEN instr(action, '/') > 1 THEN substr(action, 1, instr(action, '/') - 1) END,
    'local');
CREATE INDEX plans_namespace ON plans (namespace, plan_id);

-- Whether models were asked of which nobody knows what they cost.
ALTER TABLE turns ADD COLUMN is_cost_partial INTEGER NOT NULL DEFAULT 0 CHECK (is_cost_partial IN (0, 1));
ALTER TABLE plans ADD COLUMN is_cost_partial INTEGER NOT NULL DEFAULT 0 CHECK (is_cost_partial IN (0, 1));

-- Only the hash of a secret is kept.
CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL CHECK (name <> ''),
    secret_hash TEXT NOT NULL UNIQUE CHECK (length(secret_hash) = 64),
    -- What it may be used for, as a JSON list.
    scopes TEXT NOT NULL,
    created_by TEXT NOT NULL CHECK (created_by <> ''),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;

-- A name is free again when its token is revoked.
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;

-- `*` stands for every namespace but `local`, which never leaves the machine.
CREATE TABLE token_grants (
    token_id TEXT NOT NULL REFERENCES tokens (token_id) ON DELETE CASCADE,
    namespace TEXT NOT NULL CHECK (namespace <> '' AND namespace <> 'local'),
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'editor', 'viewer')),
    PRIMARY KEY (token_id, namespace)
) STRICT, WITHOUT ROWID;

-- Each entry carries the hash of the one before it. The head says how many there are and where the chain ends, so
-- that its last entries cannot be cut off.
CREATE TABLE audit_entries (
    number INTEGER PRIMARY KEY CHECK (number >= 1),
    entry_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind <> ''),
    identity TEXT NOT NULL CHECK (identity <> ''),
    namespace TEXT,
    subject TEXT,
    details TEXT NOT NULL,
    occurred_at INTEGER NOT NULL,
    previous_hash TEXT NOT NULL CHECK (length(previous_hash) = 64),
    hash TEXT NOT NULL UNIQUE CHECK (length(hash) = 64)
) STRICT;

CREATE INDEX audit_entries_kind ON audit_entries (kind, number);
CREATE INDEX audit_entries_subject ON audit_entries (subject, number);

CREATE TABLE audit_head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL CHECK (number >= 0),
    hash TEXT NOT NULL CHECK (length(hash) = 64)
) STRICT;

INSERT INTO audit_head (one, number, hash)
VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');

CREATE TRIGGER audit_entries_stay BEFORE UPDATE ON audit_entries
BEGIN SELECT RAISE(ABORT, 'entries of the audit are never changed'); END;
CREATE TRIGGER audit_entries_remain BEFORE DELETE ON audit_entries
BEGIN SELECT RAISE(ABORT, 'entries of the audit are never removed'); END;

-- What another agent or program asked for: a turn of a conversation, or a plan.
CREATE TABLE task_contexts (
    namespace TEXT NOT NULL CHECK (namespace <> ''),
    context_id TEXT NOT NULL CHECK (context_id <> ''),
    session_id TEXT NOT NULL UNIQUE REFERENCES sessions (session_id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, context_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    task_id TEXT PRIMARY KEY NOT NULL,
    namespace TEXT NOT NULL CHECK (namespace <> ''),
    context_id TEXT NOT NULL CHECK (context_id <> ''),
    identity TEXT NOT NULL CHECK (identity <> ''),
    kind TEXT NOT NULL CHECK (kind IN ('turn', 'plan')),
    -- The session of the turn, or the plan.
    subject TEXT NOT NULL CHECK (subject <> ''),
    state TEXT NOT NULL CHECK (state IN (
        'submitted', 'working', 'input_required', 'auth_required', 'completed', 'failed', 'canceled', 'rejected')),
    -- The message of the status, as JSON.
    status_message TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    -- The server that works on it, and whose word counts; named by its lease.
    runner TEXT NOT NULL CHECK (runner <> ''),
    -- How many updates it has: the number of the next one.
    update_count INTEGER NOT NULL DEFAULT 0 CHECK (update_count >= 0),
    created_at INTEGER NOT NULL,
    -- When its state changed the last time.
    status_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_newest ON tasks (namespace, status_at, task_id);
CREATE INDEX tasks_context ON tasks (namespace, context_id, status_at, task_id);
CREATE INDEX tasks_open ON tasks (task_id) WHERE state IN ('submitted', 'working');

-- What was said, in order. Ids of messages are their senders' own, and may come again.
CREATE TABLE task_messages (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    message_id TEXT NOT NULL CHECK (message_id <> ''),
    message TEXT NOT NULL,
    PRIMARY KEY (task_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE task_artifacts (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    artifact_id TEXT NOT NULL CHECK (artifact_id <> ''),
    number INTEGER NOT NULL CHECK (number >= 0),
    artifact TEXT NOT NULL,
    PRIMARY KEY (task_id, artifact_id)
) STRICT, WITHOUT ROWID;

-- What subscribers are told, in order and without gap.
CREATE TABLE task_updates (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    body TEXT NOT NULL,
    PRIMARY KEY (task_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE push_configs (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    config_id TEXT NOT NULL CHECK (config_id <> ''),
    config TEXT NOT NULL,
    -- The number of the next update to deliver, and when to try again.
    next_number INTEGER NOT NULL CHECK (next_number >= 0),
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_at INTEGER NOT NULL,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (task_id, config_id)
) STRICT, WITHOUT ROWID;

-- A request that is repeated with its key gets the answer of the first one. No status yet: it is being answered.
CREATE TABLE request_keys (
    identity TEXT NOT NULL CHECK (identity <> ''),
    request_key TEXT NOT NULL CHECK (request_key <> ''),
    request_hash TEXT NOT NULL CHECK (length(request_hash) = 64),
    -- The server that began to answer, as its lease is called.
    server TEXT NOT NULL,
    status INTEGER CHECK (status BETWEEN 100 AND 599),
    body TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (identity, request_key),
    CHECK ((status IS NULL) = (body IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX request_keys_age ON request_keys (created_at);
