//! A sandbox of a git checkout starts with the user's uncommitted edits, and an apply does not commit these edits.

use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_application::{
    ApplyRequest, RollbackTarget, SandboxError, SandboxService, SandboxView, SourceChanges, Target,
};
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_sandbox::{Base, Source};
use cleveragents_testkit::TestDatabase;
use tempfile::TempDir;

struct Shop {
    service: SandboxService,
    repository: PathBuf,
    _database: TestDatabase,
    _folder: TempDir,
}

impl Shop {
    fn new() -> Self {
        let database = TestDatabase::sqlite();
        let folder = tempfile::tempdir().expect("a folder");
        let repository = folder.path().join("shop");
        std::fs::create_dir(&repository).expect("a folder");
        let sandboxes = folder.path().join("sandboxes");
        let shop = Self {
            service: SandboxService::new(database.open(), sandboxes),
            repository,
            _database: database,
            _folder: folder,
        };
        shop.git(&["init", "-q", "-b", "main"]);
        shop.write("price.txt", &numbered(1..=20));
        shop.write("other.txt", "other\n");
        shop.git(&["add", "."]);
        shop.git(&["commit", "-qm", "start"]);
        shop
    }

    fn git(&self, arguments: &[&str]) -> String {
        let settings = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
        let output = Command::new("git")
            .current_dir(&self.repository)
            .args(settings)
            .args(arguments)
            .output()
            .expect("git starts");
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Commits all edits and new files, if the folder is a repository.
    fn commit_if_git(&self) {
        if self.repository.join(".git").exists() {
            self.git(&["add", "."]);
            self.git(&["commit", "-qm", "edits"]);
        }
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.repository.join(path), text).expect("a file is written");
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.repository.join(path)).ok()
    }

    fn target(&self) -> Target {
        Target {
            alias: "shop".to_owned(),
            resource: "shop".to_owned(),
            strategy: "git_worktree".to_owned(),
            location: self.repository.clone(),
            source: Source::Git,
            is_read_only: false,
        }
    }

    fn sandbox(&self) -> SandboxView {
        let created = self.service.create("fix", "a test", &[self.target()]);
        created.expect("a sandbox is created")
    }

    fn apply(&self) -> Result<(), SandboxError> {
        let open = self.service.open("fix").expect("it opens");
        self.service.apply(open, &ApplyRequest::default()).map(drop)
    }
}

fn numbered(lines: impl Iterator<Item = usize>) -> String {
    let lines: Vec<String> = lines.map(|line| format!("line {line}\n")).collect();
    lines.concat()
}

fn root(view: &SandboxView) -> &Path {
    &view.members[0].root
}

fn git_base(view: &SandboxView) -> &cleveragents_sandbox::GitBase {
    match &view.members[0].base {
        Base::Git(base) => base,
        other => panic!("not a repository: {other:?}"),
    }
}

#[test]
fn a_clean_checkout_needs_no_snapshot() {
    let shop = Shop::new();
    let view = shop.sandbox();
    assert_eq!(git_base(&view).snapshot, None);
    assert!(view.members[0].included_edits().expect("read").is_empty());
}

#[test]
fn the_copy_contains_staged_and_unstaged_edits_new_files_and_deletions() {
    let shop = Shop::new();
    shop.write("price.txt", "edited\n");
    shop.write("staged.txt", "staged\n");
    shop.git(&["add", "staged.txt"]);
    shop.write("new.txt", "new\n");
    shop.write(".gitignore", "*.log\n");
    shop.write("noise.log", "noise\n");
    std::fs::remove_file(shop.repository.join("other.txt")).expect("removed");
    std::fs::create_dir(shop.repository.join("__pycache__")).expect("made");
    shop.write("__pycache__/a.pyc", "by-product");
    let (status, index) = (shop.git(&["status", "--porcelain"]), shop.index());

    let view = shop.sandbox();
    let copy = |path: &str| std::fs::read_to_string(root(&view).join(path)).ok();
    assert_eq!(copy("price.txt").as_deref(), Some("edited\n"));
    assert_eq!(copy("staged.txt").as_deref(), Some("staged\n"));
    assert_eq!(copy("new.txt").as_deref(), Some("new\n"));
    assert_eq!(copy("other.txt"), None);
    assert_eq!(copy("noise.log"), None);
    assert_eq!(copy("__pycache__/a.pyc"), None);
    let edits = view.members[0].included_edits().expect("read");
    let edits: Vec<String> = edits.iter().map(ToString::to_string).collect();
    let expected = [
        ".gitignore",
        "new.txt",
        "other.txt",
        "price.txt",
        "staged.txt",
    ];
    assert_eq!(edits, expected);
    // The edits are not changes of the sandbox, and the status and index of the user are unchanged.
    let open = shop.service.open("fix").expect("it opens");
    let applied = shop.service.apply(open, &ApplyRequest::default());
    assert!(applied.is_err() || shop.git(&["rev-list", "--count", "HEAD"]).trim() == "1");
    assert_eq!(shop.git(&["status", "--porcelain"]), status);
    assert_eq!(shop.index(), index);
}

