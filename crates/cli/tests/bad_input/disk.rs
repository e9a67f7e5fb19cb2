//! Full and read-only disks, as small file systems in memory. Only root can mount them; otherwise
//! these tests print that they did not run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cleveragents_testkit::{Agents, Answer, not_run};
use serde_json::{Value, json};

use super::{agents, assert_error_document, refuse};

/// A small file system, unmounted on drop.
struct SmallDisk {
    path: PathBuf,
    /// The folder of the mount point, removed on drop.
    _mount_home: Agents,
}

impl SmallDisk {
    /// Returns `None` and prints a message if the file system cannot be mounted.
    fn new(kibibytes: u32, test_name: &str) -> Option<Self> {
        let mount_home = agents();
        let path = mount_home.cwd().join("disk");
        std::fs::create_dir(&path).expect("a folder");
        let options = format!("size={kibibytes}k");
        match mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], &path) {
            Ok(()) => Some(Self {
                path,
                _mount_home: mount_home,
            }),
            Err(reason) => {
                not_run(
                    test_name,
                    &format!("a small tmpfs cannot be mounted: {reason}"),
                );
                None
            }
        }
    }

    fn agents(&self) -> Agents {
        agents().at_home(self.path.join("home"))
    }

    fn make_read_only(&self) {
        mount(&["-o", "remount,ro"], &self.path).expect("a mounted file system can be remounted");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Unmount lazily: a process left over from a failing test may still use the file system.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

fn mount(arguments: &[&str], path: &Path) -> Result<(), String> {
    let output = Command::new("mount")
        .args(arguments)
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// Occupies space that the test frees later. A checkpoint of the write-ahead log needs the space of
/// the log a second time, so a little free space would not be enough.
fn ballast(disk: &SmallDisk, kibibytes: usize) -> PathBuf {
    let path = disk.path.join("ballast");
    std::fs::write(&path, vec![b'b'; kibibytes * 1024]).expect("there is room");
    path
}

/// Appends messages until the command fails. Returns the failure and the number of acknowledged
/// messages.
fn append_until_full(agents: &Agents, session: &str) -> (Answer, usize) {
    for index in 0..10_000 {
        let text = format!("{index} {}", "x".repeat(20_000));
        let answer = agents.run(&["--format", "json", "session", "append", session, &text]);
        if answer.code != Some(0) {
            return (answer, index);
        }
        assert_eq!(answer.json()["data"]["sequence"], index);
    }
    panic!("a small disk takes 200 MB");
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let Some(disk) = SmallDisk::new(4_608, "appending until the disk is full") else {
        return;
    };
    let agents = disk.agents();
    let ballast = ballast(&disk, 2_560);
    let session = agents.create_session();
    let (failure, stored) = append_until_full(&agents, &session);
    assert_eq!(failure.code, Some(1), "{failure:?}");
    assert_error_document(&failure.json(), 1, "CA-0206");
    assert!(stored > 5, "{stored} messages were stored before");
    let human = agents.run(&["session", "append", &session, &"y".repeat(20_000)]);
    assert_eq!((human.code, human.out.as_str()), (Some(1), ""), "{human:?}");
    assert!(human.err.starts_with("error[CA-0206]: "), "{human:?}");

    // Everything acknowledged can be read while the disk is still full.
    let contents = agents.contents(&session);
    assert_eq!(
        contents.len(),
        stored,
        "exactly the acknowledged messages are stored"
    );
    for (index, content) in contents.iter().enumerate() {
        assert!(content.starts_with(&format!("{index} x")));
    }
    let report = agents.run(&["diagnostics", "--format", "json"]);
    assert!(report.out.contains("disk space"), "{report:?}");

    // With free space, the sequence numbers continue without a gap.
    std::fs::remove_file(ballast).expect("the file can be removed");
    let next = agents.data(&["session", "append", &session, "room again"]);
    assert_eq!(next["sequence"], stored);
    assert_eq!(agents.contents(&session).len(), stored + 1);
    agents.assert_sound();
}

#[test]
fn a_stream_onto_a_full_disk_acknowledges_only_what_is_stored() {
    let Some(disk) = SmallDisk::new(4_608, "streaming until the disk is full") else {
        return;
    };
    let agents = disk.agents();
    let ballast = ballast(&disk, 2_560);
    let session = agents.create_session();
    let lines: String = (0..2_000)
        .map(|index| {
            json!({"content": format!("{index} {}", "x".repeat(5_000))}).to_string() + "\n"
        })
        .collect();
    let arguments = [
        "--format", "json", "session", "append", &session, "--jsonl", "-",
    ];
    let answer = agents.run_with(&arguments, lines.as_bytes());
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let mut reported: Vec<Value> = answer
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("one document a line"))
        .collect();
    assert_error_document(&reported.pop().expect("the error is last"), 1, "CA-0206");
    std::fs::remove_file(ballast).expect("the file can be removed");
    let messages = agents.messages(&session);
    assert_eq!(
        messages.len(),
        reported.len(),
        "exactly the acknowledged messages are stored"
    );
    for (index, (ack, message)) in reported.iter().zip(&messages).enumerate() {
        assert_eq!(ack["sequence"], index);
        assert_eq!(ack["message_id"], message["message_id"]);
        let content = message["content"].as_str().expect("text");
        assert!(content.starts_with(&format!("{index} x")));
    }
    let next = agents.data(&["session", "append", &session, "room again"]);
    assert_eq!(next["sequence"], messages.len());
    agents.assert_sound();
}

#[test]
fn a_disk_too_small_for_a_database_is_reported() {
    let Some(disk) = SmallDisk::new(2_048, "the first start on a full disk") else {
        return;
    };
    let agents = disk.agents();
    let ballast = ballast(&disk, 2_020);
    let refused = refuse(&agents, &["session", "create"]).with(1, "CA-0206");
    assert!(
        refused["hint"]
            .as_str()
            .expect("a hint")
            .contains("free some space")
    );
    std::fs::remove_file(ballast).expect("the file can be removed");
    agents.create_session();
    agents.assert_sound();
}

#[test]
fn the_configuration_survives_a_full_disk() {
    let Some(disk) = SmallDisk::new(256, "changing the configuration on a full disk") else {
        return;
    };
    let agents = disk.agents();
    agents.data(&["config", "set", "store.connections", "3"]);
    let before = std::fs::read(agents.config_file()).expect("a file");
    while std::fs::write(disk.path.join(format!("{}", random_name())), [0; 4096]).is_ok() {}
    let error = refuse(&agents, &["config", "set", "store.connections", "4"]).with(1, "CA-0105");
    assert!(error["details"]["path"].is_string(), "{error:#}");
    assert_eq!(std::fs::read(agents.config_file()).expect("a file"), before);
    assert_eq!(
        agents.data(&["config", "get", "store.connections"])["value"],
        3
    );
}

/// A random file name; collisions are unlikely enough to ignore.
fn random_name() -> u64 {
    cleveragents_testkit::Dice::default().roll(u64::MAX)
}

#[test]
fn a_read_only_home_is_reported() {
    let Some(disk) = SmallDisk::new(4_096, "a home on a disk that is read-only") else {
        return;
    };
    let agents = disk.agents();
    let session = agents.create_session();
    agents.data(&["session", "append", &session, "before"]);
    agents.data(&["config", "set", "store.connections", "3"]);
    disk.make_read_only();
    refuse(&agents, &["session", "append", &session, "x"]).with(1, "CA-0207");
    refuse(&agents, &["session", "create"]).with(1, "CA-0207");
    refuse(&agents, &["config", "set", "store.connections", "4"]).with(1, "CA-0105");
    let report = agents.run(&["--format", "json", "diagnostics"]);
    assert_eq!(report.code, Some(1), "{report:?}");
    assert!(report.out.contains("cannot be written"), "{report:?}");

    let elsewhere = super::agents().at_home(disk.path.join("new"));
    refuse(&elsewhere, &["session", "create"]).with(1, "CA-0104");
}
