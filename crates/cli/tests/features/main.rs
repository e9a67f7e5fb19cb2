//! Runs the scenarios of `features/*.feature`.
//!
//! Steps run the real program, or the engine if there is no command. An undefined step, a feature
//! that cannot be parsed and a run without scenarios are failures. The last line is a `test
//! result:` line as in other test programs. Arguments also work as in other test programs: words
//! select scenarios by a part of their name, feature or tag, and `--list` prints the tests.

#![expect(
    clippy::needless_pass_by_value,
    clippy::print_stdout,
    reason = "steps receive owned values, and the runner prints its result"
)]

mod actors;
mod engine;
mod leases;
mod plans;
mod program;
mod resources;
mod sandboxes;
mod sessions;
mod tools;
mod turns;
mod world;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_testkit::not_run;
use cucumber::World as _;
use cucumber::event::ScenarioFinished;
use cucumber::gherkin::{Feature, Scenario};
use cucumber::writer::Stats as _;

use world::World;

static PASSED: AtomicUsize = AtomicUsize::new(0);
static FAILED: AtomicUsize = AtomicUsize::new(0);
static IGNORED: AtomicUsize = AtomicUsize::new(0);
static FILTERED_OUT: AtomicUsize = AtomicUsize::new(0);

/// Name under which `--list` prints all scenarios as one test.
const ALL: &str = "scenarios";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        println!("{ALL}: test\n\n1 test, 0 benchmarks");
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = arguments
        .into_iter()
        .filter(|argument| !argument.starts_with('-') && argument.as_str() != ALL)
        .collect();
    let has_filter = !words.is_empty();
    let has_server = std::env::var_os("CLEVERAGENTS_TEST_POSTGRES_URL").is_some();
    let features = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../features");

    let run = World::cucumber()
        .with_default_cli()
        .max_concurrent_scenarios(1)
        .after(|_, _, _, finished, _| {
            let counter = match finished {
                ScenarioFinished::StepPassed => &PASSED,
                _ => &FAILED,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(()))
        })
        .fail_on_skipped()
        .filter_run(features, move |feature, _, scenario| {
            let is_selected =
                words.is_empty() || words.iter().any(|word| is_match(word, feature, scenario));
            if !is_selected {
                FILTERED_OUT.fetch_add(1, Ordering::Relaxed);
            } else if !has_server && scenario.tags.iter().any(|tag| tag == "postgres") {
                IGNORED.fetch_add(1, Ordering::Relaxed);
                not_run(
                    &format!("scenario `{}`", scenario.name),
                    "CLEVERAGENTS_TEST_POSTGRES_URL is not set",
                );
                return false;
            }
            is_selected
        });
    let outcome = futures::executor::block_on(run);

    let [passed, failed, ignored, filtered_out] =
        [&PASSED, &FAILED, &IGNORED, &FILTERED_OUT].map(|counter| counter.load(Ordering::Relaxed));
    let is_empty = passed == 0 && !has_filter;
    let is_ok = failed == 0 && !outcome.execution_has_failed() && !is_empty;
    println!(
        "\ntest result: {}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {filtered_out} filtered out",
        if is_ok { "ok" } else { "FAILED" }
    );
    if is_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns true if the name of the feature or scenario or one of its tags contains the word.
fn is_match(word: &str, feature: &Feature, scenario: &Scenario) -> bool {
    let word = word.trim_start_matches('@').to_lowercase();
    let names = [&feature.name, &scenario.name]
        .into_iter()
        .chain(&scenario.tags);
    names
        .into_iter()
        .any(|name| name.to_lowercase().contains(&word))
}
