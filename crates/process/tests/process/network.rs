//! Commands without network reach nothing; commands with network can use the usual protocols.

use crate::harness::{
    ConfinementMode, Sandbox, need_landlock, need_namespaces, stderr, stdout, tests,
};
use cleveragents_process::{Ending, Isolation, Layers, WhenMissing};
use std::io::Read;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread;

tests![
    sockets_of_every_family_are_refused_without_network,
    pairs_of_sockets_are_allowed,
    tcp_on_loopback_works_with_network,
    a_server_outside_is_reached_with_network_only,
    each_layer_alone_blocks_tcp,
    rare_families_are_refused_even_with_network,
    sockets_without_a_file_cannot_be_reached,
];

const FAMILIES: &str = "import socket
for family in list(range(0, 46)):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind).close()
            print('opened', family, kind)
        except PermissionError:
            pass
        except OSError as error:
            print('other', family, kind, error)
";

fn sockets_of_every_family_are_refused_without_network() {
    for mode in ConfinementMode::filtered() {
        let finished = Sandbox::with_mode(mode).python(FAMILIES);
        assert_eq!(finished.ending, Ending::Exited(0), "{}", stderr(&finished));
        assert_eq!(stdout(&finished), "", "{mode:?}");
    }
}

fn pairs_of_sockets_are_allowed() {
    let finished = Sandbox::new().python(
        "import asyncio, socket
a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))
asyncio.run(asyncio.sleep(0)); print('loop')",
    );
    assert_eq!(stdout(&finished), "b'x'\nloop\n", "{}", stderr(&finished));
}

fn tcp_on_loopback_works_with_network() {
    for mode in ConfinementMode::filtered() {
        let mut sandbox = Sandbox::with_mode(mode);
        sandbox.policy().network = true;
        let finished = sandbox.python(
            "import socket
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
client.send(b'hello'); print(server.accept()[0].recv(5))",
        );
        assert_eq!(
            stdout(&finished),
            "b'hello'\n",
            "{mode:?} {}",
            stderr(&finished)
        );
    }
}

/// Whether a command can connect to a server of this process.
fn reaches(sandbox: &Sandbox) -> bool {
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let port = server.local_addr().expect("its address").port();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, _) = server.accept().expect("a client");
            let mut text = String::new();
            let _until_closed = client.read_to_string(&mut text);
        });
        let finished = sandbox.python(&format!(
            "import socket
try:
    socket.create_connection(('127.0.0.1', {port})).send(b'hello'); print('reached')
except OSError as error:
    print('refused', error)"
        ));
        // Unblocks the server if the command did not connect.
        drop(std::net::TcpStream::connect(("127.0.0.1", port)));
        assert_eq!(finished.ending, Ending::Exited(0), "{}", stderr(&finished));
        stdout(&finished) == "reached\n"
    })
}

fn a_server_outside_is_reached_with_network_only() {
    for mode in ConfinementMode::confined() {
        let mut sandbox = Sandbox::with_mode(mode);
        assert!(!reaches(&sandbox), "{mode:?}");
        sandbox.policy().network = true;
        assert!(reaches(&sandbox), "{mode:?}");
    }
    assert!(reaches(&Sandbox::with_mode(ConfinementMode::Unconfined)));
}

fn each_layer_alone_blocks_tcp() {
    need_landlock();
    need_namespaces();
    for (isolation, landlock, seccomp) in [
        (Isolation::Whole, false, false),
        (Isolation::None, true, false),
        (Isolation::None, false, true),
    ] {
        let mut sandbox = Sandbox::new();
        sandbox.policy().layers = Layers {
            isolation,
            landlock,
            seccomp,
        };
        sandbox.policy().when_missing = WhenMissing::Warn;
        assert!(!reaches(&sandbox), "{:?}", sandbox.policy);
    }
    let mut sandbox = Sandbox::new();
    sandbox.policy().layers = Layers {
        isolation: Isolation::None,
        landlock: false,
        seccomp: false,
    };
    sandbox.policy().when_missing = WhenMissing::Warn;
    assert!(reaches(&sandbox));
}

fn rare_families_are_refused_even_with_network() {
    let mut sandbox = Sandbox::new();
    sandbox.policy().network = true;
    // AF_PACKET, AF_ALG (kernel cryptography) and AF_VSOCK (the host of a virtual machine).
    let finished = sandbox.python(
        "import socket
for family in (17, 38, 40):
    try:
        socket.socket(family, socket.SOCK_SEQPACKET if family == 38 else socket.SOCK_STREAM)
        print('opened', family)
    except PermissionError:
        pass",
    );
    assert_eq!(stdout(&finished), "", "{}", stderr(&finished));
    assert_eq!(finished.ending, Ending::Exited(0), "{}", stderr(&finished));
}

/// Abstract sockets have no file that mounts could hide; Landlock denies connections to abstract sockets of other
/// processes.
fn sockets_without_a_file_cannot_be_reached() {
    need_landlock();
    let name = format!("cleveragents-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let server = UnixListener::bind_addr(&address).expect("a server");
    let script = format!(
        "import socket
try:
    socket.socket(socket.AF_UNIX).connect('\\0{name}'); print('reached')
except OSError as error:
    print('refused')"
    );
    for mode in ConfinementMode::filtered() {
        let mut sandbox = Sandbox::with_mode(mode);
        sandbox.policy().network = true;
        assert_eq!(stdout(&sandbox.python(&script)), "refused\n", "{mode:?}");
    }
    assert_eq!(
        stdout(&Sandbox::with_mode(ConfinementMode::Unconfined).python(&script)),
        "reached\n"
    );
    drop(server);
}
