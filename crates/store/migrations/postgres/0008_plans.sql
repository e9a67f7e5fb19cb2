-- Plans end to end: actions, profiles, invariants, validations; decisions, steps, approvals, rollbacks.

-- Two more kinds of definitions, and a moment from which one is not used any more.
ALTER TABLE definitions DROP CONSTRAINT definitions_kind_check;
ALTER TABLE definitions ADD CONSTRAINT definitions_kind_check
    CHECK (kind IN ('actor', 'skill', 'mcp_server', 'action', 'automation_profile'));
ALTER TABLE definitions ADD COLUMN archived_at BIGINT;

-- A validation is a tool that judges; both share one space of names.
ALTER TABLE tools ADD COLUMN kind TEXT NOT NULL DEFAULT 'tool' CHECK (kind IN ('tool', 'validation'));

-- Calls that a rollback of their plan took back: the number of that rollback.
ALTER TABLE tool_invocations ADD COLUMN undone_by BIGINT;

-- Where a plan is: phase and state in one, so that no other pair can be stored.
ALTER TABLE plans ADD COLUMN stage TEXT NOT NULL DEFAULT 'strategize/queued' CHECK (stage IN (
    'strategize/queued', 'strategize/processing', 'strategize/complete', 'strategize/errored', 'strategize/cancelled',
    'execute/queued', 'execute/processing', 'execute/complete', 'execute/errored', 'execute/cancelled',
    'apply/queued', 'apply/processing', 'apply/applied', 'apply/constrained', 'apply/errored', 'apply/cancelled'
) AND stage = phase || '/' || state);
ALTER TABLE plans ADD COLUMN name TEXT;
ALTER TABLE plans ADD COLUMN action TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE plans ADD COLUMN parent_plan_id TEXT;
ALTER TABLE plans ADD COLUMN root_plan_id TEXT;
ALTER TABLE plans ADD COLUMN attempt BIGINT NOT NULL DEFAULT 1 CHECK (attempt >= 1);
ALTER TABLE plans ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE plans ADD COLUMN definition_of_done TEXT NOT NULL DEFAULT '';
-- What it was made with and what never changes afterwards, as JSON: arguments, projects, actors, profile, invariants.
ALTER TABLE plans ADD COLUMN made_with TEXT NOT NULL DEFAULT '{}';
-- The strategy as JSON, once there is one.
ALTER TABLE plans ADD COLUMN strategy TEXT;
ALTER TABLE plans ADD COLUMN estimate TEXT;
-- What a person has to say before it goes on, as JSON.
ALTER TABLE plans ADD COLUMN waiting TEXT;
-- What went wrong, as a JSON object that is only ever added to until the next attempt.
ALTER TABLE plans ADD COLUMN error TEXT;
ALTER TABLE plans ADD COLUMN sandbox TEXT;
ALTER TABLE plans ADD COLUMN decision_root_id TEXT;
ALTER TABLE plans ADD COLUMN reversion_count BIGINT NOT NULL DEFAULT 0 CHECK (reversion_count >= 0);
-- What applying it did, as JSON.
ALTER TABLE plans ADD COLUMN report TEXT;
ALTER TABLE plans ADD COLUMN is_cancelled BIGINT NOT NULL DEFAULT 0 CHECK (is_cancelled IN (0, 1));
-- Waits for a worker: as JSON how it is to be driven.
ALTER TABLE plans ADD COLUMN queued_for TEXT;
ALTER TABLE plans ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0 CHECK (input_tokens >= 0);
ALTER TABLE plans ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0 CHECK (output_tokens >= 0);
ALTER TABLE plans ADD COLUMN cost_micro_usd BIGINT NOT NULL DEFAULT 0 CHECK (cost_micro_usd >= 0);
ALTER TABLE plans ADD COLUMN model_calls BIGINT NOT NULL DEFAULT 0 CHECK (model_calls >= 0);
ALTER TABLE plans ADD COLUMN tool_calls BIGINT NOT NULL DEFAULT 0 CHECK (tool_calls >= 0);
ALTER TABLE plans ADD COLUMN started_at BIGINT;
ALTER TABLE plans ADD COLUMN completed_at BIGINT;
CREATE INDEX plans_action ON plans (action, plan_id);
CREATE INDEX plans_queued ON plans (plan_id) WHERE queued_for IS NOT NULL;

CREATE TABLE plan_projects (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    project TEXT COLLATE "C" NOT NULL CHECK (project <> ''),
    PRIMARY KEY (plan_id, number),
    UNIQUE (plan_id, project)
);

CREATE INDEX plan_projects_project ON plan_projects (project, plan_id);

CREATE TABLE plan_decisions (
    decision_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    parent_decision_id TEXT COLLATE "C" REFERENCES plan_decisions (decision_id) ON DELETE CASCADE,
    sequence BIGINT NOT NULL CHECK (sequence >= 1),
    decision_type TEXT NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN ('strategize', 'execute', 'apply')),
    question TEXT NOT NULL CHECK (question <> ''),
    chosen TEXT NOT NULL,
    alternatives TEXT NOT NULL,
    -- In thousandths.
    confidence BIGINT CHECK (confidence >= 0 AND confidence <= 1000),
    rationale TEXT NOT NULL,
    reasoning TEXT,
    snapshot TEXT NOT NULL,
    artifacts TEXT NOT NULL,
    corrects TEXT,
    correction_reason TEXT,
    superseded_by TEXT,
    undone_by BIGINT,
    created_at BIGINT NOT NULL,
    UNIQUE (plan_id, sequence),
    -- Only the root has nothing above it.
    CHECK ((decision_type = 'prompt_definition') = (parent_decision_id IS NULL))
);

