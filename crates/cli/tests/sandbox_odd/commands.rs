//! Commands that a repository or a configuration makes git run. The program runs none of them.

use std::path::{Path, PathBuf};

use super::{SandboxFixture, read, set_mode};

const HOOKS: [&str; 12] = [
    "post-checkout",
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "reference-transaction",
    "pre-merge-commit",
    "post-merge",
    "post-index-change",
    "post-rewrite",
    "pre-auto-gc",
    "fsmonitor-watchman",
];

/// Fills a folder with hooks that leave traces.
fn hooks(folder: &Path, traces: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    for hook in HOOKS {
        let script = format!("#!/bin/sh\ntouch '{}/{hook}'\nexit 1\n", traces.display());
        std::fs::write(folder.join(hook), script).expect("a hook");
        set_mode(&folder.join(hook), 0o755);
    }
}

/// Configures every setting that makes git run a command. Returns the folder for their traces.
fn configure_commands(fixture: &SandboxFixture, repository: &Path) -> PathBuf {
    let traces = fixture.user().join("traces");
    std::fs::create_dir(&traces).expect("a folder");
    hooks(&repository.join(".git/hooks"), &traces);
    let elsewhere = fixture.user().join("hooks");
    hooks(&elsewhere, &traces);
    let trace = |name: &str| format!("sh -c \"touch '{}/{name}'; cat; false\"", traces.display());
    let included = fixture.user().join("included");
    let hidden = format!(
        "[filter \"hidden\"]\n\tclean = \"touch '{}/hidden'; cat\"\n",
        traces.display()
    );
    std::fs::write(&included, hidden).expect("a file");
    for (name, value) in [
        ("core.fsmonitor", trace("fsmonitor")),
        ("core.sshCommand", trace("ssh")),
        ("core.pager", trace("pager")),
        ("core.editor", trace("editor")),
        ("core.gitProxy", trace("proxy")),
        ("core.alternateRefsCommand", trace("alternates")),
        ("gpg.program", trace("gpg")),
        ("commit.gpgSign", "true".to_owned()),
        ("tag.gpgSign", "true".to_owned()),
        ("diff.external", trace("external")),
        ("diff.mine.command", trace("diff")),
        ("diff.mine.textconv", trace("textconv")),
        ("merge.mine.driver", trace("merge")),
        ("alias.status", format!("!{}", trace("alias"))),
        ("alias.cat-file", format!("!{}", trace("alias"))),
        ("credential.helper", trace("credential")),
        ("trailer.x.cmd", trace("trailer")),
        ("sequence.editor", trace("sequence")),
        ("hook.mine.command", trace("hook")),
        ("hook.mine.event", "post-index-change".to_owned()),
        ("include.path", included.display().to_string()),
    ] {
        fixture.git(repository, &["config", name, &value]);
    }
    fixture.config("core.hooksPath", elsewhere.to_str().expect("UTF-8"));
    traces
}

fn assert_no_trace(traces: &Path) {
    let left: Vec<_> = std::fs::read_dir(traces)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(left.is_empty(), "these commands ran: {left:?}");
}

#[test]
fn no_command_of_a_repository_runs() {
    for form in ["commit", "merge"] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        let attributes = "*.txt diff=mine merge=mine\n*.hid filter=hidden\n";
        std::fs::write(repository.join(".gitattributes"), attributes).expect("a file");
        std::fs::write(repository.join("x.hid"), "hidden\n").expect("a file");
        fixture.commit(&repository, "attributes");
        std::fs::write(repository.join("run.sh"), "#!/bin/sh\ntrue\n").expect("a file");
        fixture.commit(&repository, "one more");
        fixture.git(&repository, &["branch", "later"]);
        fixture.git(&repository, &["reset", "-q", "--hard", "HEAD~1"]);
        // From here on, git would run the configured commands in this repository, so the test moves
        // the branch by hand.
        let traces = configure_commands(&fixture, &repository);
        fixture.create(&repository);
        assert_no_trace(&traces);
        fixture.sh("echo changed > a.txt; rm d/b.txt; echo new > new.txt");
        fixture.run_successfully(["sandbox", "diff", "s"]);
        fixture.run_successfully(["sandbox", "checkpoint", "s", "--label", "here"]);
        fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
        fixture.run_successfully(["sandbox", "redo", "s"]);
        fixture.run_successfully(["sandbox", "apply", "s", "--dry-run"]);
        assert_no_trace(&traces);
        let later = read(repository.join(".git/refs/heads/later"));
        std::fs::write(repository.join(".git/refs/heads/main"), later).expect("a file");
        std::fs::write(repository.join("run.sh"), "#!/bin/sh\ntrue\n").expect("a file");
        let index = repository.join(".git/index");
        std::fs::remove_file(&index).expect("a file");
        let plain = [
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.hooksPath=/dev/null",
        ];
        fixture.git(&repository, &[&plain[..], &["read-tree", "HEAD"]].concat());
        assert_no_trace(&traces);
        fixture.run_successfully(["sandbox", "apply", "s", "--as", form]);
        assert_no_trace(&traces);
        assert_eq!(read(repository.join("a.txt")), "changed\n");
        assert_eq!(read(repository.join("run.sh")), "#!/bin/sh\ntrue\n");
        fixture.create(&repository);
        fixture.discard();
        assert_no_trace(&traces);
        fixture.assert_nothing_left(&repository);
    }
}

/// The commit has an author even if the user configured no name and git requires one.
#[test]
fn a_user_without_a_name_gets_a_commit() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    std::fs::write(
        fixture.user().join(".gitconfig"),
        "[user]\n\tuseConfigOnly = true\n",
    )
    .expect("a file");
    fixture.create(&repository);
    fixture.sh("echo changed > a.txt");
    fixture.apply_and_check(&repository);
    let author = fixture.git(&repository, &["log", "-1", "--format=%an <%ae>"]);
    assert_eq!(author, "CleverAgents <agents@localhost>");
}
