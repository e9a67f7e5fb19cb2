//! Definitions, runs with their steps, and contexts, on both databases.

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{EventKind, RunId, RunState, SessionId, TokenUsage};
use cleveragents_store::definitions::DefinitionKind;
use cleveragents_store::runs::{NewRun, RunFilter, RunResult};
use cleveragents_store::sessions::{NewSession, SessionFilter};
use cleveragents_store::{Engine, Error, contexts, definitions, resources, runs, sessions};
use cleveragents_testkit::{TestDatabase, at_once};
use serde_json::json;

fn begin(engine: &Engine) -> RunId {
    let new = NewRun {
        id: RunId::generate(),
        namespace: "local".to_owned(),
        actor: "local/review".to_owned(),
        actor_hash: "sha256:0".to_owned(),
        definitions: json!({}),
        input: json!({"state": {}, "context": {}}),
        options: json!({}),
    };
    let id = new.id;
    engine
        .write(move |unit| runs::insert(unit, &new))
        .expect("stored");
    id
}

fn new_session(owner: Option<&str>) -> NewSession {
    NewSession {
        owner: owner.map(str::to_owned),
        name: Some("same".parse().expect("a name")),
        actor: None,
        namespace: "local".to_owned(),
        automation: "supervised".to_owned(),
        usage: TokenUsage::default(),
        forked_from: None,
        created_at: None,
    }
}

#[test]
fn a_definition_exists_once_per_kind_and_has_a_version() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let kinds = [DefinitionKind::Actor, DefinitionKind::Skill];
        for kind in kinds {
            let done = at_once(8, |_| {
                engine
                    .write(move |unit| definitions::insert(unit, kind, "local/a", "one", "a.yaml"))
                    .expect("no lock error")
            });
            assert_eq!(done.iter().filter(|done| **done).count(), 1, "{kind:?}");
        }
        let actor = DefinitionKind::Actor;
        let update = |name: &'static str| {
            engine
                .write(move |unit| definitions::update(unit, actor, name, "two", "b.yaml"))
                .expect("stored")
        };
        assert!(update("local/a"));
        assert!(!update("local/b"), "an update creates no definition");
        let read = |kind| {
            engine
                .read(|reader| definitions::get(reader, kind, "local/a"))
                .expect("read")
                .expect("there")
        };
        let (actor_definition, other) = (read(actor), read(DefinitionKind::Skill));
        assert_eq!(
            (
                actor_definition.definition.as_str(),
                actor_definition.version
            ),
            ("two", 2)
        );
        assert_eq!((other.definition.as_str(), other.version), ("one", 1));
        let removed = engine
            .write(move |unit| definitions::remove(unit, actor, "local/a"))
            .expect("removed");
        assert!(removed);
        let remaining = engine
            .read(|reader| definitions::list(reader, DefinitionKind::Skill))
            .expect("read");
        assert_eq!(
            remaining.len(),
            1,
            "the definition of the other kind is kept"
        );
    }
}

#[test]
fn a_step_is_stored_once_and_numbered_without_gap() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let run = begin(&engine);
        let stored = at_once(8, |thread| {
            (0..5)
                .filter(|number| {
                    // Two threads share each path.
                    let path = format!("node#{}-{number}", thread / 2);
                    engine
                        .write(move |unit| {
                            // In production, the lease of the run permits one writer at a time;
                            // here a lock takes its place.
                            resources::lock(unit)?;
                            runs::add_step(unit, run, &path, "{}")
                        })
                        .is_ok()
                })
                .count()
        });
        assert_eq!(stored.iter().sum::<usize>(), 20, "each path once");
        let steps = engine
            .read(|reader| runs::steps(reader, run))
            .expect("read");
        let numbers: Vec<u64> = steps.iter().map(|step| step.number).collect();
        assert_eq!(numbers, (0..20).collect::<Vec<u64>>());
    }
}

