//! Two concurrent applies of one sandbox, or of two sandboxes of one repository, and a user who
//! saves a file during an apply.

use std::time::{Duration, Instant};

use cleveragents_testkit::{Answer, Dice, Gate, proof_size};

use super::world::{agents, assert_nothing_leaked, create, git, read, repository, write};

#[test]
fn exactly_one_of_two_concurrent_applies_succeeds() {
    let agents = agents();
    for round in 0..proof_size(5, 100) {
        let real = agents.cwd().join(format!("real-{round}"));
        repository(&real, &[("edit", "before\n"), ("other", "before\n")]);
        let part = create(&agents, "fix", &[&real]).remove(0);
        write(part.join("edit"), "after\n");
        write(part.join("new"), "new\n");
        let gate = Gate::default();
        let apply = ["--format", "json", "sandbox", "apply", "fix"];
        let running = [(); 2].map(|()| agents.behind(&gate, &apply));
        gate.open();
        let answers = running
            .map(|child| Answer::from_output(&child.wait_with_output().expect("the program ends")));
        let mut codes = answers.each_ref().map(|answer| answer.code);
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(4)], "round {round}: {answers:#?}");
        assert_eq!(read(real.join("edit")), "after\n");
        assert_eq!(read(real.join("new")), "new\n");
        assert_eq!(git(&real, &["rev-list", "--count", "HEAD"]), "2\n");
        assert_eq!(git(&real, &["status", "--porcelain"]), "");
        assert_nothing_leaked(&agents, &[&real], &[]);
    }
}

#[test]
fn two_sandboxes_of_one_repository_are_applied_in_turn_or_one_is_refused() {
    let agents = agents();
    for round in 0..proof_size(5, 100) {
        let real = agents.cwd().join(format!("real-{round}"));
        repository(
            &real,
            &[("a", "before\n"), ("b", "before\n"), ("both", "before\n")],
        );
        for name in ["a", "b"] {
            let part = create(&agents, name, &[&real]).remove(0);
            write(part.join(name), "after\n");
            write(part.join(format!("new-{name}")), "new\n");
            // In every second round, the two sandboxes conflict.
            if round % 2 == 1 {
                write(part.join("both"), name);
            }
        }
        let gate = Gate::default();
        let running = ["a", "b"]
            .map(|name| agents.behind(&gate, &["--format", "json", "sandbox", "apply", name]));
        gate.open();
        let answers = running
            .map(|child| Answer::from_output(&child.wait_with_output().expect("the program ends")));
        let mut applied = 0;
        for (name, answer) in ["a", "b"].iter().zip(&answers) {
            let is_applied = answer.code == Some(0);
            assert!(
                is_applied || answer.code == Some(4),
                "round {round}: {answer:?}"
            );
            applied += usize::from(is_applied);
            let expected = if is_applied { "after\n" } else { "before\n" };
            assert_eq!(
                read(real.join(name)),
                expected,
                "round {round}: all changes or none"
            );
            assert_eq!(real.join(format!("new-{name}")).exists(), is_applied);
        }
        assert!((1..=2).contains(&applied), "round {round}: {answers:#?}");
        assert!(
            round % 2 == 0 || applied == 1,
            "round {round}: the conflict is detected"
        );
        let count = git(&real, &["rev-list", "--count", "HEAD"]);
        assert_eq!(count, format!("{}\n", 1 + applied), "one commit each");
        assert_eq!(git(&real, &["status", "--porcelain"]), "");
        for name in ["a", "b"] {
            agents.run(&["sandbox", "discard", name, "--yes"]);
        }
        assert_nothing_leaked(&agents, &[&real], &[]);
    }
}

#[test]
fn files_saved_during_an_apply_are_never_lost() {
    let agents = agents();
    let mut dice = Dice::default();
    let mut duration = Duration::from_millis(300);
    let (mut applied, mut refused) = (0, 0);
    for round in 0..proof_size(20, 200) {
        let real = agents.cwd().join(format!("real-{round}"));
        write(real.join("edit"), "before\n");
        write(real.join("other"), "before\n");
        let part = create(&agents, "fix", &[&real]).remove(0);
        write(part.join("edit"), "after\n");
        write(part.join("other"), "after\n");
        agents.data(&["sandbox", "checkpoint", "fix"]);
        let started = Instant::now();
        let running = agents
            .command(["--format", "json", "sandbox", "apply", "fix"])
            .spawn()
            .expect("the program starts");
        let limit = u64::try_from(duration.as_micros()).expect("a short time");
        std::thread::sleep(Duration::from_micros(dice.roll(limit)));
        // Save as editors do: a new file replaces the old file.
        let draft = agents.cwd().join("draft");
        write(&draft, "mine\n");
        std::fs::rename(&draft, real.join("edit")).expect("renamed");
        let answer = Answer::from_output(&running.wait_with_output().expect("the program ends"));
        duration = started.elapsed();
        assert_eq!(
            read(real.join("edit")),
            "mine\n",
            "round {round}: {answer:?}"
        );
        match answer.code {
            Some(0) => {
                applied += 1;
                assert_eq!(read(real.join("other")), "after\n");
            }
            Some(4) => {
                refused += 1;
                assert_eq!(read(real.join("other")), "before\n");
                agents.data(&["sandbox", "discard", "fix", "--yes"]);
            }
            _ => panic!("round {round}: {answer:?}"),
        }
    }
    println!("{applied} applied before the user saved, {refused} refused");
}
