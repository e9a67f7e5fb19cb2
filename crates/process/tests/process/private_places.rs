//! A command's own `/tmp` and its own loopback.

use crate::harness::{ConfinementMode, Sandbox, need_namespaces, stderr, stdout, tests};
use cleveragents_process::{Ending, Layer};
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

tests![
    the_temporary_folder_is_found_at_tmp,
    siblings_of_a_folder_below_tmp_cannot_be_written,
    a_link_left_in_tmp_is_not_followed,
    a_temporary_folder_must_be_writable,
    loopback_works_in_a_network_of_its_own,
    loopback_does_not_reach_servers_of_the_machine,
    without_a_network_of_its_own_there_is_no_loopback,
    other_sockets_stay_refused_with_loopback,
];

/// A sandbox whose folder `temporary` is mounted at `/tmp` for its commands.
fn with_temporary(mode: ConfinementMode) -> (Sandbox, PathBuf) {
    let mut sandbox = Sandbox::with_mode(mode);
    let folder = sandbox.inside.join("temporary");
    fs::create_dir(&folder).expect("a folder");
    sandbox.policy().temporary = Some(folder.clone());
    (sandbox, folder)
}

fn the_temporary_folder_is_found_at_tmp() {
    need_namespaces();
    for mode in [
        ConfinementMode::Whole,
        ConfinementMode::WithoutProcesses,
        ConfinementMode::Namespaces,
    ] {
        let (sandbox, folder) = with_temporary(mode);
        let name = format!("cleveragents-private-{}", std::process::id());
        let script = format!("echo one > /tmp/{name} && echo two >> /var/tmp/{name}");
        let finished = sandbox.sh(&script);
        assert_eq!(finished.ending, Ending::Exited(0), "{}", stderr(&finished));
        let written = fs::read_to_string(folder.join(&name)).expect("a file");
        assert_eq!(written, "one\ntwo\n", "{mode:?}");
        assert!(!Path::new("/tmp").join(&name).exists());
        // The next command finds the file.
        let finished = sandbox.sh(&format!("cat /tmp/{name}"));
        assert_eq!(stdout(&finished), "one\ntwo\n", "{mode:?}");
    }
}

fn siblings_of_a_folder_below_tmp_cannot_be_written() {
    need_namespaces();
    let (sandbox, folder) = with_temporary(ConfinementMode::Whole);
    if !sandbox.inside.starts_with("/tmp") {
        crate::harness::not_run("temporary folders in /tmp");
    }
    let finished = sandbox.sh(
        "echo inside > $INSIDE/file && echo private > /tmp/file || exit 1
echo evil > $OUTSIDE/file; echo evil > $INSIDE/../file; true",
    );
    assert_eq!(finished.ending, Ending::Exited(0), "{}", stderr(&finished));
    assert!(sandbox.inside.join("file").exists());
    assert!(folder.join("file").exists());
    assert!(!sandbox.outside.join("file").exists());
    assert!(!sandbox.inside.with_file_name("file").exists());
    let errors = stderr(&finished);
    assert_eq!(errors.lines().count(), 2, "both are refused: {errors}");
}

fn a_link_left_in_tmp_is_not_followed() {
    need_namespaces();
    let (sandbox, folder) = with_temporary(ConfinementMode::Whole);
    let Ok(inner) = sandbox.inside.strip_prefix("/tmp") else {
        crate::harness::not_run("temporary folders in /tmp");
    };
    // The name of the folder in `/tmp` that leads to the sandbox.
    let first = inner.iter().next().expect("a name");
    std::os::unix::fs::symlink(&sandbox.outside, folder.join(first)).expect("a link");
    let finished = sandbox.sh("echo inside > $INSIDE/file");
    assert_eq!(finished.ending, Ending::Exited(0), "{}", stderr(&finished));
    assert!(sandbox.inside.join("file").exists());
    let entries = fs::read_dir(&sandbox.outside).expect("a folder").count();
    assert_eq!(entries, 0);
}

