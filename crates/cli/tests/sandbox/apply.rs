//! Apply to folders with special permissions, and with edits that git cannot detect.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::world::{agents, create, git, read, repository, write};

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

fn mode(path: &Path) -> u32 {
    let metadata = std::fs::metadata(path).expect("the path exists");
    metadata.permissions().mode() & 0o7777
}

#[test]
fn a_read_only_folder_is_changed_and_stays_read_only() {
    let agents = agents();
    let real = agents.cwd().join("real");
    write(real.join("closed/edit"), "before\n");
    write(real.join("closed/gone"), "before\n");
    write(real.join("closed/inner/edit"), "before\n");
    for name in ["closed/inner", "closed"] {
        set_mode(&real.join(name), 0o555);
    }
    let part = create(&agents, "fix", &[&real]).remove(0);
    assert_eq!(mode(&part.join("closed")), 0o555);
    for name in ["closed", "closed/inner"] {
        set_mode(&part.join(name), 0o755);
    }
    write(part.join("closed/edit"), "after\n");
    write(part.join("closed/inner/new"), "new\n");
    std::fs::remove_file(part.join("closed/gone")).expect("removed");
    set_mode(&part.join("closed/inner"), 0o500);
    set_mode(&part.join("closed"), 0o555);
    agents.data(&["sandbox", "apply", "fix"]);
    assert_eq!(read(real.join("closed/edit")), "after\n");
    assert_eq!(read(real.join("closed/inner/new")), "new\n");
    assert!(!real.join("closed/gone").exists());
    assert_eq!(mode(&real.join("closed")), 0o555);
    assert_eq!(mode(&real.join("closed/inner")), 0o500);
    for name in ["closed", "closed/inner"] {
        set_mode(&real.join(name), 0o755);
    }
}

/// Git compares times in whole seconds. It does not detect an edit that keeps the size, is made in
/// the second of the checkout, and resets the modification time.
#[test]
fn an_edit_with_the_same_size_and_time_is_committed() {
    let agents = agents();
    for round in 0..6 {
        let real = agents.cwd().join(format!("real-{round}"));
        repository(&real, &[("edit", "before\n")]);
        let part = create(&agents, "fix", &[&real]).remove(0);
        let path = part.join("edit");
        let time = std::fs::metadata(&path)
            .and_then(|metadata| metadata.modified())
            .expect("a time");
        write(&path, "behind\n");
        std::fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(time))
            .expect("a time can be set");
        // Git trusts the times of files in an index that is written in a later second.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        agents.data(&["sandbox", "apply", "fix"]);
        assert_eq!(git(&real, &["show", "HEAD:edit"]), "behind\n");
        assert_eq!(git(&real, &["status", "--porcelain"]), "");
    }
}
