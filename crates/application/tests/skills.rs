//! Skills: registered atomically, refreshed without loss, used by others. Each test runs on both
//! databases.

use std::path::{Path, PathBuf};

use cleveragents_application::{
    Outcome, Register, SkillError, SkillOrigin, SkillService, SkillSource, ToolService,
};
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_store::definitions::{self, DefinitionKind};
use cleveragents_testkit::{TestDatabase, at_once};

/// The skill service on one database, and a folder for files, whose subfolder `skills` belongs to
/// the service.
struct SkillFixture {
    database: TestDatabase,
    service: SkillService,
    folder: tempfile::TempDir,
}

fn on_each_database(test: impl Fn(&SkillFixture)) {
    for database in TestDatabase::each() {
        let folder = tempfile::tempdir().expect("a folder");
        let service = SkillService::new(database.open(), folder.path().join("skills"));
        test(&SkillFixture {
            database,
            service,
            folder,
        });
    }
}

const fn no_variables(_: &str) -> Option<String> {
    None
}

impl SkillFixture {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a YAML file and returns it as the source of a skill.
    fn file(&self, name: &str, text: &str) -> SkillSource {
        let file = self.path(name);
        std::fs::write(&file, text).expect("written");
        SkillSource::File {
            text: text.to_owned(),
            file,
        }
    }

    fn add(&self, source: &SkillSource, register: Register) -> Result<Outcome, SkillError> {
        let added = self.service.add(source, register, &no_variables)?;
        Ok(added.outcome)
    }

    fn names(&self) -> Vec<String> {
        let known = self.service.known(&no_variables).expect("known");
        known.into_iter().map(|skill| skill.name).collect()
    }
}

/// Creates a folder with a `SKILL.md` and a script.
fn agent(base: &Path, name: &str) -> SkillSource {
    let folder = base.join(name);
    std::fs::create_dir_all(folder.join("scripts")).expect("made");
    let text = format!("---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n");
    std::fs::write(folder.join("SKILL.md"), text).expect("written");
    std::fs::write(folder.join("scripts/go.sh"), "echo gone\n").expect("written");
    SkillSource::Folder(folder)
}

fn code<T: std::fmt::Debug>(outcome: Result<T, SkillError>) -> Code {
    outcome.expect_err("it is refused").code()
}

#[test]
fn defect_980_a_skill_is_there_for_the_next_process() {
    on_each_database(|fixture| {
        let source = fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\ntools: [builtin/shell]\n",
        );
        assert_eq!(
            fixture.add(&source, Register::New).expect("added"),
            Outcome::Created
        );
        let next = SkillService::new(fixture.database.open(), fixture.path("skills"));
        let known = next.known(&no_variables).expect("known");
        assert_eq!(known.len(), 1);
        assert_eq!(next.flat("a", &no_variables).expect("flat").tools.len(), 1);
        assert_eq!(code(fixture.add(&source, Register::New)), Code::SkillExists);
        assert_eq!(
            fixture.add(&source, Register::Update).expect("updated"),
            Outcome::Updated
        );
        assert_eq!(
            code(next.find("local/aa", &no_variables)),
            Code::SkillNotFound
        );
    });
}

#[test]
fn defect_2579_includes_in_a_circle_are_refused_when_they_are_added() {
    on_each_database(|fixture| {
        let plain = fixture.file(
            "b.yaml",
            "name: local/b\ndescription: d\ntools: [builtin/shell]\n",
        );
        fixture.add(&plain, Register::New).expect("added");
        let above = fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\nincludes: [local/b]\n",
        );
        fixture.add(&above, Register::New).expect("added");
        let circle = fixture.file(
            "b.yaml",
            "name: local/b\ndescription: d\nincludes: [local/a]\n",
        );
        let refused = fixture
            .add(&circle, Register::Update)
            .expect_err("a circle");
        assert_eq!(refused.code(), Code::InvalidSkill);
        assert!(
            refused.to_string().contains("local/b → local/a → local/b"),
            "{refused}"
        );
        // The refused update changed nothing.
        assert_eq!(
            fixture
                .service
                .flat("local/b", &no_variables)
                .expect("flat")
                .tools
                .len(),
            1
        );
    });
}

