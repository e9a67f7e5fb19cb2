//! Submodules stay unchanged, and changes to them in a sandbox are refused.

use super::{SandboxFixture, files, read};

fn with_submodule(fixture: &SandboxFixture) -> std::path::PathBuf {
    fixture.repository("module");
    let repository = fixture.repository("r");
    let arguments = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
    ];
    fixture.git(
        &repository,
        &[&arguments[..], &["../module", "sub"]].concat(),
    );
    fixture.commit(&repository, "a submodule");
    repository
}

#[test]
fn submodules_stay_unchanged_and_changes_in_them_are_refused() {
    let fixture = SandboxFixture::new();
    let repository = with_submodule(&fixture);
    let module = |fixture: &SandboxFixture| {
        (
            files(&repository.join("sub")),
            fixture.git(&repository.join("sub"), &["rev-parse", "HEAD"]),
        )
    };
    let before = module(&fixture);
    for (script, path) in [
        ("echo x > sub/new", "sub/new"),
        ("rmdir sub", "sub"),
        ("rmdir sub; echo x > sub", "sub"),
        ("git rm -q sub", "sub"),
        ("git init -q sub", "sub/.git"),
    ] {
        fixture.create(&repository);
        fixture.sh(script);
        let message = fixture.apply_refused(&repository, 1, "CA-0647");
        assert!(
            message.contains(path) && message.contains("submodule"),
            "{message}"
        );
        fixture.discard();
    }
    fixture.create(&repository);
    fixture.sh("test -d sub; echo changed > a.txt; echo '# note' >> .gitmodules");
    fixture.apply();
    assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
    assert_eq!(module(&fixture), before, "the submodule is untouched");
    fixture.assert_nothing_left(&repository);
}

#[test]
fn an_uninitialized_submodule_and_a_submodule_as_the_repository() {
    let fixture = SandboxFixture::new();
    let repository = with_submodule(&fixture);
    fixture.git(&fixture.folder(), &["clone", "-q", "r", "plain"]);
    let plain = fixture.folder().join("plain");
    fixture.create(&plain);
    fixture.sh("echo changed > a.txt");
    fixture.apply();
    assert_eq!(fixture.git(&plain, &["status", "--porcelain"]), "");
    assert!(
        plain.join("sub").is_dir(),
        "the empty folder of the submodule still exists"
    );

    let module = repository.join("sub");
    fixture.create(&module);
    fixture.sh("echo changed > a.txt");
    fixture.apply();
    assert_eq!(fixture.git(&module, &["status", "--porcelain"]), "");
    assert_eq!(
        fixture.git(&repository, &["status", "--porcelain"]),
        " M sub"
    );
    assert_eq!(read(repository.join("a.txt")), "one\n");
}