CREATE UNIQUE INDEX plan_decisions_root ON plan_decisions (plan_id) WHERE parent_decision_id IS NULL;
CREATE INDEX plan_decisions_parent ON plan_decisions (parent_decision_id);

-- Which decision had its share in which other one.
CREATE TABLE decision_influences (
    decision_id TEXT COLLATE "C" NOT NULL REFERENCES plan_decisions (decision_id) ON DELETE CASCADE,
    influenced_by TEXT COLLATE "C" NOT NULL REFERENCES plan_decisions (decision_id) ON DELETE CASCADE,
    PRIMARY KEY (decision_id, influenced_by),
    CHECK (decision_id <> influenced_by)
);

CREATE INDEX decision_influences_by ON decision_influences (influenced_by);

-- What a plan did, piece by piece. A row is there before the work, and finished with what came of it.
CREATE TABLE plan_steps (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    -- What it is, the same in every attempt to do it: `step/3`, `fix/1`, `review/1`.
    path TEXT COLLATE "C" NOT NULL CHECK (path <> ''),
    title TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed')),
    run_id TEXT,
    checkpoint BIGINT,
    -- How long the history of the sandbox was before it, and after.
    position_before BIGINT NOT NULL CHECK (position_before >= 0),
    position_after BIGINT CHECK (position_after >= 0),
    summary TEXT,
    decision_id TEXT COLLATE "C",
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    undone_by BIGINT,
    PRIMARY KEY (plan_id, number),
    CHECK ((state = 'running') = (finished_at IS NULL))
);

CREATE UNIQUE INDEX plan_steps_path ON plan_steps (plan_id, path) WHERE undone_by IS NULL;

CREATE TABLE plan_rollbacks (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    checkpoint BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'redoing', 'redone')),
    -- Where the plan was before, for the way forward again, as JSON.
    before TEXT NOT NULL,
    report TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (plan_id, number)
);

-- What a person said to a plan.
CREATE TABLE plan_guidance (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    guidance TEXT NOT NULL CHECK (guidance <> ''),
    decision_id TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    applied_at BIGINT,
    PRIMARY KEY (plan_id, number)
);

-- Gates, calls and questions that a person has answered for a plan.
CREATE TABLE plan_answers (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    -- Such as `gate/create_tool/1` or `call/sha256:…`.
    subject TEXT NOT NULL CHECK (subject <> ''),
    verdict TEXT NOT NULL CHECK (verdict IN ('approved', 'rejected', 'answered')),
    answer TEXT,
    person TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT,
    PRIMARY KEY (plan_id, number)
);

CREATE TABLE invariants (
    invariant_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    text TEXT NOT NULL CHECK (text <> ''),
    scope TEXT NOT NULL CHECK (scope IN ('global', 'project', 'action', 'plan')),
    -- The name of the project or action, or the id of the plan.
    source_name TEXT,
    non_overridable BIGINT NOT NULL DEFAULT 0 CHECK (non_overridable IN (0, 1)),
    created_at BIGINT NOT NULL,
    removed_at BIGINT,
    CHECK ((scope = 'global') = (source_name IS NULL)),
    CHECK (non_overridable = 0 OR scope = 'global')
);

-- The same sentence holds once in one place.
CREATE UNIQUE INDEX invariants_text ON invariants (scope, coalesce(source_name, ''), text) WHERE removed_at IS NULL;

CREATE TABLE validation_attachments (
    attachment_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    validation TEXT COLLATE "C" NOT NULL REFERENCES tools (name) ON DELETE RESTRICT,
    resource_id TEXT COLLATE "C" NOT NULL REFERENCES resources (resource_id) ON DELETE CASCADE,
    -- Neither a project nor a plan: it holds wherever the resource is worked on.
    project_id TEXT COLLATE "C" REFERENCES projects (project_id) ON DELETE CASCADE,
    plan_id TEXT COLLATE "C" REFERENCES plans (plan_id) ON DELETE CASCADE,
    arguments TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CHECK (project_id IS NULL OR plan_id IS NULL)
);

CREATE UNIQUE INDEX validation_attachments_once ON validation_attachments
    (validation, resource_id, coalesce(project_id, ''), coalesce(plan_id, ''), arguments);
CREATE INDEX validation_attachments_resource ON validation_attachments (resource_id);
CREATE INDEX validation_attachments_project ON validation_attachments (project_id);
CREATE INDEX validation_attachments_plan ON validation_attachments (plan_id);

-- What validations found. The position says of which state of the sandbox: a later change makes it worthless.
CREATE TABLE validation_results (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    validation TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('required', 'informational')),
    -- What was judged: an attachment, or a criterion of the definition of done.
    attachment_id TEXT COLLATE "C",
    resource TEXT,
    scope TEXT NOT NULL CHECK (scope IN ('direct', 'project', 'plan', 'done')),
    scope_target TEXT,
    -- The hash of the validation's definition and arguments.
    definition_hash TEXT NOT NULL,
    passed BIGINT NOT NULL CHECK (passed IN (0, 1)),
    message TEXT NOT NULL,
    data TEXT,
    output_hash TEXT,
    duration_ms BIGINT NOT NULL CHECK (duration_ms >= 0),
    -- How often it was tried, from 1: each fix is followed by another try.
    attempt BIGINT NOT NULL CHECK (attempt >= 1),
    position BIGINT NOT NULL CHECK (position >= 0),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (plan_id, number)
);

CREATE INDEX validation_results_output ON validation_results (output_hash) WHERE output_hash IS NOT NULL;
