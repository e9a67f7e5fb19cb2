-- What a tool logs beside its answer is kept like the answer itself.

ALTER TABLE tool_invocations ADD COLUMN log_hash TEXT;
