//! Tests of permission rules, with many attempts to bypass them.

use proptest::prelude::*;

use super::{Decision, Effect, PermissionRules, Rule};
use crate::capability::Access;
use crate::name::ToolName;
use crate::ports::PartPath;
use crate::tool::Subject;

fn tool(name: &str) -> ToolName {
    name.parse().expect("a name")
}

fn rules(text: &str) -> PermissionRules {
    PermissionRules::parse(text, Effect::Allow).expect("rules")
}

fn on_command(rules: &PermissionRules, command: &str) -> Effect {
    let subject = Subject::Command(command.to_owned());
    effect(&rules.decide(&tool("builtin/shell"), &[subject]))
}

fn on_path(rules: &PermissionRules, name: &str, path: &str) -> Effect {
    let subject = Subject::Path {
        path: PartPath {
            alias: "app".to_owned(),
            path: path.parse().expect("a path"),
        },
        access: Access::Writes,
    };
    effect(&rules.decide(&tool(name), &[subject]))
}

fn effect(decision: &Decision) -> Effect {
    match decision {
        Decision::Allow => Effect::Allow,
        Decision::Ask(_) => Effect::Ask,
        Decision::Deny(_) => Effect::Deny,
    }
}

#[test]
fn a_denied_command_is_denied_wherever_it_is_hidden() {
    let rules = rules("deny builtin/shell(curl *)\nallow builtin/shell");
    for command in [
        "curl x",
        "curl",
        "a; curl x",
        "a && curl x",
        "a || curl x",
        "a | curl x",
        "a & curl x",
        "a\ncurl x",
        "echo $(curl x)",
        "echo `curl x`",
        "(curl x)",
        "{ curl x; }",
        "sh -c 'curl x'",
        "bash -lc \"curl x\"",
        "env curl x",
        "A=1 curl x",
        "sudo curl x",
        "/usr/bin/curl x",
        "\\curl x",
        "c'ur'l x",
        "\"curl\" x",
        "if true; then curl x; fi",
        "xargs curl",
        "timeout 5 curl x",
        "find . -exec curl {} ;",
        "cu\\\nrl x",
        "eval curl x",
        "nohup curl x &",
        "a <(curl x)",
        "! curl x",
        "curl${IFS}x",
        "watch -n1 curl x",
        "a >/dev/null;curl x",
        "sh -c 'sh -c \"curl x\"'",
        "command curl x",
        "exec curl x",
        "\tcurl\tx",
    ] {
        assert_eq!(on_command(&rules, command), Effect::Deny, "{command:?}");
    }
    for command in ["git log", "echo curl x", "curly x", "cargo test"] {
        assert_eq!(on_command(&rules, command), Effect::Allow, "{command:?}");
    }
}

#[test]
fn an_allowed_pattern_allows_no_other_command() {
    let rules =
        rules("allow builtin/shell(cargo test *)\nallow builtin/shell(ls *)\nask builtin/shell");
    for command in [
        "cargo test",
        "cargo test -p x",
        "ls -la && cargo test",
        "cargo test 2>&1",
        "ls; ls",
        "ls | ls",
    ] {
        assert_eq!(on_command(&rules, command), Effect::Allow, "{command:?}");
    }
    for command in [
        "cargo testing",
        "cargo test; rm x",
        "cargo test && rm x",
        "cargo test | sh",
        "cargo test $(rm x)",
        "cargo test `rm x`",
        "cargo test\nrm x",
        "cargo test & rm x",
        "cargo test > x",
        "cargo test < x",
        "LD_PRELOAD=x cargo test",
        "cargo test \"$X\"",
        "env cargo test",
        "sh -c 'cargo test'",
        "./cargo test",
        "/tmp/cargo test",
        "cargo test || true",
        "(cargo test)",
        "cargo test # x",
        "ls {a,b}",
        "cargo test <(x)",
        "cargo  build",
        "cargo test 'a",
        "cargo test \\\n--x",
        "if ls; then ls; fi",
        "cargo test &>x",
    ] {
        assert_eq!(on_command(&rules, command), Effect::Ask, "{command:?}");
    }
}

#[test]
fn unparsable_commands_need_approval_when_rules_match_commands() {
    let odd = "for x in *; do echo $x; done";
    assert_eq!(on_command(&rules(""), odd), Effect::Allow);
    assert_eq!(on_command(&rules("ask builtin/shell"), odd), Effect::Ask);
    assert_eq!(
        on_command(&rules("allow builtin/shell(echo *)"), odd),
        Effect::Ask
    );
    assert_eq!(
        on_command(&rules("deny builtin/shell(rm *)"), odd),
        Effect::Ask
    );
}

