-- Sessions, messages, plans, changesets, tool invocations, leases, events and blobs.
--
-- Times are microseconds since the epoch, ids are ULIDs, JSON is text. The rules of concurrency
-- are here: numbers are unique where they must be, states are checked, children go with their parent.

CREATE TABLE sessions (
    session_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    name TEXT,
    actor TEXT,
    namespace TEXT NOT NULL,
    automation TEXT NOT NULL,
    next_sequence BIGINT NOT NULL DEFAULT 0 CHECK (next_sequence >= 0),
    content_bytes BIGINT NOT NULL DEFAULT 0 CHECK (content_bytes >= 0),
    input_tokens BIGINT NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
    output_tokens BIGINT NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
    cost_micro_usd BIGINT NOT NULL DEFAULT 0 CHECK (cost_micro_usd >= 0),
    forked_from TEXT,
    forked_at BIGINT CHECK (forked_at >= 0),
    version BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE messages (
    position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    sequence BIGINT NOT NULL CHECK (sequence >= 0),
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    state TEXT NOT NULL CHECK (state IN ('complete', 'failed')),
    content TEXT NOT NULL CHECK (content <> ''),
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (session_id, sequence)
);

CREATE TABLE session_plans (
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    plan_id TEXT COLLATE "C" NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (session_id, plan_id)
);

CREATE TABLE plans (
    plan_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    version BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE changesets (
    changeset_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    next_entry BIGINT NOT NULL DEFAULT 0 CHECK (next_entry >= 0),
    opened_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE INDEX changesets_plan ON changesets (plan_id, changeset_id);

CREATE TABLE tool_invocations (
    invocation_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    plan_id TEXT COLLATE "C" REFERENCES plans (plan_id) ON DELETE CASCADE,
    session_id TEXT COLLATE "C" REFERENCES sessions (session_id) ON DELETE CASCADE,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('running', 'succeeded', 'failed', 'refused')),
    output_hash TEXT,
    error TEXT,
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    CHECK ((outcome = 'running') = (finished_at IS NULL))
);

CREATE INDEX tool_invocations_plan ON tool_invocations (plan_id, invocation_id);
CREATE INDEX tool_invocations_session ON tool_invocations (session_id, invocation_id);

CREATE TABLE change_entries (
    changeset_id TEXT COLLATE "C" NOT NULL REFERENCES changesets (changeset_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    operation TEXT NOT NULL CHECK (operation IN ('create', 'modify', 'delete', 'rename', 'mode')),
    resource TEXT NOT NULL CHECK (resource <> ''),
    path TEXT NOT NULL CHECK (path <> ''),
    new_path TEXT,
    before_hash TEXT,
    before_size BIGINT,
    after_hash TEXT,
    after_size BIGINT,
    before_mode BIGINT,
    after_mode BIGINT,
    tool TEXT,
    invocation_id TEXT COLLATE "C" REFERENCES tool_invocations (invocation_id) ON DELETE SET NULL,
    actor_node TEXT,
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (changeset_id, number)
);

CREATE INDEX change_entries_invocation ON change_entries (invocation_id);

CREATE TABLE leases (
    kind TEXT COLLATE "C" NOT NULL,
    subject_id TEXT COLLATE "C" NOT NULL,
    token BIGINT NOT NULL CHECK (token >= 1),
    owner_process TEXT,
    owner_host TEXT,
    owner_pid BIGINT,
    owner_started BIGINT,
    acquired_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (kind, subject_id)
);

CREATE TABLE events (
    position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    payload TEXT NOT NULL,
    occurred_at BIGINT NOT NULL
);

CREATE TABLE blobs (
    hash TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    size BIGINT NOT NULL CHECK (size >= 0),
    encoding TEXT NOT NULL CHECK (encoding IN ('raw', 'zstd')),
    content BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);

-- Full-text search over the first 100,000 characters of a message: the server refuses to index more
-- than a megabyte of distinct words. Punctuation only separates words, as it does in a query; left to
-- itself the server takes `src/engine.rs` or `a@b.org` for a single word that no search would find.
CREATE FUNCTION searchable(content TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT translate(left(content, 100000), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~¡¿«»‹›“”„‘’‚–—…·•、。，！？；：（）「」『』', repeat(' ', 62))
$$;

CREATE INDEX messages_search ON messages USING gin (to_tsvector('simple', searchable(content)));
