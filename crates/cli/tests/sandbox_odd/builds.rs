//! Ordinary builds and tests work in a sandbox with default settings: temporary files, a home,
//! package caches, and servers on loopback.

use std::path::{Path, PathBuf};

use cleveragents_testkit::not_run;

use super::SandboxFixture;
use super::reading::{sh, with_toolchains};

/// Returns true if a program is installed. Otherwise prints that the test did not run.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !is_found {
        not_run(&format!("a build with {program}"), "it is not installed");
    }
    is_found
}

/// Runs a script inside the sandbox, which must print `expected`.
fn assert_builds(fixture: &SandboxFixture, script: &str, expected: &str) {
    let answer = sh(fixture, &[], script);
    assert_eq!(answer.code, Some(0), "{script}: {answer:?}");
    let text = format!("{}{}", answer.out, answer.err);
    assert!(text.contains(expected), "{script}: {text}");
}

const RUST_TESTS: &str = r#"
use std::io::{Read, Write};
#[test]
fn serves_itself() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address");
    let client = std::thread::spawn(move || {
        std::net::TcpStream::connect(address).expect("connected").write_all(b"x").expect("sent");
    });
    let mut text = String::new();
    server.accept().expect("a client").0.read_to_string(&mut text).expect("read");
    client.join().expect("joined");
    assert_eq!(text, "x");
}
#[test]
fn writes_temporary_files() {
    std::fs::write("/tmp/from-a-test", "x").expect("written");
    std::fs::write(std::env::temp_dir().join("other"), "x").expect("written");
}
"#;

#[test]
fn cargo_tests_pass() {
    if !is_installed("cargo") {
        return;
    }
    let fixture = with_toolchains();
    assert_builds(
        &fixture,
        &format!(
            "set -e; mkdir -p c/src; cd c
printf '[package]\nname = \"c\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n' > Cargo.toml
cat > src/lib.rs <<'END'
{RUST_TESTS}
END
cargo test"
        ),
        "2 passed",
    );
}

/// A build finds a downloaded crate without network.
#[test]
fn cargo_builds_with_a_downloaded_dependency() {
    const CRATE: &str = "cfg-if-1.";
    if !is_installed("cargo") {
        return;
    }
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let is_downloaded = |index: &Path| {
        let mut crates = std::fs::read_dir(index).into_iter().flatten().flatten();
        crates.any(|entry| entry.file_name().to_string_lossy().starts_with(CRATE))
    };
    let indexes = std::fs::read_dir(cargo.join("registry/cache"));
    let mut indexes = indexes.into_iter().flatten().flatten();
    if !indexes.any(|index| is_downloaded(&index.path())) {
        not_run("a build with a dependency", "cfg-if is not downloaded");
        return;
    }
    let fixture = with_toolchains();
    assert_builds(
        &fixture,
        "set -e; mkdir -p c/src; cd c
printf '[package]\nname = \"c\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\ncfg-if = \"1\"\n' > Cargo.toml
printf 'cfg_if::cfg_if! { if #[cfg(test)] { #[test] fn runs() {} } }\n' > src/lib.rs
cargo test",
        "1 passed",
    );
    // The user's files are unchanged, and the cache gives no write access to them.
    let answer = sh(
        &fixture,
        &[],
        "cd $CARGO_HOME/registry/cache/*/ && for file in cfg-if-1.*.crate; do echo evil >> \"$file\"; done",
    );
    assert_ne!(answer.code, Some(0), "{answer:?}");
}

#[test]
fn python_tests_pass() {
    if !is_installed("python3") {
        return;
    }
    let fixture = with_toolchains();
    let tests = "import http.server, tempfile, threading, unittest, urllib.request
class T(unittest.TestCase):
    def test_server(self):
        server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.handle_request).start()
        url = 'http://127.0.0.1:%d/' % server.server_port
        self.assertEqual(urllib.request.urlopen(url).status, 200)
        server.server_close()
    def test_temporary(self):
        tempfile.mkdtemp()
        open('/tmp/from-a-test', 'w').close()
";
    let script = format!(
        "set -e; mkdir p; cd p; cat > test_a.py <<'END'\n{tests}END\npython3 -m unittest
! python3 -c 'import pytest' 2>/dev/null || python3 -m pytest -q"
    );
    assert_builds(&fixture, &script, "OK");
}

