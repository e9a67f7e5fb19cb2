-- Summaries that replace the beginning of a conversation in requests to a model. The messages themselves stay.
CREATE TABLE context_summaries (
    session_id TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    -- Messages of the session before this number are covered.
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    -- Steps of this turn after its question that are covered too.
    turn_id TEXT NOT NULL,
    steps INTEGER NOT NULL CHECK (steps >= 0),
    text TEXT NOT NULL CHECK (text <> ''),
    tokens_before INTEGER NOT NULL CHECK (tokens_before >= 0),
    tokens_after INTEGER NOT NULL CHECK (tokens_after >= 0),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, number)
) STRICT, WITHOUT ROWID;
