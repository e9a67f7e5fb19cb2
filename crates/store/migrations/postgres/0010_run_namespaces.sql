-- The namespace of a run: that of its plan, or of the project it worked on, otherwise `local`. The actor does not
-- decide: actors of `builtin/` and of model providers are used by every namespace.
ALTER TABLE runs ADD COLUMN namespace TEXT COLLATE "C" NOT NULL DEFAULT 'local' CHECK (namespace <> '');
UPDATE runs SET namespace = COALESCE(
    (SELECT plans.namespace FROM plans WHERE plans.plan_id = (runs.options::json ->> 'plan')),
    CASE WHEN strpos(options::json #>> '{ground,project}', '/') > 1
         THEN split_part(options::json #>> '{ground,project}', '/', 1) END,
    'local');
CREATE INDEX runs_namespace ON runs (namespace, run_id);
