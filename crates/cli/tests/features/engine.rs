//! Steps about features without a command: opening databases, and changesets.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_application::{PlanExecutionContext, SessionService};
use cleveragents_domain::EntryNumber;
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use cleveragents_testkit::{Agents, TestDatabase, at_once};
use cucumber::{given, then, when};

use crate::world::{Run, World, change};

/// A database that threads open.
pub(crate) struct Opening {
    url: DatabaseUrl,
    cache: EngineCache,
    migrated: Arc<AtomicUsize>,
    opened: Vec<Result<Arc<Engine>, String>>,
    missing_folder: Option<(PathBuf, Agents)>,
}

fn opening(url: DatabaseUrl, missing_folder: Option<(PathBuf, Agents)>) -> Opening {
    let migrated = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&migrated);
    let options = Options {
        progress: Some(Arc::new(move |done, total| {
            if done == total {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        })),
        ..Options::default()
    };
    Opening {
        url,
        cache: EngineCache::new(options),
        migrated,
        opened: Vec::new(),
        missing_folder,
    }
}

impl World {
    fn opening(&mut self) -> &mut Opening {
        self.opening
            .as_mut()
            .expect("the scenario has a database to open")
    }
}

#[given("a database in memory that is not open")]
fn a_database_in_memory(world: &mut World) {
    world.opening = Some(opening(DatabaseUrl::memory("founding"), None));
}

#[given("a database in a folder that does not exist")]
fn a_database_in_a_missing_folder(world: &mut World) {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    let folder = agents.cwd().join("missing");
    let url = DatabaseUrl::file(&folder.join("x.db"), &folder);
    world.opening = Some(opening(url, Some((folder, agents))));
}

#[when("another process creates the folder")]
fn the_folder_is_created(world: &mut World) {
    let (folder, _) = world
        .opening()
        .missing_folder
        .as_ref()
        .expect("a folder is missing");
    std::fs::create_dir(folder).expect("the folder can be created");
}

#[when(expr = "{int} threads open it at the same instant")]
fn threads_open_it(world: &mut World, threads: usize) {
    let opening = world.opening();
    let (cache, url) = (&opening.cache, &opening.url);
    opening.opened = at_once(threads, |_| {
        cache.open(url).map_err(|error| error.to_string())
    });
}

#[then("all of them hold one and the same engine")]
fn they_hold_one_engine(world: &mut World) {
    let engines: Vec<&Arc<Engine>> = world
        .opening()
        .opened
        .iter()
        .map(|engine| engine.as_ref().expect("an engine"))
        .collect();
    assert!(engines.windows(2).all(|pair| Arc::ptr_eq(pair[0], pair[1])));
}

#[then("its migrations ran exactly once")]
fn migrated_once(world: &mut World) {
    let opening = world.opening();
    assert_eq!(opening.migrated.load(Ordering::SeqCst), 1);
}

#[then("a session created through one of them is visible through all")]
fn visible_through_all(world: &mut World) {
    let services: Vec<SessionService> = world
        .opening()
        .opened
        .iter()
        .map(|engine| SessionService::new(Arc::clone(engine.as_ref().expect("opened")), 1_000))
        .collect();
    let created = services[0]
        .create(None, None, "supervised")
        .expect("the session can be created");
    for service in services {
        assert_eq!(service.get(created.id).expect("the session").id, created.id);
    }
}

#[then("each of them fails because the database cannot be opened")]
fn each_open_fails(world: &mut World) {
    for outcome in &world.opening().opened {
        let error = outcome.as_ref().expect_err("the database cannot be opened");
        assert!(error.contains("cannot open the database"), "{error}");
    }
}

// --- changesets

#[given("the run of a plan")]
fn the_run_of_a_plan(world: &mut World) {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let plan = PlanExecutionContext::create_plan(&engine).expect("a plan");
    let context = PlanExecutionContext::new(Arc::clone(&engine), plan).expect("a context");
    world.database = Some(database);
    world.run = Some(Run {
        engine,
        context,
        open: Vec::new(),
        ids: Vec::new(),
        recorded: None,
        leases: Vec::new(),
        old_token: None,
        reported: Vec::new(),
    });
}

#[given("an open changeset")]
#[given("a second open changeset")]
fn an_open_changeset(world: &mut World) {
    let run = world.run();
    let changeset = run.context.start_changeset().expect("a changeset");
    run.ids.push(changeset.id());
    run.open.push(changeset);
}