#[test]
fn npm_tests_pass() {
    if !is_installed("npm") {
        return;
    }
    let fixture = with_toolchains();
    let tests = "const http = require('http');
require('fs').writeFileSync('/tmp/from-a-test', 'x');
require('os').networkInterfaces();
const server = http.createServer((_, answer) => answer.end('' + 6 * 7));
server.listen(0, '127.0.0.1', () => {
  http.get({port: server.address().port, host: '127.0.0.1'}, answer => {
    answer.on('data', text => { console.log('' + text); server.close(); });
  });
});
";
    let script = format!(
        "set -e; mkdir n; cd n; cat > test.js <<'END'\n{tests}END
printf '{{\"name\":\"n\",\"version\":\"1.0.0\",\"scripts\":{{\"test\":\"node test.js\"}}}}' > package.json
npm test && npm install"
    );
    assert_builds(&fixture, &script, "42");
}

#[test]
fn go_tests_pass() {
    if !is_installed("go") {
        return;
    }
    let fixture = with_toolchains();
    let tests = "package g
import (\"net/http\"; \"net/http/httptest\"; \"testing\")
func TestServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err != nil || answer.StatusCode != 404 { t.Fatal(err) }
	t.TempDir()
}
";
    let script = format!(
        "set -e; mkdir g; cd g; printf 'module g\n' > go.mod
cat > a_test.go <<'END'\n{tests}END\ngo test"
    );
    assert_builds(&fixture, &script, "ok");
}

#[test]
fn make_and_git_work() {
    let fixture = with_toolchains();
    if is_installed("make") {
        assert_builds(
            &fixture,
            "printf 'all:\\n\\techo made\\n' > Makefile; make",
            "made",
        );
    }
    assert_builds(
        &fixture,
        "set -e; git config user.name n; git config user.email e@x; git commit -q --allow-empty -m one; git log -2",
        "one",
    );
}

/// Temporary folder, home and caches of commands persist between calls. They are not changes of the
/// sandbox and are removed with it, except that project caches stay for the next sandbox.
#[test]
fn private_folders_last_as_long_as_the_sandbox_and_are_not_changes() {
    let fixture = with_toolchains();
    fixture.sh("echo t > /tmp/kept; echo h > ~/kept; mkdir -p $XDG_CACHE_HOME; echo x > $XDG_CACHE_HOME/kept
mkdir -p $GOCACHE; echo c > $GOCACHE/kept; test -w $XDG_RUNTIME_DIR");
    let answer = fixture
        .sh("cat /tmp/kept $TMPDIR/kept /var/tmp/kept ~/kept $XDG_CACHE_HOME/kept $GOCACHE/kept");
    assert_eq!(answer.out, "t\nt\nt\nh\nx\nc\n");
    assert!(fixture.diff().is_empty());
    let shown = fixture.agents.data(&["cleanup", "status"]);
    let private = shown["kept"]["sandboxes"]["private_bytes"].as_u64();
    assert!(private >= Some(6), "{shown}");
    assert_eq!(shown["kept"]["caches"]["projects"], 1, "{shown}");
    fixture.discard();
    let shown = fixture.agents.data(&["cleanup", "status"]);
    assert_eq!(shown["kept"]["sandboxes"]["private_bytes"], 0, "{shown}");
    fixture.create(&fixture.folder().join("r"));
    let answer = fixture.sh("cat $GOCACHE/kept; test ! -e /tmp/kept; test ! -e ~/kept");
    assert_eq!(answer.out, "c\n");
    // Caches of a project that was not used for a long time are removed.
    let caches = fixture.agents.home().join("caches");
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(31 * 24);
    for entry in std::fs::read_dir(&caches).expect("caches").flatten() {
        let used = std::fs::File::options()
            .write(true)
            .open(entry.path().join("used"));
        used.expect("opened").set_modified(old).expect("its time");
    }
    fixture.agents.data(&["cleanup", "run", "--dry-run"]);
    assert_eq!(std::fs::read_dir(&caches).expect("caches").count(), 1);
    fixture.agents.data(&["cleanup", "run"]);
    assert_eq!(std::fs::read_dir(&caches).expect("caches").count(), 0);
}

/// Sandboxes of a project do not see cache content of another project.
#[test]
fn projects_do_not_share_caches() {
    let fixture = with_toolchains();
    fixture.sh("mkdir -p $GOCACHE; echo c > $GOCACHE/kept");
    let other = fixture.repository("other");
    let path = other.to_str().expect("a path");
    fixture.run_successfully(["sandbox", "create", "o", "--path", path]);
    let script = "test ! -e $GOCACHE/kept; ls $CARGO_HOME/../../..";
    let answer = fixture.run_successfully(["sandbox", "exec", "o", "--", "sh", "-ec", script]);
    assert_eq!(answer.out.lines().count(), 1, "{answer:?}");
}
