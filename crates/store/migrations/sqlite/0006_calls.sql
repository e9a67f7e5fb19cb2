-- What a tool logs beside its answer is kept like the answer itself; an answer may be a picture.

ALTER TABLE tool_invocations ADD COLUMN log_hash TEXT;
ALTER TABLE tool_invocations ADD COLUMN media_type TEXT;