impl Shop {
    fn index(&self) -> Vec<u8> {
        std::fs::read(self.repository.join(".git/index")).expect("an index")
    }
}

#[test]
fn git_in_the_copy_shows_the_edits_as_uncommitted() {
    let shop = Shop::new();
    shop.write("price.txt", "edited\n");
    shop.write("new.txt", "new\n");
    let view = shop.sandbox();
    let output = Command::new("git")
        .current_dir(root(&view))
        .args(["status", "--porcelain"])
        .output()
        .expect("git starts");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(printed, " M price.txt\n?? new.txt\n");
}

#[test]
fn the_commit_has_only_the_change_of_the_sandbox_and_the_file_also_has_the_edit() {
    let shop = Shop::new();
    let edited = numbered(1..=20).replace("line 2\n", "line 2, edited by me\n");
    shop.write("price.txt", &edited);
    let view = shop.sandbox();
    let changed = edited.replace("line 18\n", "line 18, changed by the plan\n");
    std::fs::write(root(&view).join("price.txt"), &changed).expect("written");
    shop.apply().expect("it is applied");
    let committed = shop.git(&["show", "HEAD:price.txt"]);
    assert!(committed.contains("line 18, changed by the plan"));
    assert!(!committed.contains("edited by me"), "{committed}");
    assert_eq!(shop.read("price.txt").as_deref(), Some(changed.as_str()));
    let difference = shop.git(&["diff", "-U0"]);
    assert!(difference.contains("+line 2, edited by me"), "{difference}");
    assert!(!difference.contains("line 18"), "{difference}");
}

#[test]
fn a_staged_edit_stays_staged() {
    let shop = Shop::new();
    let edited = numbered(1..=20).replace("line 2\n", "line 2, staged\n");
    shop.write("price.txt", &edited);
    shop.git(&["add", "price.txt"]);
    let view = shop.sandbox();
    let changed = edited.replace("line 18\n", "line 18, planned\n");
    std::fs::write(root(&view).join("price.txt"), &changed).expect("written");
    shop.apply().expect("it is applied");
    assert_eq!(shop.read("price.txt").as_deref(), Some(changed.as_str()));
    assert_eq!(shop.git(&["diff"]), "", "nothing is unstaged");
    let staged = shop.git(&["diff", "--cached", "-U0"]);
    assert!(staged.contains("+line 2, staged") && !staged.contains("line 18"));
    assert!(!shop.git(&["show", "HEAD:price.txt"]).contains("staged"));
}