#[test]
fn a_run_makes_only_allowed_transitions() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let run = begin(&engine);
        let end = |state| {
            let ended = RunResult {
                result: (state == RunState::Complete).then(|| json!({"output": 1})),
                ..RunResult::default()
            };
            engine
                .write(move |unit| runs::end(unit, run, state, &ended))
                .expect("stored")
        };
        let resume = || {
            engine
                .write(move |unit| runs::resume(unit, run))
                .expect("stored")
        };
        assert!(end(RunState::Waiting));
        assert!(!end(RunState::Complete), "the run is not running");
        assert!(resume());
        assert!(end(RunState::Failed));
        assert!(resume());
        assert!(end(RunState::Complete));
        assert!(!resume(), "it is over");
        let cancelled = engine
            .write(move |unit| runs::cancel(unit, run, &RunResult::default()))
            .expect("stored");
        assert!(!cancelled, "it is over");
        let found = engine
            .read(|reader| runs::get(reader, &Namespaces::All, run))
            .expect("read")
            .expect("there");
        assert_eq!((found.state, found.attempts), (RunState::Complete, 3));
        assert!(found.ended_at.is_some() && found.error.is_none());
        let filter = |state| RunFilter {
            actor: Some("local/review".to_owned()),
            state: Some(state),
            offset: 0,
            limit: 10,
            ..RunFilter::default()
        };
        let count = |state| {
            let page = engine.read(|reader| runs::list(reader, &filter(state)));
            page.expect("read").matching
        };
        assert_eq!((count(RunState::Complete), count(RunState::Failed)), (1, 0));
    }
}

#[test]
fn the_schema_refuses_a_complete_run_without_a_result() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let run = begin(&engine);
        let ended = RunResult::default();
        let refused = engine.write(move |unit| runs::end(unit, run, RunState::Complete, &ended));
        assert!(refused.is_err());
    }
}

#[test]
fn owned_sessions_are_not_listed_among_user_sessions() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (user_session, context_session) = (SessionId::generate(), SessionId::generate());
        engine
            .write(move |unit| {
                sessions::insert(
                    unit,
                    user_session,
                    &new_session(None),
                    EventKind::SessionCreated,
                )?;
                let context = contexts::owner("weekly");
                let session = new_session(Some(&context));
                sessions::insert(unit, context_session, &session, EventKind::SessionCreated)?;
                contexts::insert(unit, "weekly", context_session)?;
                Ok::<_, Error>(())
            })
            .expect("stored");
        let (page, named, totals, context) = engine
            .read(|reader| {
                Ok::<_, Error>((
                    sessions::list(reader, &SessionFilter::default())?,
                    sessions::with_name(reader, "same", 10)?,
                    sessions::totals(reader)?,
                    contexts::get(reader, "weekly")?,
                ))
            })
            .expect("read");
        assert_eq!((page.matching, named.len(), totals.sessions), (1, 1, 1));
        assert_eq!(
            context.map(|context| context.session),
            Some(context_session)
        );
        engine
            .write(move |unit| sessions::delete(unit, context_session))
            .expect("deleted");
        let remaining = engine.read(contexts::list).expect("read");
        assert!(
            remaining.is_empty(),
            "a context is deleted with its session"
        );
    }
}