fn a_temporary_folder_must_be_writable() {
    let mut sandbox = Sandbox::new();
    let outside = sandbox.outside.clone();
    sandbox.policy().temporary = Some(outside);
    let refused = crate::harness::try_run(&sandbox.invocation("true", &[]));
    assert!(refused.is_err(), "{refused:?}");
}

const SERVE: &str = "import socket
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError as error:
        if family == socket.AF_INET6: print('b6'); continue
        raise
    client = socket.create_connection(server.getsockname()[:2])
    client.send(b'6' if family == socket.AF_INET6 else b'4')
    print('b' + server.accept()[0].recv(1).decode())
import http.server, threading, urllib.request
server = http.server.HTTPServer(('localhost', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.handle_request).start()
print(urllib.request.urlopen('http://localhost:%d/' % server.server_port).status)";

fn loopback_works_in_a_network_of_its_own() {
    need_namespaces();
    for mode in [
        ConfinementMode::Whole,
        ConfinementMode::WithoutProcesses,
        ConfinementMode::Namespaces,
    ] {
        let mut sandbox = Sandbox::with_mode(mode);
        sandbox.policy().loopback = true;
        let finished = sandbox.python(SERVE);
        let text = stdout(&finished);
        assert_eq!(text, "b4\nb6\n200\n", "{mode:?} {}", stderr(&finished));
        assert_eq!(finished.enforced.loopback, Layer::InForce(()));
        assert!(finished.enforced.network_confined());
    }
}

fn loopback_does_not_reach_servers_of_the_machine() {
    need_namespaces();
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let port = server.local_addr().expect("its address").port();
    server.set_nonblocking(true).expect("set");
    for mode in [
        ConfinementMode::Whole,
        ConfinementMode::WithoutProcesses,
        ConfinementMode::Namespaces,
    ] {
        let mut sandbox = Sandbox::with_mode(mode);
        sandbox.policy().loopback = true;
        let finished = sandbox.python(&format!(
            "import socket
for address in (('127.0.0.1', {port}), ('192.0.2.1', 80)):
    try:
        socket.create_connection(address, timeout=5); print('reached')
    except OSError:
        print('refused')"
        ));
        let text = stdout(&finished);
        assert_eq!(text, "refused\nrefused\n", "{mode:?} {}", stderr(&finished));
    }
    let connection = server.accept().map(|(mut client, _)| {
        let mut text = String::new();
        let _ignored = client.read_to_string(&mut text);
    });
    assert!(connection.is_err(), "no client connected");
}

fn without_a_network_of_its_own_there_is_no_loopback() {
    use cleveragents_process::{Isolation, Layers, WhenMissing};
    let mut sandbox = Sandbox::new();
    sandbox.policy().loopback = true;
    sandbox.policy().when_missing = WhenMissing::Warn;
    sandbox.policy().layers = Layers {
        isolation: Isolation::None,
        landlock: true,
        seccomp: true,
    };
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let port = server.local_addr().expect("its address").port();
    let finished = sandbox.python(&format!(
        "import socket
for address in (('127.0.0.1', {port}), ('127.0.0.1', 0)):
    try:
        socket.socket().connect(address); print('reached')
    except PermissionError:
        print('refused')"
    ));
    assert_eq!(
        stdout(&finished),
        "refused\nrefused\n",
        "{}",
        stderr(&finished)
    );
    assert!(matches!(finished.enforced.loopback, Layer::Missing(_)));
}

fn other_sockets_stay_refused_with_loopback() {
    need_namespaces();
    let mut sandbox = Sandbox::new();
    sandbox.policy().loopback = true;
    // AF_PACKET, AF_ALG, AF_VSOCK, netlink of the firewall, raw IP.
    let finished = sandbox.python(
        "import socket
for family, kind, protocol in ((17, 3, 0), (38, 5, 0), (40, 1, 0), (16, 3, 12), (2, 3, 1)):
    try:
        socket.socket(family, kind, protocol); print('opened', family)
    except PermissionError:
        pass
socket.socket(16, 3, 0).close()
print('routes')",
    );
    assert_eq!(stdout(&finished), "routes\n", "{}", stderr(&finished));
}
