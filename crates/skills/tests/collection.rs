//! Tests of skills in YAML: invalid files of every kind, and the flattening of valid files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::{Code, DefinitionFileError, Diagnose as _, Name};
use cleveragents_skills::{Definition, FlattenedSkill, Library, collection, flatten, registry};
use cleveragents_tools::{Registry, TightenError, custom};
use serde_json::{Value, json};

fn variables(name: &str) -> Option<String> {
    (name == "READER").then(|| "builtin/file-read".to_owned())
}

fn tools() -> Registry {
    let mut registry = Registry::with_builtins();
    let text = "name: local/vacuum\ndescription: compacts\ncommand: [vacuum]\nunsafe: true\n";
    let tool = custom::read(text, Path::new("vacuum.yaml"), &variables).expect("a tool");
    registry.add(Arc::new(tool)).expect("registered");
    registry
}

fn read(text: &str) -> Result<collection::Skill, DefinitionFileError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    collection::read(text, &folder.join("x.yaml"), &variables)
}

fn add_skill(library: &mut Library, text: &str) -> Name {
    let skill = read(text).unwrap_or_else(|error| panic!("{error}"));
    let name = skill.name.clone();
    library.insert(name.clone(), Definition::Collection(Box::new(skill)));
    name
}

/// Skills that others can include.
fn library() -> Library {
    let mut library = Library::new();
    for text in [
        "name: local/files\ndescription: d\nbuiltins: [{group: file}]\n",
        "name: local/leads-back\ndescription: d\nincludes: [local/circle]\n",
        "name: local/further\ndescription: d\nincludes: [local/leads-back]\n",
    ] {
        add_skill(&mut library, text);
    }
    library
}

fn flat(text: &str) -> FlattenedSkill {
    let mut library = library();
    let name = add_skill(&mut library, text);
    flatten(&name, &library, &tools()).unwrap_or_else(|error| panic!("{error}"))
}

fn names(flat: &FlattenedSkill) -> Vec<String> {
    flat.tools
        .iter()
        .map(|tool| tool.spec.name.to_string())
        .collect()
}

