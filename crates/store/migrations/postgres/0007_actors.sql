-- Actors, skills and servers of tools as their files define them; runs of actors, step by step; conversations that
-- belong to a run or to a context of actors and not to a person.

CREATE TABLE definitions (
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('actor', 'skill', 'mcp_server')),
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    definition TEXT NOT NULL,
    source TEXT NOT NULL,
    version BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Nothing for a conversation of a person; otherwise what it belongs to, such as `run 01J…`.
ALTER TABLE sessions ADD COLUMN owner TEXT;

CREATE TABLE runs (
    run_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    actor TEXT COLLATE "C" NOT NULL CHECK (actor <> ''),
    actor_hash TEXT NOT NULL,
    -- The files of the actor and of all that it refers to, as they were when the run began.
    definitions TEXT NOT NULL,
    input TEXT NOT NULL,
    options TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'waiting', 'complete', 'failed', 'cancelled')),
    -- Somebody asked the process that works on it to stop.
    is_cancelled BIGINT NOT NULL DEFAULT 0 CHECK (is_cancelled IN (0, 1)),
    result TEXT,
    error TEXT,
    error_code TEXT,
    input_tokens BIGINT NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
    output_tokens BIGINT NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
    cost_micro_usd BIGINT NOT NULL DEFAULT 0 CHECK (cost_micro_usd >= 0),
    model_calls BIGINT NOT NULL DEFAULT 0 CHECK (model_calls >= 0),
    tool_calls BIGINT NOT NULL DEFAULT 0 CHECK (tool_calls >= 0),
    attempts BIGINT NOT NULL DEFAULT 1 CHECK (attempts >= 1),
    started_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    CHECK ((state IN ('running', 'waiting')) = (ended_at IS NULL)),
    CHECK ((state = 'complete') = (result IS NOT NULL))
);

CREATE INDEX runs_actor ON runs (actor, run_id);

-- A finished step is stored once: whoever comes second is refused.
CREATE TABLE run_steps (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    path TEXT COLLATE "C" NOT NULL CHECK (path <> ''),
    step TEXT NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, number),
    UNIQUE (run_id, path)
);

CREATE TABLE actor_contexts (
    name TEXT COLLATE "C" PRIMARY KEY NOT NULL CHECK (name <> ''),
    session_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES sessions (session_id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL
);
