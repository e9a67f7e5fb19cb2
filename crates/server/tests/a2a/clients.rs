//! The official SDKs for Python and JavaScript as clients. `scripts/a2a-clients` installs them and runs this test;
//! without the folder that `CLEVERAGENTS_A2A_CLIENTS` names the test does nothing.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Server, local_options};
use cleveragents_testkit::TestDatabase;

#[test]
fn clients_of_the_official_sdks_are_served() {
    let Some(folder) = std::env::var_os("CLEVERAGENTS_A2A_CLIENTS").map(PathBuf::from) else {
        eprintln!("NOT RUN: clients of the official SDKs: run scripts/a2a-clients");
        return;
    };
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/a2a/clients");
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let python = folder.join("venv/bin/python").display().to_string();
        let packages = folder.join("node_modules").display().to_string();
        let mut both = [Command::new(python), Command::new("node")];
        both[0].arg(scripts.join("client.py"));
        both[1].arg(scripts.join("client.mjs"));
        for command in &mut both {
            command.args([server.url.as_str(), binding, packages.as_str()][..].iter());
        }
        for mut command in both {
            let output = command.output().expect("the client starts");
            assert!(
                output.status.success(),
                "{command:?}\n{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
        }
    }
}
