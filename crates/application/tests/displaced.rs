//! The owner of a sandbox is displaced by an owner on another machine: its command is stopped, and none of its changes
//! reach the real files or the database.
//!
//! The tests have their own `main`, because the stages of a confined command start this program again.

#![expect(clippy::print_stdout, reason = "a test runner reports the results")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cleveragents_application::{ApplyRequest, ExecRequest, OpenSandbox, SandboxService, Target};
use cleveragents_domain::{Code, Diagnose as _, ProcessId, Ttl};
use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_sandbox::Source;
use cleveragents_testkit::TestDatabase;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return code.into();
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    a_displaced_owner_applies_nothing();
    the_command_of_a_displaced_owner_is_stopped();
    println!("test result: ok. 2 passed");
    ExitCode::SUCCESS
}

struct Scene {
    database: TestDatabase,
    service: SandboxService,
    _folder: tempfile::TempDir,
    real: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("real");
        std::fs::create_dir(&real).expect("a folder");
        std::fs::write(real.join("a.txt"), "as it was").expect("a file");
        let database = TestDatabase::sqlite();
        let ttl = Ttl::seconds(Ttl::MINIMUM).expect("in range");
        let service =
            SandboxService::new(database.open(), folder.path().join("sandboxes")).with_ttl(ttl);
        Self {
            database,
            service,
            _folder: folder,
            real,
        }
    }

    fn open(&self) -> (OpenSandbox, PathBuf) {
        let target = Target {
            alias: "part".to_owned(),
            resource: "part".to_owned(),
            strategy: "test".to_owned(),
            source: Source::Directory,
            location: self.real.clone(),
            is_read_only: false,
        };
        let view = self.service.create("s", "a test", &[target]);
        let root = view.expect("made").members[0].root.clone();
        (self.service.open("s").expect("opened"), root)
    }

    /// Simulates another machine that takes the lease after its expiry.
    fn displace(&self) {
        self.database.execute_sql(&format!(
            "UPDATE leases SET token = token + 1, owner_process = '{}', owner_host = 'elsewhere' \
             WHERE kind = 'sandbox'",
            ProcessId::generate()
        ));
    }

    fn records(&self) -> [Vec<Vec<String>>; 2] {
        [
            self.database.ask("SELECT * FROM change_entries"),
            self.database.ask("SELECT * FROM sandboxes"),
        ]
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a file")
}

fn a_displaced_owner_applies_nothing() {
    let scene = Scene::new();
    let (mut open, root) = scene.open();
    std::fs::write(root.join("a.txt"), "changed").expect("written");
    let report = scene.service.capture(&mut open, None).expect("captured");
    assert_eq!(report.changes.len(), 1);
    scene.displace();
    let before = scene.records();

    let refused = scene.service.apply(open, &ApplyRequest::default());

    let code = refused.expect_err("it was displaced").code();
    assert_eq!(code, Code::LeaseLost);
    assert_eq!(read(&scene.real.join("a.txt")), "as it was");
    assert_eq!(scene.records(), before);
    println!("test a_displaced_owner_applies_nothing ... ok");
}

fn the_command_of_a_displaced_owner_is_stopped() {
    let scene = Scene::new();
    let (mut open, root) = scene.open();
    let script = "echo begun > begun; sleep 600; echo late > late";
    let request = ExecRequest::captured("sh", ["-c", script], WhenMissing::Warn);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !root.join("begun").exists() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            scene.displace();
        });
        scene
            .service
            .exec(&mut open, &request, &Cancel::new(), |_| {})
    });

    let code = outcome.expect_err("it was displaced").code();
    assert_eq!(code, Code::LeaseLost);
    assert!(!root.join("late").exists());
    assert_eq!(
        scene.database.count("SELECT COUNT(*) FROM change_entries"),
        0
    );
    println!("test the_command_of_a_displaced_owner_is_stopped ... ok");
}
