//! Invariants and archived definitions, on both databases.

use cleveragents_domain::{Invariant, InvariantId, InvariantScope, PlanId};
use cleveragents_store::definitions::DefinitionKind;
use cleveragents_store::invariants::{InvariantFilter, NewInvariant};
use cleveragents_store::plans::NewPlan;
use cleveragents_store::{
    Dialect, Engine, Error, Param, Reader, Row, definitions, invariants, plans,
};
use cleveragents_testkit::{TestDatabase, at_once};

fn new(scope: InvariantScope, source_name: Option<&str>, text: &str) -> NewInvariant {
    NewInvariant {
        id: InvariantId::generate(),
        text: text.to_owned(),
        scope,
        source_name: source_name.map(str::to_owned),
        non_overridable: false,
    }
}

fn add(engine: &Engine, new: NewInvariant) -> bool {
    engine
        .write(move |unit| invariants::insert(unit, &new))
        .expect("no lock error")
}

fn list(engine: &Engine, places: Vec<(InvariantScope, Option<String>)>) -> Vec<Invariant> {
    let filter = InvariantFilter { places };
    engine
        .read(|reader| invariants::list(reader, &filter))
        .expect("read")
}

#[test]
fn an_invariant_exists_once_per_scope() {
    for database in TestDatabase::each() {
        let engine = database.open();
        for (scope, name) in [
            (InvariantScope::Global, None),
            (InvariantScope::Project, Some("local/a")),
            (InvariantScope::Project, Some("local/b")),
            (InvariantScope::Action, Some("local/a")),
        ] {
            let added = at_once(8, |_| add(&engine, new(scope, name, "keep it")));
            assert_eq!(
                added.iter().filter(|done| **done).count(),
                1,
                "{scope} {name:?}"
            );
        }
        assert_eq!(list(&engine, Vec::new()).len(), 4);
        let project = (InvariantScope::Project, Some("local/b".to_owned()));
        assert_eq!(list(&engine, vec![project.clone()]).len(), 1);
        assert_eq!(
            list(&engine, vec![(InvariantScope::Project, None)]).len(),
            2
        );
        let places = vec![project, (InvariantScope::Global, None)];
        let found = list(&engine, places);
        assert_eq!(found.len(), 2);
        assert!(found[0].id < found[1].id, "in the order of their creation");
    }
}

#[test]
fn an_invariant_is_removed_once_and_can_be_added_again() {
    for database in TestDatabase::each() {
        let engine = database.open();
        assert!(add(&engine, new(InvariantScope::Global, None, "keep it")));
        let first = list(&engine, Vec::new()).remove(0);
        let removed = at_once(8, |_| {
            let first = first.clone();
            engine
                .write(move |unit| invariants::remove(unit, &first))
                .expect("no lock error")
        });
        assert_eq!(removed.iter().filter(|done| **done).count(), 1);
        assert!(list(&engine, Vec::new()).is_empty());
        let removed_invariant = engine
            .read(|reader| invariants::get(reader, first.id))
            .expect("read")
            .expect("the row is kept");
        assert!(removed_invariant.removed_at.is_some());
        let prefix = first.id.to_string();
        let found = engine
            .read(|reader| invariants::with_prefix(reader, &prefix, 5))
            .expect("read");
        assert!(found.is_empty(), "removed invariants are not found");
        assert!(add(&engine, new(InvariantScope::Global, None, "keep it")));
    }
}

#[test]
fn a_definition_is_archived_once_and_unarchived_once() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let kind = DefinitionKind::Action;
        engine
            .write(move |unit| definitions::insert(unit, kind, "local/a", "x", "a.yaml"))
            .expect("stored");
        let get = || {
            engine
                .read(|reader| definitions::get(reader, kind, "local/a"))
                .expect("read")
                .expect("there")
        };
        assert_eq!(get().archived_at, None);
        let archived = at_once(8, |_| {
            engine
                .write(move |unit| definitions::archive(unit, kind, "local/a"))
                .expect("no lock error")
        });
        assert_eq!(archived.iter().filter(|done| **done).count(), 1);
        assert!(get().archived_at.is_some());
        let unarchived = at_once(8, |_| {
            engine
                .write(move |unit| definitions::unarchive(unit, kind, "local/a"))
                .expect("no lock error")
        });
        assert_eq!(unarchived.iter().filter(|done| **done).count(), 1);
        assert_eq!(get().archived_at, None);
        let missing = engine
            .write(move |unit| definitions::archive(unit, kind, "local/b"))
            .expect("asked");
        assert!(!missing, "a missing definition cannot be archived");
    }
}

#[test]
fn plans_are_counted_for_all_actions_at_once() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = PlanId::generate();
        engine
            .write(move |unit| {
                for action in ["", "local/a", "local/b", "local/a"] {
                    let id = PlanId::generate();
                    let action = action.to_owned();
                    plans::insert(
                        unit,
                        &NewPlan {
                            action,
                            ..NewPlan::empty(id)
                        },
                    )?;
                }
                plans::insert(unit, &NewPlan::empty(id))
            })
            .expect("stored");
        let counts = engine
            .read(|reader| plans::count_by_action(reader))
            .expect("counted");
        let counts: Vec<(String, u64)> = counts.into_iter().collect();
        assert_eq!(
            counts,
            [("local/a".to_owned(), 2), ("local/b".to_owned(), 1)],
            "a plan without an action counts for none"
        );
        let full_id = id.to_string();
        let found = engine
            .read(|reader| plans::sources(reader, &full_id, 5))
            .expect("read");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].plan, found[0].projects.len()), (id, 0));
    }
}

/// Counts statements.
struct CountingReader<'r> {
    reader: &'r mut dyn Reader,
    statements: usize,
}

impl Reader for CountingReader<'_> {
    fn dialect(&self) -> Dialect {
        self.reader.dialect()
    }

    fn query_each(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.statements += 1;
        self.reader.query_each(sql, params, each)
    }
}

#[test]
fn defect_6459_actions_and_their_plans_are_read_with_two_statements() {
    for database in TestDatabase::each() {
        let engine = database.open();
        for count in [1, 40] {
            engine
                .write(move |unit| {
                    for number in 0..count {
                        let name = format!("local/a{number}");
                        definitions::insert(unit, DefinitionKind::Action, &name, "x", "a.yaml")?;
                    }
                    Ok::<_, Error>(())
                })
                .expect("stored");
            let (found, statements) = engine
                .read(|reader| {
                    let mut counted = CountingReader {
                        reader,
                        statements: 0,
                    };
                    let found = definitions::list(&mut counted, DefinitionKind::Action)?.len();
                    plans::count_by_action(&mut counted)?;
                    Ok::<_, Error>((found, counted.statements))
                })
                .expect("read");
            assert_eq!((found, statements), (count, 2));
        }
    }
}
