-- Server mode: who may call (tokens and their roles), what was asked for (tasks, keys of requests), and an account of
-- it that cannot be changed unnoticed.

-- Messages are most of the events and nobody looks for theirs by subject, so they do not pay for this.
CREATE INDEX events_subject ON events (subject, position) WHERE kind <> 'session.message_appended';

-- Where a plan belongs: with its first project, or with its action.
ALTER TABLE plans ADD COLUMN namespace TEXT COLLATE "C" NOT NULL DEFAULT 'local' CHECK (namespace <> '');
UPDATE plans SET namespace = COALESCE(
    (SELECT split_part(project, '/', 1) FROM plan_projects
     WHERE plan_projects.plan_id = plans.plan_id AND number = 0 AND strpos(project, '/') > 1),
    CASE WHEN strpos(action, '/') > 1 THEN split_part(action, '/', 1) END,
    'local');
CREATE INDEX plans_namespace ON plans (namespace, plan_id);

-- Whether models were asked of which nobody knows what they cost.
ALTER TABLE turns ADD COLUMN is_cost_partial BIGINT NOT NULL DEFAULT 0 CHECK (is_cost_partial IN (0, 1));
ALTER TABLE plans ADD COLUMN is_cost_partial BIGINT NOT NULL DEFAULT 0 CHECK (is_cost_partial IN (0, 1));

-- Only the hash of a secret is kept.
CREATE TABLE tokens (
    token_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    secret_hash TEXT NOT NULL UNIQUE CHECK (length(secret_hash) = 64),
    -- What it may be used for, as a JSON list.
    scopes TEXT NOT NULL,
    created_by TEXT NOT NULL CHECK (created_by <> ''),
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT
);

-- A name is free again when its token is revoked.
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;

-- `*` stands for every namespace but `local`, which never leaves the machine.
CREATE TABLE token_grants (
    token_id TEXT COLLATE "C" NOT NULL REFERENCES tokens (token_id) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL CHECK (namespace <> '' AND namespace <> 'local'),
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'editor', 'viewer')),
    PRIMARY KEY (token_id, namespace)
);

-- Each entry carries the hash of the one before it. The head says how many there are and where the chain ends, so
-- that its last entries cannot be cut off.
CREATE TABLE audit_entries (
    number BIGINT PRIMARY KEY CHECK (number >= 1),
    entry_id TEXT COLLATE "C" NOT NULL UNIQUE,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind <> ''),
    identity TEXT COLLATE "C" NOT NULL CHECK (identity <> ''),
    namespace TEXT,
    subject TEXT COLLATE "C",
    details TEXT NOT NULL,
    occurred_at BIGINT NOT NULL,
    previous_hash TEXT NOT NULL CHECK (length(previous_hash) = 64),
    hash TEXT NOT NULL UNIQUE CHECK (length(hash) = 64)
);

CREATE INDEX audit_entries_kind ON audit_entries (kind, number);
CREATE INDEX audit_entries_subject ON audit_entries (subject, number);

CREATE TABLE audit_head (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    number BIGINT NOT NULL CHECK (number >= 0),
    hash TEXT NOT NULL CHECK (length(hash) = 64)
);

INSERT INTO audit_head (one, number, hash)
VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');

CREATE FUNCTION audit_entries_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'entries of the audit are never changed nor removed';
END $$;
CREATE TRIGGER audit_entries_stay BEFORE UPDATE OR DELETE ON audit_entries
FOR EACH ROW EXECUTE FUNCTION audit_entries_stay();

-- What another agent or program asked for: a turn of a conversation, or a plan.
CREATE TABLE task_contexts (
    namespace TEXT COLLATE "C" NOT NULL CHECK (namespace <> ''),
    context_id TEXT COLLATE "C" NOT NULL CHECK (context_id <> ''),
    session_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES sessions (session_id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, context_id)
);

CREATE TABLE tasks (
    task_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL CHECK (namespace <> ''),
    context_id TEXT COLLATE "C" NOT NULL CHECK (context_id <> ''),
    identity TEXT COLLATE "C" NOT NULL CHECK (identity <> ''),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('turn', 'plan')),
    -- The session of the turn, or the plan.
    subject TEXT COLLATE "C" NOT NULL CHECK (subject <> ''),
    state TEXT NOT NULL CHECK (state IN (
        'submitted', 'working', 'input_required', 'auth_required', 'completed', 'failed', 'canceled', 'rejected')),
    -- The message of the status, as JSON.
    status_message TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    -- The server that works on it, and whose word counts; named by its lease.
    runner TEXT COLLATE "C" NOT NULL CHECK (runner <> ''),
    -- How many updates it has: the number of the next one.
    update_count BIGINT NOT NULL DEFAULT 0 CHECK (update_count >= 0),
    created_at BIGINT NOT NULL,
    -- When its state changed the last time.
    status_at BIGINT NOT NULL
);

CREATE INDEX tasks_newest ON tasks (namespace, status_at, task_id);
CREATE INDEX tasks_context ON tasks (namespace, context_id, status_at, task_id);
CREATE INDEX tasks_open ON tasks (task_id) WHERE state IN ('submitted', 'working');

-- What was said, in order. Ids of messages are their senders' own, and may come again.
CREATE TABLE task_messages (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    message_id TEXT COLLATE "C" NOT NULL CHECK (message_id <> ''),
    message TEXT NOT NULL,
    PRIMARY KEY (task_id, number)
);

CREATE TABLE task_artifacts (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    artifact_id TEXT COLLATE "C" NOT NULL CHECK (artifact_id <> ''),
    number BIGINT NOT NULL CHECK (number >= 0),
    artifact TEXT NOT NULL,
    PRIMARY KEY (task_id, artifact_id)
);

-- What subscribers are told, in order and without gap.
CREATE TABLE task_updates (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    body TEXT NOT NULL,
    PRIMARY KEY (task_id, number)
);

CREATE TABLE push_configs (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    config_id TEXT COLLATE "C" NOT NULL CHECK (config_id <> ''),
    config TEXT NOT NULL,
    -- The number of the next update to deliver, and when to try again.
    next_number BIGINT NOT NULL CHECK (next_number >= 0),
    attempts BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_at BIGINT NOT NULL,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, config_id)
);

-- A request that is repeated with its key gets the answer of the first one. No status yet: it is being answered.
CREATE TABLE request_keys (
    identity TEXT COLLATE "C" NOT NULL CHECK (identity <> ''),
    request_key TEXT COLLATE "C" NOT NULL CHECK (request_key <> ''),
    request_hash TEXT NOT NULL CHECK (length(request_hash) = 64),
    -- The server that began to answer, as its lease is called.
    server TEXT NOT NULL,
    status BIGINT CHECK (status BETWEEN 100 AND 599),
    body TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (identity, request_key),
    CHECK ((status IS NULL) = (body IS NULL))
);

CREATE INDEX request_keys_age ON request_keys (created_at);