#[test]
fn skills_in_use_cannot_be_removed_or_broken() {
    on_each_database(|fixture| {
        let below = fixture.file(
            "b.yaml",
            "name: local/b\ndescription: d\ntools: [builtin/shell]\n",
        );
        fixture.add(&below, Register::New).expect("added");
        let above = fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\nincludes:\n  - name: local/b\n    tool_overrides:\n      - {tool: builtin/shell, override: {capability: {unsafe: true}}}\n",
        );
        fixture.add(&above, Register::New).expect("added");
        let refused = fixture
            .service
            .remove("local/b", &no_variables)
            .expect_err("used");
        assert_eq!(refused.code(), Code::SkillInUse);
        assert!(refused.to_string().contains("skill local/a"), "{refused}");
        // Without the tool, the reference of the other skill would dangle.
        let without = fixture.file(
            "b.yaml",
            "name: local/b\ndescription: d\ntools: [builtin/file-read]\n",
        );
        let refused = fixture
            .add(&without, Register::Update)
            .expect_err("it would break another skill");
        assert!(refused.to_string().contains("a.yaml:6"), "{refused}");
        fixture
            .service
            .remove("local/a", &no_variables)
            .expect("removed");
        // An actor that uses the skill also prevents its removal.
        let text = "actors: {desk: {type: llm, skills: [b]}}";
        let stored = fixture.database.open().write(move |unit| {
            definitions::insert(unit, DefinitionKind::Actor, "local/desk", text, "desk.yaml")
        });
        stored.expect("stored");
        assert_eq!(
            code(fixture.service.remove("local/b", &no_variables)),
            Code::SkillInUse
        );
        assert_eq!(fixture.names(), ["local/b"]);
    });
}

#[test]
fn folders_are_added_or_found() {
    on_each_database(|fixture| {
        let added = agent(&fixture.path("elsewhere"), "counting");
        fixture.add(&added, Register::New).expect("added");
        agent(&fixture.path("skills"), "drawing");
        // Registered skills take precedence over folders of the same name.
        agent(&fixture.path("skills"), "counting");
        assert_eq!(fixture.names(), ["local/counting", "local/drawing"]);
        let found = fixture
            .service
            .find("counting", &no_variables)
            .expect("found");
        assert!(matches!(found.origin, SkillOrigin::Registered(_)));
        assert!(found.place().contains("elsewhere"), "{}", found.place());
        let flat = fixture
            .service
            .flat("drawing", &no_variables)
            .expect("flat");
        assert_eq!(flat.tools.len(), 3);
        assert_eq!(
            code(fixture.service.remove("drawing", &no_variables)),
            Code::SkillInUse
        );
        fixture
            .service
            .remove("counting", &no_variables)
            .expect("removed");
        let found = fixture
            .service
            .find("counting", &no_variables)
            .expect("found");
        assert!(matches!(found.origin, SkillOrigin::Found(_)));
    });
}

#[test]
fn defect_7487_a_failed_refresh_leaves_what_was_there() {
    on_each_database(|fixture| {
        let source = fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\ntools: [builtin/shell]\n",
        );
        fixture.add(&source, Register::New).expect("added");
        let reported = |name| {
            let reported = fixture
                .service
                .refresh(name, &no_variables)
                .expect("refreshed");
            let failed = reported
                .failed
                .iter()
                .map(|(name, _)| name.clone())
                .collect();
            let skipped = reported
                .skipped
                .iter()
                .map(|(name, _)| name.clone())
                .collect();
            [reported.refreshed, reported.unchanged, failed, skipped]
                .map(|names: Vec<String>| names.len())
        };
        assert_eq!(reported(None), [0, 1, 0, 0]);
        fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\ntools: [builtin/none-such]\n",
        );
        assert_eq!(reported(Some("a")), [0, 0, 1, 0]);
        assert_eq!(
            fixture
                .service
                .flat("a", &no_variables)
                .expect("still there")
                .tools
                .len(),
            1
        );
        fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\nbuiltins: [{group: git}]\n",
        );
        assert_eq!(reported(None), [1, 0, 0, 0]);
        assert!(
            fixture
                .service
                .flat("a", &no_variables)
                .expect("new")
                .tools
                .len()
                > 1
        );
    });
}

