-- Resource types, resources, their tree, projects and the resources they link.
--
-- The rules are here: names are unique, an alias is unique in its project, nothing lies below itself,
-- and what is still referred to cannot be removed. Built-in types are part of the program; only
-- others have a row, which the columns custom_type and inherits_custom refer to.

CREATE TABLE resource_types (
    name TEXT COLLATE "C" PRIMARY KEY NOT NULL CHECK (name LIKE '%/%'),
    inherits_custom TEXT COLLATE "C" REFERENCES resource_types (name) ON DELETE RESTRICT,
    definition TEXT NOT NULL,
    version BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CHECK (inherits_custom <> name)
);

CREATE INDEX resource_types_inherits ON resource_types (inherits_custom);

CREATE TABLE resources (
    resource_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    type TEXT COLLATE "C" NOT NULL,
    custom_type TEXT COLLATE "C" REFERENCES resource_types (name) ON DELETE RESTRICT,
    properties TEXT NOT NULL,
    location TEXT COLLATE "C",
    description TEXT,
    read_only BIGINT NOT NULL CHECK (read_only IN (0, 1)),
    auto_discovered BIGINT NOT NULL CHECK (auto_discovered IN (0, 1)),
    content_hash TEXT,
    version BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CHECK (custom_type = type)
);

CREATE INDEX resources_location ON resources (location);
CREATE INDEX resources_custom_type ON resources (custom_type);

CREATE TABLE resource_links (
    parent_id TEXT COLLATE "C" NOT NULL REFERENCES resources (resource_id) ON DELETE RESTRICT,
    child_id TEXT COLLATE "C" NOT NULL REFERENCES resources (resource_id) ON DELETE RESTRICT,
    auto_discovered BIGINT NOT NULL CHECK (auto_discovered IN (0, 1)),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (parent_id, child_id),
    CHECK (parent_id <> child_id)
);

CREATE INDEX resource_links_child ON resource_links (child_id, parent_id);

CREATE TABLE projects (
    project_id TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    description TEXT,
    tags TEXT NOT NULL,
    invariants TEXT NOT NULL,
    invariant_actor TEXT,
    automation_profile TEXT,
    version BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE project_links (
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id) ON DELETE CASCADE,
    resource_id TEXT COLLATE "C" NOT NULL REFERENCES resources (resource_id) ON DELETE RESTRICT,
    alias TEXT COLLATE "C" NOT NULL,
    read_only BIGINT NOT NULL CHECK (read_only IN (0, 1)),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, resource_id),
    UNIQUE (project_id, alias)
);

CREATE INDEX project_links_resource ON project_links (resource_id, project_id);
