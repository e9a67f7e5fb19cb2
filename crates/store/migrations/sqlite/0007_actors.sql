-- Actors, skills and servers of tools as their files define them; runs of actors, step by step; conversations that
-- belong to a run or to a context of actors and not to a person.

CREATE TABLE definitions (
    kind TEXT NOT NULL CHECK (kind IN ('actor', 'skill', 'mcp_server')),
    name TEXT NOT NULL CHECK (name <> ''),
    definition TEXT NOT NULL,
    source TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Nothing for a conversation of a person; otherwise what it belongs to, such as `run 01J…`.
ALTER TABLE sessions ADD COLUMN owner TEXT;

CREATE TABLE runs (
    run_id TEXT PRIMARY KEY NOT NULL,
    actor TEXT NOT NULL CHECK (actor <> ''),
    actor_hash TEXT NOT NULL,
    -- The files of the actor and of all that it refers to, as they were when the run began.
    definitions TEXT NOT NULL,
    input TEXT NOT NULL,
    options TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'waiting', 'complete', 'failed', 'cancelled')),
    -- Somebody asked the process that works on it to stop.
    is_cancelled INTEGER NOT NULL DEFAULT 0 CHECK (is_cancelled IN (0, 1)),
    result TEXT,
    error TEXT,
    error_code TEXT,
    input_tokens INTEGER NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
    output_tokens INTEGER NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
    cost_micro_usd INTEGER NOT NULL DEFAULT 0 CHECK (cost_micro_usd >= 0),
    model_calls INTEGER NOT NULL DEFAULT 0 CHECK (model_calls >= 0),
    tool_calls INTEGER NOT NULL DEFAULT 0 CHECK (tool_calls >= 0),
    attempts INTEGER NOT NULL DEFAULT 1 CHECK (attempts >= 1),
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER,
    CHECK ((state IN ('running', 'waiting')) = (ended_at IS NULL)),
    CHECK ((state = 'complete') = (result IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_actor ON runs (actor, run_id);

-- A finished step is stored once: whoever comes second is refused.
CREATE TABLE run_steps (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    path TEXT NOT NULL CHECK (path <> ''),
    step TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, number),
    UNIQUE (run_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE actor_contexts (
    name TEXT PRIMARY KEY NOT NULL CHECK (name <> ''),
    session_id TEXT NOT NULL UNIQUE REFERENCES sessions (session_id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
