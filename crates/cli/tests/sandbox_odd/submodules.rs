//! Submodules stay unchanged, and changes to them in a sandbox are refused.

use super::{Bench, files, read};

fn with_submodule(bench: &Bench) -> std::path::PathBuf {
    bench.repository("module");
    let repository = bench.repository("r");
    let arguments = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
    ];
    bench.git(
        &repository,
        &[&arguments[..], &["../module", "sub"]].concat(),
    );
    bench.commit(&repository, "a submodule");
    repository
}

#[test]
fn submodules_stay_unchanged_and_changes_in_them_are_refused() {
    let bench = Bench::new();
    let repository = with_submodule(&bench);
    let module = |bench: &Bench| {
        (
            files(&repository.join("sub")),
            bench.git(&repository.join("sub"), &["rev-parse", "HEAD"]),
        )
    };
    let before = module(&bench);
    for (script, path) in [
        ("echo x > sub/new", "sub/new"),
        ("rmdir sub", "sub"),
        ("rmdir sub; echo x > sub", "sub"),
        ("git rm -q sub", "sub"),
        ("git init -q sub", "sub/.git"),
    ] {
        bench.create(&repository);
        bench.sh(script);
        let message = bench.apply_refused(&repository, 1, "CA-0647");
        assert!(
            message.contains(path) && message.contains("submodule"),
            "{message}"
        );
        bench.discard();
    }
    bench.create(&repository);
    bench.sh("test -d sub; echo changed > a.txt; echo '# note' >> .gitmodules");
    bench.apply();
    assert_eq!(bench.git(&repository, &["status", "--porcelain"]), "");
    assert_eq!(module(&bench), before, "the submodule is untouched");
    bench.assert_nothing_left(&repository);
}

#[test]
fn an_uninitialized_submodule_and_a_submodule_as_the_repository() {
    let bench = Bench::new();
    let repository = with_submodule(&bench);
    bench.git(&bench.folder(), &["clone", "-q", "r", "plain"]);
    let plain = bench.folder().join("plain");
    bench.create(&plain);
    bench.sh("echo changed > a.txt");
    bench.apply();
    assert_eq!(bench.git(&plain, &["status", "--porcelain"]), "");
    assert!(
        plain.join("sub").is_dir(),
        "the empty folder of the submodule still exists"
    );

    let module = repository.join("sub");
    bench.create(&module);
    bench.sh("echo changed > a.txt");
    bench.apply();
    assert_eq!(bench.git(&module, &["status", "--porcelain"]), "");
    assert_eq!(bench.git(&repository, &["status", "--porcelain"]), " M sub");
    assert_eq!(read(repository.join("a.txt")), "one\n");
}
