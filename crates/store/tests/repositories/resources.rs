//! Resources and projects: constraints of the schema, links without cycles, the upgrade of a populated database, and
//! the salvage of a damaged one; on both databases where supported.

use cleveragents_domain::{
    EventKind, Name, ProjectId, ProjectLink, ProjectRules, Properties, Resource, ResourceId,
    ResourceType, Timestamp, Version,
};
use cleveragents_store::resources::{Link, LinkResult};
use cleveragents_store::{
    Engine, Error, Migration, Options, Severity, events, projects, resource_types, resources,
    salvage,
};
use cleveragents_testkit::{TestDatabase, at_once, proof_size};

fn resource(name: &str, type_name: &str) -> Resource {
    Resource {
        id: ResourceId::generate(),
        name: name.parse().expect("a name"),
        type_name: type_name.parse().expect("a type"),
        properties: Properties::from([("path".to_owned(), "/x".into())]),
        location: Some("/x".to_owned()),
        description: Some("it's \"quoted\"; really".to_owned()),
        read_only: true,
        auto_discovered: false,
        content_hash: None,
        version: Version(1),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}

fn store(engine: &Engine, resource: &Resource) -> Result<(), Error> {
    let resource = resource.clone();
    engine.write(move |unit| resources::insert(unit, &resource))
}

fn stored(engine: &Engine, name: &str) -> Resource {
    let created = resource(name, "fs-directory");
    store(engine, &created).expect("stored");
    created
}

fn link(engine: &Engine, parent: ResourceId, child: ResourceId) -> Result<LinkResult, Error> {
    engine.write(move |unit| {
        resources::link(
            unit,
            Link {
                parent,
                child,
                auto_discovered: false,
            },
        )
    })
}

#[test]
fn stored_resources_are_read_back() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let created = stored(&engine, "local/a/b");
        let read = engine
            .read(|reader| resources::get(reader, created.id))
            .expect("read")
            .expect("there");
        let times = Resource {
            created_at: read.created_at,
            updated_at: read.updated_at,
            ..created.clone()
        };
        assert_eq!(read, times);
        assert!(read.created_at > Timestamp::default());
        // An update contains the version that it read.
        let changed = Resource {
            location: None,
            ..read.clone()
        };
        engine
            .write(move |unit| resources::update(unit, &changed))
            .expect("updated");
        let outdated = engine.write(move |unit| resources::update(unit, &read));
        assert!(
            matches!(
                outdated,
                Err(Error::Conflict {
                    actual: Version(2),
                    ..
                })
            ),
            "{outdated:?}"
        );
    }
}

fn delete(engine: &Engine, resource: &Resource) -> Result<(), Error> {
    let resource = resource.clone();
    engine.write(move |unit| resources::delete(unit, &resource).map(drop))
}

fn make_project(engine: &Engine, name: &str) -> Result<ProjectId, Error> {
    let (id, name): (_, Name) = (ProjectId::generate(), name.parse().expect("a name"));
    engine.write(move |unit| {
        projects::insert(unit, id, &name, &ProjectRules::default())?;
        Ok(id)
    })
}

fn link_to(
    engine: &Engine,
    project: ProjectId,
    resource: &Resource,
    alias: &str,
) -> Result<(), Error> {
    let link = ProjectLink {
        resource: resource.id,
        alias: alias.parse().expect("an alias"),
        read_only: false,
    };
    engine.write(move |unit| projects::link(unit, project, &link))
}

fn add_type(engine: &Engine, name: &str, inherits: Option<&str>) -> Result<(), Error> {
    let declared = ResourceType {
        inherits: inherits.map(|name| name.parse().expect("a name")),
        ..ResourceType::new(name.parse().expect("a name"))
    };
    engine.write(move |unit| resource_types::insert(unit, &declared))
}

fn delete_type(engine: &Engine, name: &str) -> Result<(), Error> {
    let name = name.parse().expect("a name");
    engine.write(move |unit| resource_types::delete(unit, &name).map(drop))
}

/// Asserts that a constraint of the database refuses the operation.
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, what: &str) {
    let error = outcome.expect_err(what);
    assert!(matches!(error, Error::Constraint(_)), "{what}: {error:?}");
}

