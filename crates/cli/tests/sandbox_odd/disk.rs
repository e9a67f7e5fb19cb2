//! Disks that become full while a sandbox is created, recorded or applied. They are small file
//! systems in memory. Only root can mount them; otherwise these tests print that they did not run.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_testkit::{Agents, not_run};

use super::{SandboxFixture, assert_same, read, tree};

/// A small file system, unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(path: &Path, kibibytes: u32, test_name: &str) -> Option<Self> {
        std::fs::create_dir(path).expect("a folder");
        let disk = Self(path.to_owned());
        if disk.mount(&["-t", "tmpfs", "-o", &format!("size={kibibytes}k"), "tmpfs"]) {
            Some(disk)
        } else {
            not_run(test_name, "a small tmpfs cannot be mounted");
            None
        }
    }

    fn mount(&self, arguments: &[&str]) -> bool {
        let output = Command::new("mount").args(arguments).arg(&self.0).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Fills the disk with one file, except for `free` bytes. Returns the path of the file.
    fn fill_except(&self, free: u64) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).expect("a file");
        let mut size = 0;
        while let Ok(written) = file.write(&[1; 4096]) {
            size += written as u64;
        }
        file.set_len(size.saturating_sub(free))
            .expect("a shorter file");
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Unmount lazily: a process left over from a failing test may still use the file system.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// A home on a small disk, and a repository on another disk with three mebibytes of random data.
fn bench_on_small_disk(test_name: &str) -> Option<(SandboxFixture, SmallDisk, PathBuf)> {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    for index in 0..12_u32 {
        let noise = noise(index, 256 << 10);
        std::fs::write(repository.join(format!("f{index}")), noise).expect("a file");
    }
    fixture.commit(&repository, "large");
    let disk = SmallDisk::new(&fixture.user().join("disk"), 2048, test_name)?;
    let home = disk.0.join("home");
    let SandboxFixture { agents } = fixture;
    let agents: Agents = agents.at_home(home);
    Some((SandboxFixture { agents }, disk, repository))
}

fn noise(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    })
    .take(length)
    .collect()
}

#[test]
fn a_disk_that_fills_while_a_sandbox_is_created_leaves_nothing() {
    let Some((fixture, disk, repository)) =
        bench_on_small_disk("a full disk while a sandbox is created")
    else {
        return;
    };
    let plain = fixture.folder().join("plain");
    std::fs::create_dir(&plain).expect("a folder");
    for index in 0..12_u32 {
        std::fs::copy(
            repository.join(format!("f{index}")),
            plain.join(index.to_string()),
        )
        .expect("a file");
    }
    for (path, codes) in [
        (&repository, ["CA-0206", "CA-0650"]),
        (&plain, ["CA-0206", "CA-0206"]),
    ] {
        let before = tree(path);
        let text = path.to_str().expect("UTF-8");
        let answer = fixture.run(["--format", "json", "sandbox", "create", "s", "--path", text]);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        let error = answer.json()["data"]["error"].clone();
        assert!(codes.iter().any(|code| error["code"] == *code), "{error}");
        let message = error["message"].as_str().expect("text");
        let reasons = ["No space left", "unable to write file"];
        assert!(
            reasons.iter().any(|text| message.contains(text)),
            "{message}"
        );
        assert_same(&before, &tree(path));
        fixture.assert_nothing_left(path);
    }
    assert!(disk.mount(&["-o", "remount,size=32m"]));
    fixture.create(&repository);
    fixture.sh("echo changed > a.txt");
    fixture.apply();
    assert_eq!(read(repository.join("a.txt")), "changed\n");
}

#[test]
fn a_disk_that_fills_while_changes_are_recorded_loses_nothing() {
    let Some((fixture, disk, repository)) =
        bench_on_small_disk("a full disk while changes are recorded")
    else {
        return;
    };
    assert!(disk.mount(&["-o", "remount,size=8m"]));
    let first = tree(&repository);
    fixture.create(&repository);
    let before = tree(&repository);
    let fill = "for i in 0 1 2 3 4 5 6 7 8 9 10 11; do cat f$i >> f0; done || true; echo x > a.txt || true";
    let answer = fixture.run(["sandbox", "exec", "s", "--", "sh", "-c", fill]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.err.contains("error[CA-0206]"), "{answer:?}");
    // Fill the disk again: the refused recording and the private folders of the command freed some
    // space.
    let filler = disk.fill_except(256 << 10);
    for command in [
        vec!["sandbox", "checkpoint", "s"],
        vec!["sandbox", "apply", "s"],
    ] {
        fixture.refused(&command, 1, "CA-0206");
    }
    assert_same(&before, &tree(&repository));
    // After space is freed, the changes still exist.
    std::fs::remove_file(filler).expect("the filler");
    assert!(disk.mount(&["-o", "remount,size=64m"]));
    assert!(fixture.diff().contains_key("f0"));
    assert!(disk.mount(&["-o", "remount,size=12m"]));
    fixture.discard();
    fixture.assert_nothing_left(&repository);
    assert_same(&first, &tree(&repository));
}

/// The disk of the user's files is full. The apply leaves no files on it.
#[test]
fn a_disk_that_fills_during_staging_of_an_apply_is_unchanged() {
    let test_name = "a full disk of the real files";
    let fixture = SandboxFixture::new();
    let Some(_disk) = SmallDisk::new(&fixture.folder().join("disk"), 1024, test_name) else {
        return;
    };
    let repository = fixture.repository("disk/r");
    let plain = fixture.folder().join("disk/plain");
    std::fs::create_dir(&plain).expect("a folder");
    std::fs::write(plain.join("f"), "1").expect("a file");
    for path in [&repository, &plain] {
        fixture.create(path);
        let part = fixture.agents.data(&["sandbox", "show", "s"])["sandbox"]["parts"][0].clone();
        let work = PathBuf::from(part["folder"].as_str().expect("a folder"));
        std::fs::write(work.join("large"), noise(7, 4 << 20)).expect("a file");
        let before = tree(&fixture.folder().join("disk"));
        fixture.refused(&["sandbox", "apply", "s"], 1, "CA-0655");
        let after = tree(&fixture.folder().join("disk"));
        assert_same(
            &before,
            &after
                .into_iter()
                .filter(|(path, _)| {
                    before.contains_key(path) || !path.to_string_lossy().contains("/objects/")
                })
                .collect(),
        );
        fixture.discard();
    }
}
