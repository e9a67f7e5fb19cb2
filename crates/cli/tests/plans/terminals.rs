//! One plan and several terminals: one terminal runs the plan, the others report the owner;
//! cancellation and Ctrl-C.

use std::path::PathBuf;

use cleveragents_application::{HeldLease, LeaseService};
use cleveragents_domain::{LeaseSubject, Ttl};
use cleveragents_store::{DatabaseUrl, EngineCache, Options};
use cleveragents_testkit::{Answer, Gate};
use rustix::process::Signal;

use super::world::{World, error, git};

/// Creates a plan whose second step creates the file `started` and waits for the file `go`.
fn waiting_plan(world: &World) -> String {
    world.action(
        "local/waits",
        &[
            "write `one` to `one.txt`",
            "run `touch started; until test -e go; do sleep 0.05; done; echo late > late.txt`",
            "write `two` to `two.txt`",
        ],
    );
    world.plan("local/waits", &[])
}

/// Waits until the second step is waiting for the file `go`. Returns the working folder of the
/// plan.
fn wait_for_work(world: &World, plan: &str) -> PathBuf {
    let sandboxes = world.agents.home().join("sandboxes");
    let mut work_folder = None;
    World::wait_until("a step that waits", || {
        let rows = world.ask(&format!(
            "SELECT sandbox_id FROM sandboxes WHERE origin = 'plan {plan}'"
        ));
        work_folder = rows
            .first()
            .map(|row| sandboxes.join(row[0].to_lowercase()).join("work/repo"));
        work_folder
            .as_ref()
            .is_some_and(|folder| folder.join("started").exists())
    });
    work_folder.expect("a folder")
}

/// Processes whose working directory is in a folder.
fn working_in(folder: &std::path::Path) -> Vec<PathBuf> {
    std::fs::read_dir("/proc")
        .expect("processes")
        .filter_map(|entry| {
            let process = entry.ok()?.path();
            let directory = std::fs::read_link(process.join("cwd")).ok()?;
            directory.starts_with(folder).then_some(process)
        })
        .collect()
}

/// All rows about plans, their changes and calls.
fn rows(world: &World) -> Vec<Vec<Vec<String>>> {
    [
        "plans",
        "plan_steps",
        "plan_decisions",
        "plan_answers",
        "plan_guidance",
        "plan_rollbacks",
        "validation_results",
        "tool_invocations",
        "change_entries",
        "sandboxes",
        "run_steps",
    ]
    .map(|table| world.ask(&format!("SELECT * FROM {table} ORDER BY 1, 2")))
    .into()
}

fn assert_busy(answer: &Answer, owner: u32) {
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert_eq!(error(answer)["code"], "CA-1143", "{answer:?}");
    let reported = error(answer)["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    assert!(
        reported.contains(&format!("process {owner} (")),
        "{reported} does not name {owner}"
    );
}