/// A run belongs to the namespace in which it was started, regardless of its actor's name.
#[test]
fn runs_are_found_in_their_namespaces_only() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let mut ids = Vec::new();
        for (namespace, actor) in [
            ("acme", "builtin/strategist"),
            ("other", "builtin/strategist"),
            ("local", "builtin/strategist"),
            ("acme", "acme/review"),
        ] {
            let new = NewRun {
                id: RunId::generate(),
                namespace: namespace.to_owned(),
                actor: actor.to_owned(),
                actor_hash: "sha256:0".to_owned(),
                definitions: json!({}),
                input: json!({"state": {}, "context": {}}),
                options: json!({}),
            };
            ids.push(new.id);
            let stored = engine.write(move |unit| runs::insert(unit, &new));
            stored.expect("stored");
        }
        let only = |name: &str| Namespaces::Only([name.to_owned()].into());
        for (visible, seen) in [
            (Namespaces::All, vec![0, 1, 2, 3]),
            (Namespaces::AllButLocal, vec![0, 1, 3]),
            (only("acme"), vec![0, 3]),
            (only("other"), vec![1]),
            (only("acm"), vec![]),
            (Namespaces::Only([].into()), vec![]),
        ] {
            let filter = RunFilter {
                visible: visible.clone(),
                limit: 10,
                ..RunFilter::default()
            };
            let page = engine.read(|reader| runs::list(reader, &filter));
            let page = page.expect("read");
            assert_eq!(page.matching, seen.len() as u64, "{visible:?}");
            let totals = engine.read(|reader| runs::totals(reader, &visible, "builtin/strategist"));
            let shared = seen.iter().filter(|index| **index < 3).count() as u64;
            assert_eq!(totals.expect("read").0, shared, "{visible:?}");
            for (index, id) in ids.iter().enumerate() {
                let is_seen = seen.contains(&index);
                let listed = page.runs.iter().any(|(run, _)| run.id == *id);
                assert_eq!(listed, is_seen, "{visible:?}");
                let found = engine.read(|reader| runs::get(reader, &visible, *id));
                assert_eq!(found.expect("read").is_some(), is_seen, "{visible:?}");
                let text = id.to_string();
                let found = engine.read(|reader| runs::with_prefix(reader, &visible, &text, 5));
                assert_eq!(found.expect("read").len() == 1, is_seen, "{visible:?}");
            }
        }
    }
}

/// Runs of older databases get the namespace of their plan or project.
#[test]
fn stored_runs_get_the_namespace_of_their_plan() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let mut plan = cleveragents_testkit::plans::new_plan("p");
        for project in &mut plan.inputs.projects {
            project.name = "acme/shop".to_owned();
        }
        let plan = cleveragents_testkit::plans::store(&engine, &plan);
        let mut ids = Vec::new();
        for options in [
            json!({"plan": plan}),
            json!({"ground": {"project": "other/shop"}}),
            json!({"ground": {"project": "bare"}}),
            json!({"ground": {"project": null}}),
            json!({}),
        ] {
            let new = NewRun {
                id: RunId::generate(),
                namespace: "wrong".to_owned(),
                actor: "builtin/strategist".to_owned(),
                actor_hash: "sha256:0".to_owned(),
                definitions: json!({}),
                input: json!({"state": {}, "context": {}}),
                options,
            };
            ids.push(new.id);
            let stored = engine.write(move |unit| runs::insert(unit, &new));
            stored.expect("stored");
        }
        drop(engine);
        // Restores the previous schema version: without the column and the migration entry.
        database.execute_sql(
            "DROP TABLE IF EXISTS tracker_status_records; DROP TABLE IF EXISTS tracker_outbox; \
             DROP TABLE IF EXISTS item_sources; DROP TABLE IF EXISTS pool_alerts; \
             DROP TABLE IF EXISTS project_bases; DROP TABLE IF EXISTS pools; \
             DROP TABLE IF EXISTS work_item_reviews; DROP TABLE IF EXISTS attempts; \
             DROP TABLE IF EXISTS work_item_transitions; DROP TABLE IF EXISTS work_item_sightings; \
             DROP TABLE IF EXISTS work_item_dependencies; DROP TABLE IF EXISTS work_item_search; \
             DROP TABLE IF EXISTS work_items; \
             DROP INDEX runs_namespace; ALTER TABLE runs DROP COLUMN namespace; \
             DROP TABLE context_summaries; DROP TABLE merge_conflicts; DROP TABLE child_plans; \
             DROP INDEX plans_parent; DELETE FROM schema_migrations WHERE version >= 10",
        );
        let engine = database.open();
        let found: Vec<String> = ids
            .iter()
            .filter_map(|id| {
                let found = engine.read(|reader| runs::namespace(reader, *id));
                found.expect("read")
            })
            .collect();
        assert_eq!(found, ["acme", "other", "local", "local", "local"]);
    }
}
