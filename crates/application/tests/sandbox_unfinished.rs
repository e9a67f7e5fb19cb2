//! An apply whose process was killed does not block other sandboxes of the same resources.

use std::path::Path;
use std::sync::Arc;

use cleveragents_application::{ApplyRequest, SandboxService, Target};
use cleveragents_domain::SandboxState;
use cleveragents_sandbox::Source;
use cleveragents_store::sandboxes;
use cleveragents_testkit::TestDatabase;

fn target(folder: &Path) -> Target {
    Target {
        alias: "part".to_owned(),
        resource: "part".to_owned(),
        strategy: "test".to_owned(),
        location: folder.to_owned(),
        source: Source::Directory,
        is_read_only: false,
    }
}

#[test]
fn the_next_apply_recovers_an_apply_that_was_killed() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let home = tempfile::tempdir().expect("a folder");
    let real = tempfile::tempdir().expect("a folder");
    std::fs::write(real.path().join("file"), "one").expect("a file");
    let service = SandboxService::new(Arc::clone(&engine), home.path().join("sandboxes"));
    let [first, second] = ["first", "second"].map(|name| {
        service
            .create(name, "a test", &[target(real.path())])
            .expect("a sandbox is made")
    });
    std::fs::write(second.members[0].root.join("file"), "two").expect("written");
    // The state after a process was killed before it wrote its journal.
    let id = first.sandbox.id;
    engine
        .write(move |unit| {
            sandboxes::transition(unit, id, SandboxState::Active, SandboxState::Applying, None)
        })
        .expect("stored");
    let open = service.open("second").expect("it can be opened");
    service
        .apply(open, &ApplyRequest::default())
        .expect("it is applied");
    let text = std::fs::read_to_string(real.path().join("file")).expect("read");
    assert_eq!(text, "two");
    let recovered = service.find("first").expect("it is there");
    assert_eq!(recovered.sandbox.state, SandboxState::Active);
}