#[test]
fn one_terminal_runs_a_plan_and_the_others_report_the_owner() {
    let world = World::new();
    let plan = waiting_plan(&world);
    let mut first = world.start(&["plan", "execute", &plan]);
    let owner = first.id();
    let folder = wait_for_work(&world, &plan);
    let before = rows(&world);
    for command in [
        &["plan", "execute", &plan][..],
        &["plan", "resume", &plan],
        &["plan", "rollback", &plan, "cp_1", "--yes"],
        &["plan", "revert", &plan],
    ] {
        assert_busy(&world.run(command), owner);
    }
    let early = world.run(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(early.code, Some(4), "{early:?}");
    assert_eq!(rows(&world), before, "the other terminals change nothing");
    std::fs::write(folder.join("go"), "").expect("a file");
    let answer = first.answer();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let tree = world.tree(&plan);
    assert_eq!(tree["late.txt"], "late\n");
    assert_eq!(tree["two.txt"], "two\n");
}

/// Blocks applies to the repository until dropped.
fn hold_repository(world: &World, plan: &str) -> HeldLease {
    let rows = world.ask(&format!(
        "SELECT machine, location FROM sandboxes JOIN sandbox_members USING (sandbox_id) \
         WHERE origin = 'plan {plan}'"
    ));
    let url = DatabaseUrl::file(&world.agents.database(), &world.agents.cwd());
    let engine = EngineCache::new(Options::default()).open(&url);
    let location = format!("{} {}", rows[0][0], rows[0][1]);
    LeaseService::new(engine.expect("the database opens"))
        .acquire(LeaseSubject::new("apply", location), Ttl::default())
        .expect("no other apply runs")
}

#[test]
fn a_concurrent_apply_reports_the_owner() {
    let world = World::new();
    world.action("local/one", &["write `one` to `one.txt`"]);
    let plan = world.executed("local/one");
    let lease = hold_repository(&world, &plan);
    let mut first = world.start(&["plan", "apply", &plan, "--yes"]);
    let owner = first.id();
    World::wait_until("an apply that waits", || {
        world.stage(&plan) == "apply/processing"
    });
    for command in [
        &["plan", "apply", &plan, "--yes"][..],
        &["plan", "execute", &plan],
    ] {
        assert_busy(&world.run(command), owner);
    }
    lease.release().expect("the lease is released");
    let answer = first.answer();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(world.stage(&plan), "apply/applied");
    let repository = world.repository();
    assert_eq!(git(&repository, &["rev-list", "--count", "HEAD"]), "2");
    // A later command reports that the plan has finished.
    let late = world.run(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(late.code, Some(4), "{late:?}");
    assert_eq!(error(&late)["code"], "CA-1142", "{late:?}");
    assert_eq!(git(&repository, &["rev-list", "--count", "HEAD"]), "2");
}

#[test]
fn one_of_many_concurrent_applies_succeeds() {
    let world = World::new();
    world.action("local/one", &["write `one` to `one.txt`"]);
    for _ in 0..3 {
        world.restore_repository();
        let plan = world.executed("local/one");
        let gate = Gate::default();
        let arguments = ["--format", "json", "plan", "apply", &plan, "--yes"];
        let racing: Vec<_> = (0..4)
            .map(|_| world.agents.behind(&gate, &arguments))
            .collect();
        let ids: Vec<u32> = racing.iter().map(std::process::Child::id).collect();
        gate.open();
        let answers: Vec<(u32, Answer)> = ids
            .into_iter()
            .zip(racing)
            .map(|(id, child)| {
                let output = child.wait_with_output().expect("the program ends");
                (id, Answer::from_output(&output))
            })
            .collect();
        let (applied, refused): (Vec<_>, Vec<_>) = answers
            .iter()
            .partition(|(_, answer)| answer.code == Some(0));
        assert_eq!(applied.len(), 1, "{answers:?}");
        for (_, answer) in refused {
            // The error names the owner, or states that the plan has finished.
            if error(answer)["code"] == "CA-1142" {
                assert_eq!(answer.code, Some(4), "{answer:?}");
            } else {
                let names =
                    |(id, _): &(u32, Answer)| answer.out.contains(&format!("process {id} ("));
                assert_eq!(answer.code, Some(4), "{answer:?}");
                assert!(answers.iter().any(names), "{answer:?}");
            }
        }
        let repository = world.repository();
        assert_eq!(git(&repository, &["rev-list", "--count", "HEAD"]), "2");
        assert_eq!(git(&repository, &["status", "--porcelain"]), "");
        assert_eq!(world.stage(&plan), "apply/applied");
    }
}

#[test]
fn executing_a_finished_plan_changes_nothing() {
    let world = World::new();
    world.action(
        "local/one",
        &["run `echo x >> one.txt`", "check `test -f one.txt`"],
    );
    let plan = world.executed("local/one");
    let (before, tree) = (rows(&world), world.tree(&plan));
    for arguments in [
        &["plan", "execute", &plan][..],
        &["plan", "execute", &plan, "--redo"],
        &["plan", "resume", &plan],
    ] {
        let answer = world.run(arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_eq!(rows(&world), before, "{arguments:?}");
        assert_eq!(world.tree(&plan), tree, "{arguments:?}");
    }
    world.agents.data(&["plan", "apply", &plan, "--yes"]);
    let (before, repository) = (rows(&world), world.repository_state());
    for verb in ["execute", "apply", "resume", "revert", "cancel"] {
        let answer = world.run(&["plan", verb, &plan]);
        assert_eq!(answer.code, Some(4), "{verb}: {answer:?}");
        assert_eq!(rows(&world), before, "{verb}");
        assert_eq!(world.repository_state(), repository, "{verb}");
    }
}

#[test]
fn cancelling_without_a_plan_needs_a_confirmation_that_names_the_plan() {
    let world = World::new();
    world.action("local/one", &["write `one` to `one.txt`"]);
    let plan = world.plan("local/one", &[]);
    let refused = world.run(&["plan", "cancel"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let error = error(&refused);
    let hint = error["hint"].to_string();
    assert!(
        hint.contains(&format!("agents plan cancel {plan}")),
        "{error}"
    );
    assert_eq!(world.stage(&plan), "strategize/complete");
    let cancel = ["--format", "plain", "plan", "cancel"];
    let asked = format!("Cancel plan {plan}: steps?");
    let answer = |answer| [(asked.as_str(), ""), ("[y/N]: ", answer)];
    let (code, screen) = world.agents.play(&answer("n\r"), &cancel);
    assert_eq!(code, Some(5), "{screen}");
    assert_eq!(world.stage(&plan), "strategize/complete");
    let (code, screen) = world.agents.play(&answer("y\r"), &cancel);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(world.stage(&plan), "strategize/cancelled");
    let plan = world.plan("local/one", &[]);
    world.agents.data(&["plan", "cancel", "--yes"]);
    assert_eq!(world.stage(&plan), "strategize/cancelled");
}

#[test]
fn cancelling_stops_the_running_terminal_and_its_child_processes() {
    let world = World::new();
    let plan = waiting_plan(&world);
    let first = world.start(&["plan", "execute", &plan]);
    let folder = wait_for_work(&world, &plan);
    assert!(!working_in(&folder).is_empty(), "the command does not run");
    let reported = world
        .agents
        .data(&["plan", "cancel", &plan, "--reason", "enough"]);
    let answer = first.answer();
    assert_ne!(answer.code, Some(0), "{reported} {answer:?}");
    assert_eq!(working_in(&folder), Vec::<PathBuf>::new());
    assert_eq!(world.stage(&plan), "execute/cancelled");
    let answer = world.run(&["plan", "execute", &plan]);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(!world.repository().join("one.txt").exists());
}

/// Asserts that a command that a signal stopped reports the interruption, that no process is left,
/// and that the plan can be resumed.
fn assert_interrupted(world: &World, plan: &str, folder: &std::path::Path, answer: &Answer) {
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(answer.json()["exit_code"], 130, "{answer:?}");
    assert_eq!(error(answer)["code"], "CA-1152", "{answer:?}");
    assert_eq!(working_in(folder), Vec::<PathBuf>::new());
    assert_eq!(world.stage(plan), "execute/processing");
}

#[test]
fn ctrl_c_leaves_a_plan_that_can_be_resumed() {
    let world = World::new();
    let plan = waiting_plan(&world);
    let mut folder = PathBuf::new();
    for signal in [Signal::INT, Signal::TERM] {
        let mut first = world.start(&["plan", "execute", &plan, "--redo"]);
        folder = wait_for_work(&world, &plan);
        first.signal(signal);
        assert_interrupted(&world, &plan, &folder, &first.answer());
        let _unless_done = std::fs::remove_file(folder.join("started"));
    }
    std::fs::write(folder.join("go"), "").expect("a file");
    world.agents.data(&["plan", "execute", &plan]);
    let tree = world.tree(&plan);
    assert_eq!(tree["late.txt"], "late\n");
    assert_eq!(tree["two.txt"], "two\n");
    let written = world.ask(&format!(
        "SELECT count(*) FROM tool_invocations WHERE plan_id = '{plan}' AND tool = 'builtin/file-write'"
    ));
    assert_eq!(written[0][0], "2", "finished steps are not repeated");
}

/// One signal stops the program while it records the changes of a command. The call is stored with
/// its outcome, and the plan can be resumed.
#[test]
fn ctrl_c_ends_the_recording_of_changes() {
    let world = World::new();
    let script = "run `echo x > small.txt; test -f go || truncate -s 3000M large; touch started`";
    world.action("local/large", &["write `one` to `one.txt`", script]);
    let plan = world.plan("local/large", &[]);
    let mut first = world.start(&["plan", "execute", &plan]);
    let folder = wait_for_work(&world, &plan);
    World::wait_until("the end of the command", || working_in(&folder).is_empty());
    std::thread::sleep(std::time::Duration::from_millis(500));
    let started = std::time::Instant::now();
    first.signal(Signal::INT);
    let answer = first.answer();
    assert!(
        started.elapsed() < std::time::Duration::from_secs(5),
        "{answer:?}"
    );
    assert_interrupted(&world, &plan, &folder, &answer);
    let calls = world.ask(&format!(
        "SELECT outcome, error FROM tool_invocations WHERE plan_id = '{plan}' AND tool = 'builtin/shell'"
    ));
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0][0], "failed", "{calls:?}");
    assert!(calls[0][1].contains("interrupted"), "{calls:?}");
    // Without the large file, the resumed plan finishes.
    std::fs::remove_file(folder.join("large")).expect("removed");
    std::fs::write(folder.join("go"), "").expect("a file");
    world.agents.data(&["plan", "execute", &plan, "--redo"]);
    assert_eq!(world.tree(&plan)["small.txt"], "x\n");
}

#[test]
fn a_worker_that_a_signal_stops_during_a_plan_reports_it() {
    let world = World::new();
    let plan = waiting_plan(&world);
    let mut worker = world.start(&["worker"]);
    // Without a live worker, `--background` starts one of its own.
    World::wait_until("the lease of the worker", || {
        !world
            .ask("SELECT 1 FROM leases WHERE kind = 'worker'")
            .is_empty()
    });
    world
        .agents
        .data(&["plan", "execute", &plan, "--background"]);
    let folder = wait_for_work(&world, &plan);
    worker.signal(Signal::TERM);
    let answer = worker.answer();
    assert_interrupted(&world, &plan, &folder, &answer);
    let reported = answer.json()["data"].clone();
    assert_eq!(
        (&reported["failed"], &reported["stopped"]),
        (&0.into(), &1.into())
    );
    std::fs::write(folder.join("go"), "").expect("a file");
    let next = world.run(&["worker", "--until-idle"]);
    assert_eq!(next.code, Some(0), "{next:?}");
    assert_eq!(
        world.stage(&plan),
        "execute/complete",
        "the plan stayed queued"
    );
}

#[test]
fn ctrl_c_ends_a_command_that_waits_for_a_slot() {
    let mut world = World::new();
    world.agents = world.agents.with("CLEVERAGENTS_PLAN_CONCURRENCY", "1");
    let plan = waiting_plan(&world);
    let other = world.plan("local/waits", &[]);
    let before = world.stage(&other);
    let first = world.start(&["plan", "execute", &plan]);
    wait_for_work(&world, &plan);
    let arguments = ["--format", "plain", "plan", "execute", &other];
    let (code, screen) = world
        .agents
        .play(&[("waiting for a slot", "\x03")], &arguments);
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.contains("CA-1152"), "{screen}");
    assert_eq!(world.stage(&other), before);
    drop(first);
}

#[test]
fn ctrl_c_ends_a_question_between_phases() {
    let world = World::new();
    let arguments = [
        "--format",
        "plain",
        "do",
        "write `one` to `one.txt`",
        "--folder",
        "repo",
        "--strategy-actor",
        "builtin/deterministic",
        "--execution-actor",
        "builtin/deterministic",
    ];
    let steps = [("Execute it? [y/N", "\x03")];
    let (code, screen) = world.agents.play(&steps, &arguments);
    assert_eq!(code, Some(130), "{screen}");
    let stages = world.ask("SELECT stage FROM plans");
    assert_eq!(stages, [["strategize/complete"]], "{screen}");
}

/// A run of a plan that is resumed outside of the plan would have neither its sandbox nor its
/// limits.
#[test]
fn a_run_of_a_plan_is_resumed_only_by_the_plan() {
    let world = World::new();
    world.action("local/fails", &["run `echo once >> log.txt; exit 3`"]);
    let plan = world.plan("local/fails", &[]);
    let failed = world.run(&["plan", "execute", &plan]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let (before, repository) = (rows(&world), world.repository_state());
    let runs = world.ask("SELECT run_id FROM runs");
    assert!(!runs.is_empty());
    for run in runs {
        let refused = world.run(&["run", "resume", &run[0], "--redo"]);
        assert_eq!(refused.code, Some(4), "{refused:?}");
        assert_eq!(error(&refused)["code"], "CA-1142");
        let hint = error(&refused)["hint"].to_string();
        assert!(hint.contains(&format!("plan execute {plan}")), "{hint}");
    }
    assert_eq!(
        (rows(&world), world.repository_state()),
        (before, repository)
    );
}