#[given(expr = "{int} changes are recorded in it")]
#[when(expr = "{int} changes are recorded in it")]
fn changes_are_recorded(world: &mut World, count: usize) {
    let changeset = world.run().open.last().expect("an open changeset");
    for index in 0..count {
        changeset
            .record(&change(&format!("file {index}")))
            .expect("the change is recorded");
    }
}

#[when("a change is recorded without a handle")]
fn recorded_without_a_handle(world: &mut World) {
    let run = world.run();
    let outcome = run.context.record_change(&change("loose"));
    run.recorded = Some(outcome.map(|(id, _)| id).map_err(|error| error.to_string()));
}

#[then(expr = "it is refused with {string}")]
fn it_is_refused(world: &mut World, message: String) {
    let recorded = world.run().recorded.take().expect("a recording was tried");
    assert_eq!(recorded, Err(message));
}

#[then("it is recorded in the second changeset")]
fn it_is_recorded_in_the_second(world: &mut World) {
    let run = world.run();
    assert_eq!(run.recorded, Some(Ok(run.ids[1])));
    assert_eq!(paths(run, 0), [""; 0]);
    assert_eq!(paths(run, 1), ["loose"]);
}

#[when("the changeset is closed")]
fn it_is_closed(world: &mut World) {
    let changeset = world.run().open.pop().expect("an open changeset");
    changeset.close().expect("the changeset is closed");
}

#[then("it is no longer among the active ones")]
fn it_is_not_active(world: &mut World) {
    assert_eq!(world.run().context.active_changesets(), []);
}

/// Paths of the changes of a changeset. Asserts that the changes are numbered 0, 1, 2…
fn paths(run: &Run, index: usize) -> Vec<String> {
    let entries = run
        .context
        .entries(run.ids[index], EntryNumber(0), u64::from(u32::MAX));
    entries
        .expect("the changeset exists")
        .iter()
        .enumerate()
        .map(|(number, entry)| {
            assert_eq!(entry.number.0, number as u64, "numbers have no gap");
            entry.change.path().to_owned()
        })
        .collect()
}

#[then(expr = "it holds changes 0 to {int}")]
fn it_holds_changes(world: &mut World, last: usize) {
    assert_eq!(paths(world.run(), 0).len(), last + 1);
}

#[when(expr = "{int} threads each open a changeset and record {int} changes at the same time")]
fn threads_record(world: &mut World, threads: usize, each: usize) {
    let run = world.run();
    let context = &run.context;
    run.open = at_once(threads, |thread| {
        let changeset = context.start_changeset().expect("a changeset");
        for index in 0..each {
            let change = change(&format!("thread {thread} file {index}"));
            changeset.record(&change).expect("the change is recorded");
        }
        changeset
    });
    run.ids = run
        .open
        .iter()
        .map(cleveragents_application::OpenChangeset::id)
        .collect();
}

#[then(
    expr = "each changeset holds the {int} changes of its author, numbered from 0 without a gap"
)]
fn each_holds_its_own(world: &mut World, each: usize) {
    let run = world.run();
    for thread in 0..run.ids.len() {
        let expected: Vec<String> = (0..each)
            .map(|index| format!("thread {thread} file {index}"))
            .collect();
        assert_eq!(paths(run, thread), expected);
    }
}

#[then(expr = "the plan has {int} changesets with {int} changes in all")]
fn the_plan_has(world: &mut World, changesets: usize, changes: usize) {
    let run = world.run();
    assert_eq!(
        run.context.changesets().expect("they are read").len(),
        changesets
    );
    let total: usize = (0..run.ids.len())
        .map(|index| paths(run, index).len())
        .sum();
    assert_eq!(total, changes);
}

#[when("another program opens the database")]
fn opened_again(world: &mut World) {
    let engine = world.database().open();
    let run = world.run();
    assert!(!Arc::ptr_eq(&engine, &run.engine), "it is another engine");
    let plan = run.context.plan();
    run.context = PlanExecutionContext::new(Arc::clone(&engine), plan).expect("the plan is found");
    run.engine = engine;
}

#[then(expr = "the changeset is found there, with {int} changes")]
fn it_is_found(world: &mut World, count: usize) {
    let run = world.run();
    let changesets = run.context.changesets().expect("they are read");
    assert!(
        changesets
            .iter()
            .any(|changeset| changeset.id == run.ids[0])
    );
    assert_eq!(paths(run, 0).len(), count);
}

#[then(expr = "the changeset holds {int} changes")]
fn the_changeset_holds(world: &mut World, count: usize) {
    assert_eq!(paths(world.run(), 0).len(), count);
}
