-- The same messages with the same rules, spelled so that a row costs less to check.
--
-- SQLite answers `role IN (…)` with more than two values by filling a temporary index for every row
-- that is inserted. Comparisons joined by OR say the same and need none.

CREATE TABLE messages_checked (
    position INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    role TEXT NOT NULL CHECK (role = 'user' OR role = 'assistant' OR role = 'system' OR role = 'tool'),
    state TEXT NOT NULL CHECK (state = 'complete' OR state = 'failed'),
    content TEXT NOT NULL CHECK (content <> ''),
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (session_id, sequence)
) STRICT;

INSERT INTO messages_checked SELECT * FROM messages ORDER BY position;

-- Positions stay, so the search index and its mark stay right. Dropping the table drops its trigger and
-- fires none.
DROP TABLE messages;

ALTER TABLE messages_checked RENAME TO messages;

CREATE TRIGGER messages_unindex AFTER DELETE ON messages
WHEN old.position <= (SELECT indexed_through FROM search_mark)
BEGIN
    INSERT INTO message_search (message_search, rowid, content) VALUES ('delete', old.position, old.content);
END;
