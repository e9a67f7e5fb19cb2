-- Turns of a conversation, stored step by step as they happen; custom tools; what was always allowed; spending.

CREATE TABLE turns (
    turn_id TEXT PRIMARY KEY NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    model TEXT NOT NULL CHECK (model <> ''),
    sandbox TEXT,
    state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'failed')),
    error TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    CHECK ((state = 'running') = (ended_at IS NULL))
) STRICT, WITHOUT ROWID;

-- One turn of a session at a time.
CREATE UNIQUE INDEX turns_running ON turns (session_id) WHERE state = 'running';
CREATE INDEX turns_session ON turns (session_id, turn_id);

CREATE TABLE turn_steps (
    turn_id TEXT NOT NULL REFERENCES turns (turn_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    message TEXT NOT NULL,
    PRIMARY KEY (turn_id, number)
) STRICT, WITHOUT ROWID;

ALTER TABLE tool_invocations ADD COLUMN turn_id TEXT REFERENCES turns (turn_id) ON DELETE SET NULL;
ALTER TABLE tool_invocations ADD COLUMN call_id TEXT;
ALTER TABLE tool_invocations ADD COLUMN reason TEXT;
ALTER TABLE tool_invocations ADD COLUMN repeatable INTEGER NOT NULL DEFAULT 0 CHECK (repeatable IN (0, 1));
CREATE INDEX tool_invocations_turn ON tool_invocations (turn_id, invocation_id);

CREATE TABLE tools (
    name TEXT PRIMARY KEY NOT NULL,
    definition TEXT NOT NULL,
    source TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE permission_rules (
    rule TEXT PRIMARY KEY NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was spent, and what calls that still run have reserved: never more together than the limit.
CREATE TABLE budgets (
    scope TEXT PRIMARY KEY NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
    reserved INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE reservations (
    reservation_id TEXT NOT NULL,
    scope TEXT NOT NULL REFERENCES budgets (scope) ON DELETE CASCADE,
    amount INTEGER NOT NULL CHECK (amount >= 0),
    owner TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (reservation_id, scope)
) STRICT, WITHOUT ROWID;

CREATE INDEX reservations_scope ON reservations (scope);