#[test]
fn no_rule_overrides_the_deny_list() {
    let rules = rules(
        "allow *\nallow builtin/shell(rm *)\nallow builtin/file-write(**)\nallow builtin/file-write(.git/*)",
    );
    assert_eq!(on_command(&rules, "rm -rf /"), Effect::Deny);
    assert_eq!(on_command(&rules, "cat ~/.ssh/id_ed25519"), Effect::Deny);
    assert_eq!(
        on_path(&rules, "builtin/file-write", ".git/config"),
        Effect::Deny
    );
    assert_eq!(
        on_path(&rules, "builtin/file-write", "src/a.rs"),
        Effect::Allow
    );
}

#[test]
fn deny_wins_over_order_and_specificity() {
    for text in [
        "deny builtin/*\nallow builtin/file-write(src/**)",
        "allow builtin/file-write(src/**)\ndeny builtin/*",
        "deny *(src/**)\nallow builtin/file-write(src/a.rs)",
    ] {
        assert_eq!(
            on_path(&rules(text), "builtin/file-write", "src/a.rs"),
            Effect::Deny,
            "{text}"
        );
    }
}

#[test]
fn the_more_specific_rule_decides_and_ask_wins_a_tie() {
    let general = rules("ask builtin/file-write\nallow builtin/file-write(src/**)");
    assert_eq!(
        on_path(&general, "builtin/file-write", "src/a.rs"),
        Effect::Allow
    );
    assert_eq!(
        on_path(&general, "builtin/file-write", "docs/a.md"),
        Effect::Ask
    );
    assert_eq!(
        on_path(&general, "builtin/write_file", "docs/a.md"),
        Effect::Ask
    );
    let tie = rules("allow builtin/file-write(**)\nask builtin/file-write(docs/**)");
    assert_eq!(
        on_path(&tie, "builtin/file-write", "docs/a.md"),
        Effect::Ask
    );
}

#[test]
fn paths_match_with_and_without_their_part() {
    for pattern in ["secrets/**", "app/secrets/**", "**/secrets/**"] {
        let rules = rules(&format!("deny *({pattern})"));
        assert_eq!(
            on_path(&rules, "builtin/file-read", "secrets/a"),
            Effect::Deny,
            "{pattern}"
        );
        assert_eq!(
            on_path(&rules, "builtin/file-read", "public/a"),
            Effect::Allow,
            "{pattern}"
        );
    }
}

#[test]
fn a_call_with_several_subjects_gets_the_strictest_decision() {
    let rules = rules("deny *(b)\nask *(a)");
    let path = |path: &str| Subject::Path {
        path: PartPath {
            alias: "app".to_owned(),
            path: path.parse().expect("a path"),
        },
        access: Access::Writes,
    };
    let decide = |subjects: &[Subject]| effect(&rules.decide(&tool("builtin/file-move"), subjects));
    assert_eq!(decide(&[path("a"), path("b")]), Effect::Deny);
    assert_eq!(decide(&[path("a"), path("c")]), Effect::Ask);
    assert_eq!(decide(&[path("c")]), Effect::Allow);
}

#[test]
fn always_allows_exactly_the_approved_call() {
    let shell = tool("builtin/shell");
    let command = Subject::Command("cargo test && ls *".to_owned());
    let always = PermissionRules::always(&shell, &[command]);
    let texts: Vec<String> = always.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "allow builtin/shell(cargo test)",
            "allow builtin/shell(ls ?)"
        ]
    );
    let rules = rules("ask builtin/shell").with(always);
    assert_eq!(on_command(&rules, "cargo test && ls *"), Effect::Allow);
    assert_eq!(on_command(&rules, "cargo test -p x"), Effect::Ask);
    let odd = Subject::Command("echo $X".to_owned());
    assert!(PermissionRules::always(&shell, &[odd]).is_empty());
}

#[test]
fn without_a_rule_the_default_effect_applies() {
    for default in [Effect::Allow, Effect::Ask, Effect::Deny] {
        let rules = PermissionRules::new(Vec::new(), default);
        assert_eq!(on_command(&rules, "ls"), default);
        assert_eq!(on_command(&rules, "echo $X"), default);
        assert_eq!(on_path(&rules, "builtin/file-read", "a"), default);
        assert_eq!(
            effect(&rules.decide(&tool("builtin/ask-user"), &[])),
            default
        );
    }
}

