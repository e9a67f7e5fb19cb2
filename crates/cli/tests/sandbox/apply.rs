//! Apply to folders with permissions of their own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::world::{agents, create, read, write};

fn set_mode(place: &Path, mode: u32) {
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

fn mode(place: &Path) -> u32 {
    let found = std::fs::metadata(place).expect("it is there");
    found.permissions().mode() & 0o7777
}

#[test]
fn a_folder_that_may_not_be_written_is_changed_and_stays_so() {
    let agents = agents();
    let real = agents.work().join("real");
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