fn broken_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// The first line of each file contains the expected error: the position, the message, the fix.
#[test]
fn every_broken_file_has_one_error_with_file_position_and_fix() {
    let files = broken_files();
    assert!(files.len() >= 50, "{}", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("read");
        let outcome = collection::read(&text, &path, &variables).and_then(|skill| {
            let mut library = library();
            let name = skill.name.clone();
            library.insert(name.clone(), Definition::Collection(Box::new(skill)));
            flatten(&name, &library, &tools())
        });
        let message = match outcome {
            Ok(_) => "no error".to_owned(),
            Err(error) => {
                assert!(matches!(
                    error.code(),
                    Code::MalformedSkill | Code::InvalidSkill
                ));
                let hint = error.hint().expect("a fix").neutral();
                assert!(
                    !hint.is_empty() && error.line > 0 && error.column > 0,
                    "{error}"
                );
                format!("{error} | {hint}")
            }
        };
        let folder = path.parent().expect("a folder").display().to_string();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let message = message.replace(&format!("{folder}/"), "");
        let message = message
            .strip_prefix(&format!("{name}:"))
            .unwrap_or(&message)
            .to_owned();
        let expected = text.lines().next().unwrap_or_default();
        let expected = expected
            .strip_prefix("# expects: ")
            .expect("an expected error");
        if message != expected {
            wrong.push(format!(
                "{name}\n  expected {expected}\n  message     {message}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_may_be_wrapped_or_flat_and_use_either_spelling() {
    let flat_file = flat(
        "name: local/x
description: d
tools: [\"${READER}\"]
includes: [{name: local/files, tool_overrides: [{tool: builtin/file-write, override: {capability: {human_approval_required: true}}}]}]
anonymous_tools: [{description: counts, command: [wc], read_only: true}]
builtins: [{group: git}]
mcp_servers: [{name: time, command: uvx, env: {KEY: \"${SECRET}\"}}]
agent_skills: [../corpus/minimal]
",
    );
    let wrapped = flat(
        "cleveragents: {version: \"3.0\"}
skill:
  name: local/x
  description: d
  tools: [{name: builtin/read_file}]
  includes: [{name: local/files, toolOverrides: [{tool: builtin/write_file, override: {capability: {human_approval_required: true}}}]}]
  inlineTools: [{description: counts, command: [wc], capability: {read_only: true}}]
  builtins: [git_operations]
  mcpServers: {time: {command: uvx, env: {KEY: \"${SECRET}\"}}}
  agentSkillFolders: [../corpus/minimal]
",
    );
    assert_eq!(names(&flat_file), names(&wrapped));
    for (one, other) in flat_file.tools.iter().zip(&wrapped.tools) {
        assert_eq!(one.spec, other.spec);
    }
    let write = |flat: &FlattenedSkill| {
        let tool = flat
            .tools
            .iter()
            .find(|tool| tool.spec.name.short() == "file-write");
        tool.expect("there").spec.capability.needs_approval
    };
    assert!(write(&flat_file) && write(&wrapped));
    // Variables that may be secrets are not replaced.
    for flat in [&flat_file, &wrapped] {
        assert_eq!(flat.servers[0].server.definition["env"]["KEY"], "${SECRET}");
        assert_eq!(flat.agent_skills[0].0.name, "minimal");
    }
}

#[test]
fn the_order_is_fixed_and_the_nearer_definition_takes_precedence() {
    let flat = flat(
        "name: local/x
description: d
tools: [builtin/shell, builtin/file-read]
includes: [local/files]
builtins: [{group: shell}]
anonymous_tools:
  - {description: one, command: [a]}
  - {name: local/vacuum, description: my own, command: [b]}
  - {description: three, command: [c]}
agent_skills: [../corpus/with-folders]
",
    );
    let expected = [
        "builtin/apply-patch",
        "builtin/file-copy",
        "builtin/file-delete",
        "builtin/file-edit",
        "builtin/file-find",
        "builtin/file-move",
        "builtin/file-search",
        "builtin/file-write",
        "builtin/file-read",
        "builtin/shell",
        "builtin/shell-job",
        "builtin/shell-network",
        "local/x-1",
        "local/vacuum",
        "local/x-3",
        "skill/activate",
        "skill/read",
        "skill/run",
    ];
    assert_eq!(names(&flat), expected);
    let tool = |name: &str| {
        let found = flat
            .tools
            .iter()
            .find(|tool| tool.spec.name.to_string() == name);
        found.expect(name)
    };
    assert_eq!(tool("builtin/file-read").from_skill, None);
    let from = tool("builtin/file-write")
        .from_skill
        .as_ref()
        .map(ToString::to_string);
    assert_eq!(from.as_deref(), Some("local/files"));
    assert_eq!(tool("local/vacuum").spec.description, "my own");
    let sources: Vec<&str> = ["builtin/shell", "local/x-1", "skill/run"]
        .into_iter()
        .map(|name| tool(name).source())
        .collect();
    assert_eq!(sources, ["builtin", "custom", "agent_skill"]);
    let summary = flat.summary();
    assert_eq!(summary.total, 18);
    assert_eq!(summary.read_only + summary.writes, 18);
}

#[test]
fn overrides_of_all_occurrences_of_a_tool_apply() {
    let mut library = library();
    add_skill(
        &mut library,
        "name: local/careful\ndescription: d\ntools: [{name: builtin/shell, override: {capability: {human_approval_required: true}}}]\n",
    );
    // The skill itself names the tool again, without overrides, and includes it through a group.
    let name = add_skill(
        &mut library,
        "name: local/x\ndescription: d\nincludes: [local/careful]\ntools: [builtin/shell]\nbuiltins: [{group: shell}]\n",
    );
    let flat = flatten(&name, &library, &tools()).expect("flat");
    assert_eq!(
        names(&flat),
        [
            "builtin/shell",
            "builtin/shell-job",
            "builtin/shell-network"
        ]
    );
    assert!(flat.tools[0].spec.capability.needs_approval);
    let strict = registry(&tools(), &[flat], &[]).expect("a registry");
    assert!(
        strict
            .get("builtin/shell")
            .expect("there")
            .capability
            .needs_approval
    );
    assert_eq!(strict.list().count(), 3);
}

#[test]
fn a_registry_contains_only_the_tools_of_its_skills() {
    let one = flat(
        "name: local/x\ndescription: d\ntools: [builtin/file-read]\nagent_skills: [../corpus/minimal]\n",
    );
    let other = flat(
        "name: local/y\ndescription: d\nanonymous_tools: [{name: local/vacuum, description: mine, command: [a]}]\nagent_skills: [../corpus/quoted]\n",
    );
    let others = ["builtin/git-log".parse().expect("a name")];
    let registry = registry(&tools(), &[one, other], &others).expect("a registry");
    let names: Vec<String> = registry.list().map(|spec| spec.name.to_string()).collect();
    let expected = [
        "builtin/file-read",
        "builtin/git-log",
        "local/vacuum",
        "skill/activate",
        "skill/read",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        registry.get("local/vacuum").expect("there").description,
        "mine"
    );
}

#[test]
fn a_registry_refuses_to_loosen_a_tool() {
    let change = cleveragents_tools::CapabilityChange {
        access: Some(cleveragents_tools::Access::Reads),
        ..Default::default()
    };
    let mut registry = tools();
    let refused = registry.tighten("builtin/shell", &change);
    assert!(matches!(refused, Err(TightenError::Loosened(_))));
    assert!(
        registry
            .get("builtin/shell")
            .expect("there")
            .capability
            .is_writing()
    );
}

#[test]
fn a_skill_that_many_include_is_resolved_once() {
    // Without memoization, this would take exponential time.
    let mut library = library();
    add_skill(
        &mut library,
        "name: local/layer-0\ndescription: d\ntools: [builtin/shell]\n",
    );
    for layer in 1..=15 {
        for side in ["a", "b"] {
            let below = if layer == 1 {
                "local/layer-0".to_owned()
            } else {
                format!("local/a-{0}, local/b-{0}", layer - 1)
            };
            add_skill(
                &mut library,
                &format!("name: local/{side}-{layer}\ndescription: d\nincludes: [{below}]\n"),
            );
        }
    }
    let name = "local/a-15".parse().expect("a name");
    let flat = flatten(&name, &library, &tools()).expect("flat");
    assert_eq!(names(&flat), ["builtin/shell"]);
    assert_eq!(flat.includes.len(), 29);
}

#[test]
fn a_file_of_ten_megabytes_is_refused() {
    let text = format!("name: local/x\ndescription: {}\n", "x".repeat(10 << 20));
    let error = read(&text).expect_err("too large");
    assert_eq!((error.line, error.column), (1, 1));
    assert!(error.message.contains("larger than"), "{error}");
}

#[test]
fn the_schema_for_editors_agrees_with_the_reader() {
    let validator = jsonschema::validator_for(&collection::schema()).expect("a schema");
    let valid = json!({"name": "local/x", "description": "d",
        "tools": ["builtin/shell", {"name": "builtin/file-read", "override": {"capability": {"writes": true}}}],
        "includes": ["local/a", {"name": "local/b", "toolOverrides": []}],
        "inlineTools": [{"description": "d", "command": ["x"]}],
        "builtins": [{"group": "git"}, "shell"],
        "mcpServers": {"a": {"command": "x"}},
        "agent_skills_dirs": ["x"]});
    let error = validator
        .iter_errors(&valid)
        .next()
        .map(|error| error.to_string());
    assert_eq!(error, None);
    assert!(validator.is_valid(&json!({"skill": valid})));
    for invalid in [
        json!({"name": "local/x"}),
        json!({"name": "local/x", "description": "d", "tolls": []}),
        json!({"name": "local/x", "description": "d", "tools": [{"name": "a", "override": {"name": "b"}}]}),
    ] {
        assert!(!validator.is_valid(&invalid), "{invalid}");
    }
    // The schema detects many of the errors; the other files break rules that no schema can express.
    let (mut all, mut detected) = (0, 0);
    for file in broken_files() {
        let text = std::fs::read_to_string(file).expect("text");
        let value = serde_saphyr::from_str::<Value>(&text);
        all += 1;
        detected += usize::from(!value.is_ok_and(|value| validator.is_valid(&value)));
    }
    assert!(detected * 3 > all, "{detected} of {all}");
}

#[test]
fn the_example_of_the_documentation_works() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/skills.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let example = page
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let skill = read(example.expect("an example")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(skill.name.to_string(), "local/writing");
    assert_eq!(
        (
            skill.includes.len(),
            skill.tools.len(),
            skill.anonymous.len()
        ),
        (2, 2, 1)
    );
    assert_eq!(
        (skill.groups.len(), skill.servers.len(), skill.folders.len()),
        (1, 1, 1)
    );
}