#[test]
fn rule_files_may_contain_comments_and_errors_are_reported() {
    let read = PermissionRules::parse("# mine\n\nallow builtin/*\n  deny *(x)  \n", Effect::Ask);
    assert_eq!(read.expect("rules").rules().count(), 2);
    assert!(PermissionRules::parse("allow builtin/*\nalow builtin/shell", Effect::Ask).is_err());
}

fn any_rule() -> impl Strategy<Value = String> {
    let tools = "(builtin/shell|builtin/file-write|builtin/\\*|\\*)";
    let patterns = "(|\\(git \\*\\)|\\(rm \\*\\)|\\(src/\\*\\*\\)|\\(docs/a\\))";
    (prop_oneof!["allow", "ask", "deny"], tools, patterns)
        .prop_map(|(effect, tool, pattern)| format!("{effect} {tool}{pattern}"))
}

/// The decision about a patch, which acts as a write of a file.
fn acting(rules: &PermissionRules, path: &str) -> Effect {
    let subject = Subject::Path {
        path: PartPath {
            alias: "app".to_owned(),
            path: path.parse().expect("a path"),
        },
        access: Access::Writes,
    };
    let subjects = [(tool("builtin/file-write"), subject)];
    effect(&rules.decide_acting(&tool("builtin/file-edit"), &subjects))
}

#[test]
fn a_project_asks_and_denies_in_addition_to_the_user() {
    let project = "ask builtin/file-write(docs/**)\ndeny builtin/shell(git push *)";
    let project = rules(project).rules().cloned().collect::<Vec<_>>();
    let both = rules("allow builtin/shell(git push *)\nallow builtin/file-write(docs/**)")
        .tightened_by(project);
    assert_eq!(on_command(&both, "git push origin"), Effect::Deny);
    assert_eq!(on_command(&both, "git status; git push"), Effect::Deny);
    assert_eq!(on_path(&both, "builtin/file-write", "docs/a"), Effect::Ask);
    assert_eq!(on_path(&both, "builtin/file-write", "src/a"), Effect::Allow);
}

proptest! {
    /// An allow rule never admits a second command next to the allowed one.
    #[test]
    fn no_other_command_runs_with_an_allowed_one(
        before in "[a-z ;&|\n$(){}'\"\\\\<>`]{0,6}", after in "[a-z ;&|\n$(){}'\"\\\\<>`]{0,6}",
    ) {
        let rules = rules("allow builtin/shell(ls *)\nask builtin/shell");
        let command = format!("{before}; touch x; {after}");
        prop_assert_ne!(on_command(&rules, &command), Effect::Allow);
    }

    /// The file of a project never makes a decision less strict, whatever rules it has.
    #[test]
    fn a_project_only_tightens(
        user in proptest::collection::vec(any_rule(), 0..4),
        project in proptest::collection::vec(any_rule(), 0..4),
        command in "(git push|git|ls|rm)( x)?(; rm y| && ls)?",
        path in "(src|docs)/[ab]",
    ) {
        let parse = |texts: &[String]| -> Vec<Rule> {
            texts.iter().map(|text| text.parse().expect("a rule")).collect()
        };
        let alone = PermissionRules::new(parse(&user), Effect::Allow);
        let both = alone.clone().tightened_by(parse(&project));
        let strictness = |effect| [Effect::Allow, Effect::Ask, Effect::Deny]
            .iter().position(|known| *known == effect);
        let pairs = [
            (on_command(&alone, &command), on_command(&both, &command)),
            (
                on_path(&alone, "builtin/file-write", &path),
                on_path(&both, "builtin/file-write", &path),
            ),
            (
                effect(&alone.decide(&tool("builtin/file-write"), &[])),
                effect(&both.decide(&tool("builtin/file-write"), &[])),
            ),
            (acting(&alone, &path), acting(&both, &path)),
        ];
        for (without, with) in pairs {
            prop_assert!(strictness(with) >= strictness(without), "{:?} {:?}", user, project);
        }
        let reversed = PermissionRules::new(parse(&project), Effect::Allow);
        let pair = (on_command(&reversed, &command), on_command(&both, &command));
        prop_assert!(strictness(pair.1) >= strictness(pair.0), "the project's rules count");
    }

    #[test]
    fn deciding_never_panics(command in "\\PC{0,40}") {
        let rules = rules("allow builtin/shell(ls *)\ndeny builtin/shell(rm *)");
        let _decision = on_command(&rules, &command);
    }
}