#[test]
fn the_schema_keeps_names_and_aliases_unique() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (a, b) = (stored(&engine, "a"), stored(&engine, "b"));
        let project = make_project(&engine, "shop").expect("made");
        link_to(&engine, project, &a, "code").expect("linked");
        add_type(&engine, "local/t", None).expect("registered");
        assert_refused(
            store(&engine, &resource("a", "fs-file")),
            "a second resource with the same name",
        );
        assert_refused(
            make_project(&engine, "shop"),
            "a second project with the same name",
        );
        assert_refused(
            add_type(&engine, "local/t", None),
            "a second type with the same name",
        );
        assert_refused(
            link_to(&engine, project, &b, "code"),
            "a second resource with the same alias",
        );
        assert_refused(
            link_to(&engine, project, &a, "other"),
            "a resource linked twice",
        );
        link_to(&engine, project, &b, "other").expect("a valid link");
        let insert_bare = "INSERT INTO resource_types (name, definition, created_at, updated_at) VALUES ('git', '{}', 0, 0)";
        database
            .try_execute_sql(insert_bare)
            .expect_err("bare names are reserved for built-in types");
    }
}

#[test]
fn the_schema_refuses_dangling_references() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (a, b) = (stored(&engine, "a"), stored(&engine, "b"));
        let c = stored(&engine, "c");
        link(&engine, a.id, b.id).expect("linked");
        let project = make_project(&engine, "shop").expect("made");
        link_to(&engine, project, &c, "code").expect("linked");
        add_type(&engine, "local/t", None).expect("registered");
        add_type(&engine, "local/sub", Some("local/t")).expect("registered");
        store(&engine, &resource("typed", "local/sub")).expect("stored");

        assert_refused(delete(&engine, &a), "a resource with a child");
        assert_refused(delete(&engine, &b), "a resource with a parent");
        assert_refused(delete(&engine, &c), "a resource that a project links");
        assert_refused(
            delete_type(&engine, "local/t"),
            "a type that another inherits from",
        );
        assert_refused(delete_type(&engine, "local/sub"), "a type with resources");
        assert_refused(
            store(&engine, &resource("z", "local/unknown")),
            "a type that does not exist",
        );
        assert_refused(
            add_type(&engine, "local/z", Some("local/unknown")),
            "an ancestor that does not exist",
        );
        let self_link = format!(
            "INSERT INTO resource_links (parent_id, child_id, auto_discovered, created_at) VALUES ('{0}', '{0}', 0, 0)",
            a.id
        );
        database
            .try_execute_sql(&self_link)
            .expect_err("a link from a resource to itself");

        // Deleting a project deletes its links, but keeps the resource.
        engine
            .write(move |unit| {
                let project = projects::get(unit, project)?.expect("there");
                projects::delete(unit, &project)
            })
            .expect("deleted");
        assert_eq!(database.count("SELECT COUNT(*) FROM project_links"), 0);
        delete(&engine, &c).expect("no project links it any more");
    }
}

#[test]
fn a_link_emits_its_event_in_the_same_unit() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (a, b) = (stored(&engine, "a"), stored(&engine, "b"));
        assert_eq!(link(&engine, a.id, b.id).expect("linked"), LinkResult::Made);
        assert_eq!(
            link(&engine, a.id, b.id).expect("there"),
            LinkResult::Present
        );
        assert_eq!(
            link(&engine, b.id, a.id).expect("refused"),
            LinkResult::Circle
        );
        assert_eq!(
            link(&engine, a.id, a.id).expect("refused"),
            LinkResult::Circle
        );
        let reported = engine
            .read(|reader| events::after(reader, cleveragents_domain::Position(0), 10))
            .expect("read");
        let kinds: Vec<EventKind> = reported.iter().map(|event| event.kind).collect();
        assert_eq!(
            kinds,
            [
                EventKind::ResourceRegistered,
                EventKind::ResourceRegistered,
                EventKind::ResourceLinked
            ]
        );
    }
}

