//! Background commands of a plan's model.

use std::fs;

use cleveragents_domain::{PlanPhase, PlanStage};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;

use crate::support::{PlanEnvironment, User};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "background::a_server_in_the_background_answers_later_commands",
        a_server_in_the_background_answers_later_commands,
    ),
    (
        "background::forgotten_commands_end_with_their_phase",
        forgotten_commands_end_with_their_phase,
    ),
];

fn has_process(marker: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("the processes");
    processes.filter_map(Result::ok).any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker)
    })
}

/// All texts of the requests of a plan.
fn sent(environment: &PlanEnvironment) -> String {
    let requests: Vec<String> = environment
        .requests()
        .iter()
        .map(ToString::to_string)
        .collect();
    requests.concat()
}

const SERVER: &str = r#"
answers:
- when: '^Make the strategy'
  calls:
  - {name: submit_strategy, arguments: {summary: Write it, steps: [{title: Correct the price, description: Put right into price.txt, files: [price.txt]}]}}
- when: '^Execute step 1 of 1'
  calls:
  - {name: shell, arguments: {command: 'python3 -u -m http.server --bind 127.0.0.1 8124', background: true}}
  - name: shell
    arguments:
      command: |
        python3 - <<'END'
        import time, urllib.request
        for attempt in range(100):
            try:
                print("status", urllib.request.urlopen("http://127.0.0.1:8124/price.txt").status)
                break
            except OSError:
                time.sleep(0.1)
        END
  - {name: shell, arguments: {job: 1}}
  - {name: shell, arguments: {job: 1, stop: true}}
  - {name: shell, arguments: {job: 2}}
- when: '^Review the result'
  calls:
  - {name: submit_review, arguments: {criteria: [{number: 1, met: true, evidence: 'price.txt:1'}]}}
- when: '.'
  calls:
  - {name: write_file, arguments: {path: price.txt, content: "right\n"}}
  - {name: step_done, arguments: {summary: The price is right now.}}
"#;

fn a_server_in_the_background_answers_later_commands() {
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, SERVER);
    let plan = environment.plan("trusted");
    let user = User::answering(Approval::Once);
    let plan = environment
        .drive(&plan, PlanPhase::Strategize, &user)
        .expect("driven");
    assert_ne!(plan.stage, PlanStage::StrategizeErrored, "{:?}", plan.error);
    let sent = sent(&environment);
    for text in [
        "Job 1 has been running for",
        "status 200",
        "GET /price.txt HTTP/1.1",
        "Job 1 was stopped",
        "there is no job 2: the jobs of this conversation: 1",
    ] {
        assert!(sent.contains(text), "{text}: {sent}");
    }
}

/// The answer of each phase starts a command that never ends. The command of the strategy also changes a file after the
/// model's last call.
fn forgotten_commands_end_with_their_phase() {
    let database = TestDatabase::sqlite();
    let marker = format!("8{}", std::process::id());
    let script = format!(
        r#"
answers:
- when: '^Make the strategy'
  calls:
  - {{name: shell, arguments: {{command: 'echo changed > price.txt; while true; do echo x >> log.txt; sleep 0.01; done', background: true}}}}
  - {{name: shell, arguments: {{command: 'setsid sleep {marker} & sleep {marker}', background: true}}}}
  - {{name: submit_strategy, arguments: {{summary: Write it, steps: [{{title: Correct the price, description: Put right into price.txt, files: [price.txt]}}]}}}}
- when: '^Execute step 1 of 1'
  calls:
  - {{name: shell, arguments: {{command: 'setsid sleep {marker} & echo late > late.txt; sleep {marker}', background: true}}}}
  - {{name: write_file, arguments: {{path: price.txt, content: "right\n"}}}}
  - {{name: step_done, arguments: {{summary: The price is right now.}}}}
- text: Nothing more.
"#
    );
    let environment = PlanEnvironment::new(&database, &script);
    let plan = environment.plan("supervised");
    let user = User::answering(Approval::Once);
    let plan = environment
        .drive(&plan, PlanPhase::Strategize, &user)
        .expect("driven");
    assert_eq!(
        plan.stage,
        PlanStage::StrategizeComplete,
        "{:?}",
        plan.error
    );
    assert!(!has_process(&marker), "no process is left");
    let changed = environment.changed_in_sandbox(&plan);
    assert!(changed.is_empty(), "the trial is rolled back: {changed:?}");
    let _outcome = environment.drive(&plan, PlanPhase::Execute, &user);
    assert!(!has_process(&marker), "no process is left");
    let plan = environment.plans.get(plan.id).expect("it exists");
    let changed = environment.changed_in_sandbox(&plan);
    assert_eq!(changed, ["late.txt", "price.txt"], "{:?}", plan.error);
}
