//! Keys of providers.

use super::{agents, refuse};

#[test]
fn a_key_is_only_read_if_it_can_be_stored() {
    let agents = agents();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["model", "key", "set", "nobody"], 3, "CA-0815"),
        (&["model", "key", "set", ""], 3, "CA-0815"),
        (&["model", "key", "set", "scripted"], 2, "CA-0101"),
        (&["model", "key", "remove", "replay"], 2, "CA-0101"),
        (&["model", "key", "set"], 2, "CA-0101"),
    ];
    for (arguments, code, name) in cases {
        refuse(&agents, arguments).with(code, name);
    }
}

#[cfg(not(feature = "keyring"))]
#[test]
fn a_program_without_the_keyring_fails_before_it_reads_a_key() {
    let agents = agents();
    for command in ["set", "remove"] {
        let key = b"sk-a-key-that-nobody-takes";
        refuse(&agents, &["model", "key", command, "openai"])
            .reading(key)
            .with(1, "CA-0822");
    }
}
