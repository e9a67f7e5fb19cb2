//! Tests of the corpus of folders: every inspection returns the recorded verdict, which
//! `scripts/skills-agreement` compares with the verdict of the reference validator.

use std::path::{Path, PathBuf};

use cleveragents_domain::Diagnose as _;
use cleveragents_skills::agent::{AgentSkill, inspect};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Verdict and folder of every entry.
fn entries() -> Vec<(bool, String)> {
    let text = std::fs::read_to_string(corpus().join("verdicts.tsv")).expect("the verdicts");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut fields = line.split('\t');
            let verdict = fields.next().expect("a verdict");
            assert!(["good", "bad"].contains(&verdict), "{line}");
            (
                verdict == "good",
                fields.next().expect("a folder").to_owned(),
            )
        })
        .collect()
}

#[test]
fn every_folder_has_the_recorded_verdict() {
    let entries = entries();
    assert!(entries.len() >= 60, "{}", entries.len());
    let mut wrong = Vec::new();
    for (is_good, folder) in &entries {
        let inspection = inspect(&corpus().join(folder));
        if inspection.is_standard() != *is_good {
            wrong.push(format!(
                "{folder}: {:?} {:?}",
                inspection.errors, inspection.deviations
            ));
        }
        assert_eq!(
            inspection.skill.is_some(),
            inspection.errors.is_empty(),
            "{folder}"
        );
        for error in inspection.errors.iter().chain(&inspection.deviations) {
            assert!(error.line > 0 && error.column > 0, "{error}");
            assert!(
                error.hint().is_some_and(|hint| !hint.neutral().is_empty()),
                "{error}"
            );
            assert!(error.file.starts_with(corpus()), "{error}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_folder_of_the_corpus_is_recorded() {
    let mut existing: Vec<String> = std::fs::read_dir(corpus())
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("a name"))
        .collect();
    let mut recorded: Vec<String> = entries().into_iter().map(|(_, folder)| folder).collect();
    existing.sort();
    recorded.sort();
    assert_eq!(existing, recorded);
}

#[test]
fn deviations_from_the_standard_are_accepted_and_reported() {
    for folder in [
        "steps",
        "flow-list",
        "flow-map",
        "unknown-field",
        "byte-order-mark",
    ] {
        let skill =
            AgentSkill::read(&corpus().join(folder)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(skill.deviations.len(), 1, "{folder}");
    }
    let skill = AgentSkill::read(&corpus().join("steps")).expect("usable");
    let steps: Vec<(usize, &str)> = skill
        .steps
        .iter()
        .map(|step| (step.number, &*step.text))
        .collect();
    assert_eq!(steps, [(1, "first"), (2, "second")]);
}

#[test]
fn all_fields_are_read_as_texts() {
    let skill = AgentSkill::read(&corpus().join("all-fields")).expect("good");
    assert_eq!(skill.registered.to_string(), "local/all-fields");
    assert_eq!(skill.metadata["version"], "1.10");
    assert_eq!(skill.allowed_tools, ["Bash(git:*)", "Read"]);
    assert_eq!(skill.license.as_deref(), Some("Apache-2.0"));
    assert_eq!(skill.compatibility.as_deref(), Some("needs git"));
    assert_eq!(skill.body, "Do it.");
    let skill = AgentSkill::read(&corpus().join("tools-as-list")).expect("good");
    assert_eq!(skill.allowed_tools, ["Read", "Grep"]);
    let skill = AgentSkill::read(&corpus().join("with-folders")).expect("good");
    let files = [
        "assets/letter.txt",
        "references/notes.md",
        "scripts/count.py",
    ];
    assert_eq!(skill.files().expect("listed"), files);
    let skill = AgentSkill::read(&corpus().join("dashes-in-text")).expect("good");
    assert_eq!(skill.description, "before --- after");
}