#[test]
fn a_change_of_edited_lines_is_refused_until_the_edit_is_committed() {
    let shop = Shop::new();
    let edited = numbered(1..=20).replace("line 10\n", "line 10, mine\n");
    shop.write("price.txt", &edited);
    let view = shop.sandbox();
    let changed = edited.replace("line 10, mine\n", "line 10, mine and planned\n");
    std::fs::write(root(&view).join("price.txt"), &changed).expect("written");
    let head = shop.git(&["rev-parse", "HEAD"]);
    let refused = shop.apply().expect_err("it cannot be separated");
    assert_eq!(refused.code(), Code::ApplyConflict);
    assert!(refused.to_string().contains("price.txt"), "{refused}");
    assert_eq!(shop.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(shop.read("price.txt").as_deref(), Some(edited.as_str()));
    shop.git(&["commit", "-qam", "mine"]);
    shop.apply().expect("it is applied");
    assert_eq!(shop.read("price.txt").as_deref(), Some(changed.as_str()));
    assert_eq!(shop.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_edit_after_the_start_blocks_the_apply() {
    let shop = Shop::new();
    shop.write("price.txt", &numbered(1..=20).replace("line 2\n", "mine\n"));
    let view = shop.sandbox();
    let copy = root(&view).join("price.txt");
    let text = std::fs::read_to_string(&copy).expect("read");
    std::fs::write(&copy, text.replace("line 18\n", "planned\n")).expect("written");
    let later = numbered(1..=20).replace("line 3\n", "mine, later\n");
    shop.write("price.txt", &later);
    shop.apply().expect_err("the file changed meanwhile");
    assert_eq!(shop.read("price.txt").as_deref(), Some(later.as_str()));
}

#[test]
fn deleting_or_restoring_an_edited_file_changes_the_file_without_a_commit() {
    let shop = Shop::new();
    shop.write("new.txt", "new\n");
    shop.write("other.txt", "edited\n");
    let view = shop.sandbox();
    std::fs::remove_file(root(&view).join("new.txt")).expect("removed");
    std::fs::write(root(&view).join("other.txt"), "other\n").expect("written");
    shop.apply().expect("it is applied");
    assert_eq!(shop.read("new.txt"), None);
    assert_eq!(shop.read("other.txt").as_deref(), Some("other\n"));
    assert_eq!(shop.git(&["rev-list", "--count", "HEAD"]).trim(), "1");
    assert_eq!(shop.git(&["status", "--porcelain"]), "");
}

#[test]
fn rollback_restores_the_edits_of_the_user() {
    let shop = Shop::new();
    shop.write("price.txt", "edited\n");
    let view = shop.sandbox();
    let mut open = shop.service.open("fix").expect("it opens");
    std::fs::write(root(&view).join("price.txt"), "broken\n").expect("written");
    std::fs::write(root(&view).join("other.txt"), "broken\n").expect("written");
    shop.service
        .rollback(&mut open, &RollbackTarget::Previous)
        .expect("rolled back");
    let copy = |path: &str| std::fs::read_to_string(root(&view).join(path)).expect("read");
    assert_eq!(copy("price.txt"), "edited\n");
    assert_eq!(copy("other.txt"), "other\n");
}

#[test]
fn removing_the_sandbox_leaves_no_reference() {
    let shop = Shop::new();
    shop.write("price.txt", "edited\n");
    let before = shop.git(&["for-each-ref"]);
    let _view = shop.sandbox();
    assert_ne!(shop.git(&["for-each-ref"]), before);
    shop.service.discard("fix").expect("removed");
    assert_eq!(shop.git(&["for-each-ref"]), before);
}

/// Runs a test with a git checkout, and with the same folder without git; the test creates the sandbox.
fn each_source(test: impl Fn(&Shop, &dyn Fn())) {
    for source in [Source::Git, Source::Directory] {
        let shop = Shop::new();
        if source == Source::Directory {
            std::fs::remove_dir_all(shop.repository.join(".git")).expect("removed");
        }
        test(&shop, &|| {
            let target = Target {
                source,
                strategy: "copy_on_write".to_owned(),
                ..shop.target()
            };
            let created = shop.service.create("fix", "a test", &[target]);
            created.expect("a sandbox is created");
        });
    }
}

fn is_open(shop: &Shop) -> bool {
    let found = shop.service.find("fix").expect("it exists");
    !found.sandbox.state.is_over()
}

#[test]
fn an_unchanged_sandbox_is_discarded_when_its_source_changes() {
    each_source(|shop, create| {
        let follow = || shop.service.follow_source("fix").expect("followed");
        assert_eq!(follow(), SourceChanges::None, "there is no sandbox");
        shop.write("other.txt", "edited before\n");
        create();
        assert_eq!(follow(), SourceChanges::None, "the edit is in it");
        assert!(is_open(shop));
        shop.write("other.txt", "edited after\n");
        assert_eq!(follow(), SourceChanges::Discarded);
        assert!(!is_open(shop));
        assert_eq!(follow(), SourceChanges::None, "it is gone");
        create();
        shop.commit_if_git();
        let after_commit = follow();
        assert_eq!(after_commit, SourceChanges::None, "no file differs");
        shop.write("new.txt", "new\n");
        std::fs::remove_file(shop.repository.join("price.txt")).expect("removed");
        assert_eq!(follow(), SourceChanges::Discarded);
    });
}

#[test]
fn a_changed_sandbox_is_kept_and_the_changes_of_its_source_are_listed() {
    each_source(|shop, create| {
        create();
        let view = shop.service.find("fix").expect("it exists");
        std::fs::write(root(&view).join("mine.txt"), "mine\n").expect("written");
        let follow = || shop.service.follow_source("fix").expect("followed");
        assert_eq!(follow(), SourceChanges::None);
        shop.write("other.txt", "edited\n");
        shop.write("new.txt", "new\n");
        shop.commit_if_git();
        std::fs::remove_file(shop.repository.join("price.txt")).expect("removed");
        let expected = ["new.txt", "other.txt", "price.txt"].map(str::to_owned);
        assert_eq!(follow(), SourceChanges::Outdated(expected.into()));
        assert!(is_open(shop), "nothing is lost");
        let mine = std::fs::read_to_string(root(&view).join("mine.txt"));
        assert_eq!(mine.expect("it exists"), "mine\n");
    });
}
