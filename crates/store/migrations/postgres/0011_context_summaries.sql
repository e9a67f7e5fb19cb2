-- Summaries that replace the beginning of a conversation in requests to a model. The messages themselves stay.
CREATE TABLE context_summaries (
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    -- Messages of the session before this number are covered.
    sequence BIGINT NOT NULL CHECK (sequence >= 0),
    -- Steps of this turn after its question that are covered too.
    turn_id TEXT COLLATE "C" NOT NULL,
    steps BIGINT NOT NULL CHECK (steps >= 0),
    text TEXT NOT NULL CHECK (text <> ''),
    tokens_before BIGINT NOT NULL CHECK (tokens_before >= 0),
    tokens_after BIGINT NOT NULL CHECK (tokens_after >= 0),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, number)
);
