-- Child plans: parts of a plan that run on their own, each in a fork of its parent's sandbox.
CREATE TABLE child_plans (
    plan_id TEXT PRIMARY KEY NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    parent_plan_id TEXT NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    -- Position among the child plans of the parent, in which results are merged.
    number INTEGER NOT NULL CHECK (number >= 1),
    -- Step of the parent that it carries out.
    step_number INTEGER NOT NULL CHECK (step_number >= 0),
    decision_id TEXT,
    title TEXT NOT NULL CHECK (title <> ''),
    settings TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'complete', 'merged', 'failed', 'cancelled')),
    -- Number of failed tries.
    tries INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    reason TEXT,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    UNIQUE (parent_plan_id, number),
    CHECK (plan_id <> parent_plan_id),
    CHECK ((state = 'open') = (finished_at IS NULL))
) STRICT, WITHOUT ROWID;

-- A step has at most one child plan that is not cancelled.
CREATE UNIQUE INDEX child_plans_step ON child_plans (parent_plan_id, step_number) WHERE state <> 'cancelled';

CREATE INDEX plans_parent ON plans (parent_plan_id) WHERE parent_plan_id IS NOT NULL;

-- Paths that could not be merged, with the states of both sides as JSON, until the merge is done.
CREATE TABLE merge_conflicts (
    child_plan_id TEXT NOT NULL REFERENCES child_plans (plan_id) ON DELETE CASCADE,
    alias TEXT NOT NULL CHECK (alias <> ''),
    path TEXT NOT NULL CHECK (path <> ''),
    parent_plan_id TEXT NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    reason TEXT NOT NULL,
    base TEXT,
    ours TEXT,
    theirs TEXT,
    resolution TEXT,
    created_at INTEGER NOT NULL,
    resolved_at INTEGER,
    PRIMARY KEY (child_plan_id, alias, path),
    CHECK ((resolution IS NULL) = (resolved_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX merge_conflicts_parent ON merge_conflicts (parent_plan_id);