/// Each thread links one resource of a ring to the next. The link that would close the ring is refused.
#[test]
fn concurrent_links_never_form_a_cycle() {
    const RING: usize = 4;
    for database in TestDatabase::each() {
        let engines: Vec<_> = (0..RING).map(|_| database.open()).collect();
        for round in 0..proof_size(6, 60) {
            let ids: Vec<ResourceId> = (0..RING)
                .map(|index| stored(&engines[0], &format!("r{round}-{index}")).id)
                .collect();
            let outcomes = at_once(RING, |index| {
                link(&engines[index], ids[index], ids[(index + 1) % RING]).expect("answered")
            });
            let circles = outcomes
                .iter()
                .filter(|outcome| **outcome == LinkResult::Circle)
                .count();
            assert_eq!(circles, 1, "{} round {round}: {outcomes:?}", database.kind);
        }
    }
}

/// Creates a database in the state after the first migration, with one session.
fn first_version(database: &TestDatabase) {
    let schema = match database.kind {
        "sqlite" => include_str!("../../migrations/sqlite/0001_foundation.sql"),
        _ => include_str!("../../migrations/postgres/0001_foundation.sql"),
    };
    database.execute_sql(&format!(
        "{schema};
         CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY NOT NULL, name TEXT NOT NULL, applied_at BIGINT NOT NULL);
         INSERT INTO schema_migrations (version, name, applied_at) VALUES (1, '0001_foundation', 1);
         INSERT INTO sessions (session_id, namespace, automation, created_at, updated_at)
             VALUES ('01ARZ3NDEKTSV4RRFFQ69G5FAV', 'local', 'supervised', 1, 1)"
    ));
}

#[test]
fn a_populated_database_is_upgraded_and_keeps_its_rows() {
    for database in TestDatabase::each() {
        first_version(&database);
        let engine = database.open();
        assert_eq!(
            engine.status().expect("status").schema_version,
            Migration::newest()
        );
        assert_eq!(database.count("SELECT COUNT(*) FROM sessions"), 1);
        stored(&engine, "a");
        assert_eq!(database.count("SELECT COUNT(*) FROM resources"), 1);
    }
}

#[test]
fn resources_and_projects_are_saved_from_a_damaged_file() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let (a, b) = (stored(&engine, "a"), stored(&engine, "b"));
    link(&engine, a.id, b.id).expect("linked");
    let custom = ResourceType::new("local/t".parse().expect("a name"));
    let typed = resource("typed", "local/t");
    engine
        .write(move |unit| {
            resource_types::insert(unit, &custom)?;
            resources::insert(unit, &typed)?;
            let project = ProjectId::generate();
            projects::insert(
                unit,
                project,
                &"shop".parse().expect("a name"),
                &ProjectRules::default(),
            )?;
            let alias = "code".parse().expect("an alias");
            projects::link(
                unit,
                project,
                &ProjectLink {
                    resource: a.id,
                    alias,
                    read_only: true,
                },
            )
        })
        .expect("stored");
    drop(engine);
    let report = salvage(&database.file(), &Options::default()).expect("saved");
    assert_eq!(report.incomplete, [""; 0]);
    for (table, rows) in [
        ("resources", 3),
        ("resource_links", 1),
        ("resource_types", 1),
        ("projects", 1),
        ("project_links", 1),
    ] {
        assert_eq!(
            database.count(&format!("SELECT COUNT(*) FROM {table}")),
            rows,
            "{table}"
        );
    }
    let checks = database.open().check().expect("checked");
    assert!(
        checks.iter().all(|check| check.severity == Severity::Ok),
        "{checks:?}"
    );
}

/// A file of an older program has fewer tables; the missing ones do not count as loss.
#[test]
fn a_salvage_of_an_older_file_reports_no_missing_tables() {
    let database = TestDatabase::sqlite();
    first_version(&database);
    let report = salvage(&database.file(), &Options::default()).expect("saved");
    assert_eq!(report.incomplete, [""; 0]);
    assert_eq!(database.count("SELECT COUNT(*) FROM sessions"), 1);
    assert_eq!(database.count("SELECT COUNT(*) FROM resources"), 0);
}
