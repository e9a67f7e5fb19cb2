-- Sandboxes, what they hold, their checkpoints; changesets that belong to no plan.

-- A changeset may now be a sandbox's instead of a plan's.
ALTER TABLE changesets ALTER COLUMN plan_id DROP NOT NULL;

CREATE TABLE sandboxes (
    sandbox_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    state TEXT NOT NULL CHECK (state IN ('creating', 'active', 'applying', 'applied', 'discarding', 'discarded')),
    changeset_id TEXT COLLATE "C" NOT NULL REFERENCES changesets (changeset_id) ON DELETE RESTRICT,
    machine TEXT NOT NULL,
    folder TEXT NOT NULL,
    origin TEXT NOT NULL,
    rolling_back_to BIGINT CHECK (rolling_back_to >= 0),
    result TEXT,
    version BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- One sandbox of a name at a time; a name is free again once its sandbox has ended.
CREATE UNIQUE INDEX sandboxes_name ON sandboxes (name) WHERE state NOT IN ('applied', 'discarded');
CREATE INDEX sandboxes_changeset ON sandboxes (changeset_id);

CREATE TABLE sandbox_members (
    sandbox_id TEXT COLLATE "C" NOT NULL REFERENCES sandboxes (sandbox_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    alias TEXT NOT NULL CHECK (alias <> ''),
    resource TEXT NOT NULL,
    strategy TEXT NOT NULL,
    location TEXT NOT NULL,
    is_read_only BIGINT NOT NULL CHECK (is_read_only IN (0, 1)),
    base TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, number),
    UNIQUE (sandbox_id, alias)
);

CREATE TABLE sandbox_checkpoints (
    sandbox_id TEXT COLLATE "C" NOT NULL REFERENCES sandboxes (sandbox_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    reason TEXT NOT NULL CHECK (reason IN ('created', 'manual', 'before-exec', 'before-rollback')),
    label TEXT,
    position BIGINT NOT NULL CHECK (position >= 0),
    target BIGINT CHECK (target >= 1),
    undone BIGINT NOT NULL DEFAULT 0 CHECK (undone IN (0, 1)),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (sandbox_id, number)
);