#[test]
fn defect_4814_what_could_not_be_looked_at_is_not_called_refreshed() {
    on_each_database(|fixture| {
        let source = fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\ntools: [builtin/shell]\n",
        );
        fixture.add(&source, Register::New).expect("added");
        std::fs::remove_file(fixture.path("a.yaml")).expect("removed");
        let reported = fixture
            .service
            .refresh(None, &no_variables)
            .expect("refreshed");
        assert_eq!(reported.skipped.len(), 1);
        assert!(
            reported.refreshed.is_empty()
                && reported.unchanged.is_empty()
                && reported.failed.is_empty()
        );
        assert_eq!(fixture.names(), ["local/a"]);
    });
}

#[test]
fn defect_4811_of_two_registrations_of_one_name_one_succeeds() {
    on_each_database(|fixture| {
        let source = fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\ntools: [builtin/shell]\n",
        );
        let outcomes = at_once(4, |_| fixture.add(&source, Register::New).is_ok());
        assert_eq!(outcomes.into_iter().filter(|is_ok| *is_ok).count(), 1);
    });
}

#[test]
fn concurrently_updated_skills_cannot_include_each_other() {
    on_each_database(|fixture| {
        for (name, other) in [("a", "b"), ("b", "a")] {
            let text = format!("name: local/{name}\ndescription: d\ntools: [builtin/shell]\n");
            fixture
                .add(&fixture.file("first.yaml", &text), Register::New)
                .expect("added");
            let text = format!("name: local/{name}\ndescription: d\nincludes: [local/{other}]\n");
            fixture.file(&format!("{name}.yaml"), &text);
        }
        let sources = ["a", "b"].map(|name| {
            let file = fixture.path(&format!("{name}.yaml"));
            SkillSource::File {
                text: std::fs::read_to_string(&file).expect("read"),
                file,
            }
        });
        let outcomes = at_once(2, |index| {
            fixture.add(&sources[index], Register::Update).is_ok()
        });
        assert_eq!(outcomes.into_iter().filter(|is_ok| *is_ok).count(), 1);
        for name in ["a", "b"] {
            fixture.service.flat(name, &no_variables).expect("no cycle");
        }
    });
}

#[test]
fn models_receive_the_tools_and_descriptions_of_skills() {
    on_each_database(|fixture| {
        let source = fixture.file(
            "a.yaml",
            "name: local/a\ndescription: d\ntools: [{name: builtin/shell, override: {capability: {human_approval_required: true}}}]\nanonymous_tools: [{description: counts, command: [wc], read_only: true}]\n",
        );
        fixture.add(&source, Register::New).expect("added");
        agent(&fixture.path("skills"), "drawing");
        let tools = ToolService::new(fixture.database.open());
        let all = tools.registry(&no_variables).expect("tools").registry;
        let names = ["a".to_owned(), "drawing".to_owned()];
        let assembled = fixture
            .service
            .assemble_tools(&names, &all, &no_variables)
            .expect("assembled");
        let reported = |name: &str| {
            let names = assembled.tools(name).expect("a skill");
            names.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(reported("local/a"), ["builtin/shell", "local/a-1"]);
        assert_eq!(
            reported("drawing"),
            ["skill/activate", "skill/read", "skill/run"]
        );
        for name in ["local/a-1", "skill/run", "builtin/file-read"] {
            assembled.registry.get(name).expect(name);
        }
        let shell = assembled.registry.get("builtin/shell").expect("there");
        assert!(shell.capability.needs_approval);
        assert!(
            assembled
                .announcement(None)
                .contains("- drawing: Does drawing.")
        );
        assert_eq!(assembled.announcement(Some(&names[..1])), "");
        let missing = fixture
            .service
            .assemble_tools(&["darwing".to_owned()], &all, &no_variables);
        assert_eq!(code(missing), Code::SkillNotFound);
    });
}
