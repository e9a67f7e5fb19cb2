//! The listener: limits on connections, headers and timeouts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use cleveragents_domain::Code;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::failure::Failure;
use crate::options::{Options, Tls};
use crate::routes::Router;

/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 100;

/// Response when the connection limit is reached.
const LIMIT_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 46\r\n\r\n{\"status\":503,\"detail\":\"too many \
    connections\"}";

/// Timeout for rejecting a client: sending the response and waiting until the client closes the connection.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of connections that wait to be accepted. With the usual small backlog, some clients of a burst would
/// retry only a second later.
const BACKLOG: u32 = 4_096;

pub(crate) fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A server that has just stopped must not block the port for the next server.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop` resolves, and then until running work is finished.
pub(crate) async fn serve(
    app: Arc<App>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Arc<Router>,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let addresses = Addresses::new(&app.options);
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let Ok((stream, peer)) = accepted else {
            // Out of file descriptors, or the client disconnected: accept the next connection.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(share) = addresses.count_connection(peer.ip()) else {
            tokio::spawn(refuse(stream));
            continue;
        };
        let Ok(permit) = Arc::clone(&app.connections).try_acquire_owned() else {
            tokio::spawn(refuse(stream));
            continue;
        };
        let _no_delay = stream.set_nodelay(true);
        let connection = Connection {
            app: Arc::clone(&app),
            router: Arc::clone(&router),
            peer,
            watcher: graceful.watcher(),
            _held: (permit, share),
        };
        match tls.clone() {
            None => tokio::spawn(connection.serve(stream)),
            Some(tls) => tokio::spawn(connection.secure(stream, tls)),
        };
    }
    drop(listener);
    let drain = app.options.drain;
    app.shutdown.drain(drain).await;
    // Responses that are being written may finish.
    let _ended = tokio::time::timeout(drain, graceful.shutdown()).await;
}

/// Counts the connections of each address, so that one address cannot hold them all.
#[derive(Clone)]
struct Addresses {
    limit: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Addresses {
    fn new(options: &Options) -> Self {
        let limit = match options.max_connections_per_address {
            0 => options.max_connections.div_ceil(2),
            limit => limit,
        };
        Self {
            limit,
            open: Arc::default(),
        }
    }

    /// Increments the count of an address; `None` at the limit.
    fn count_connection(&self, address: IpAddr) -> Option<AddressShare> {
        let address = network(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(AddressShare {
            addresses: self.clone(),
            address,
        })
    }
}

/// The unit by which connections are counted: an IPv4 address, or the upper half of an IPv6 address (one machine
/// usually owns the whole lower half).
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        other @ IpAddr::V4(_) => other,
    }
}

/// A counted connection of an address; dropping it decrements the count.
struct AddressShare {
    addresses: Addresses,
    address: IpAddr,
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        let open = self.addresses.open.lock();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

async fn refuse(mut stream: TcpStream) {
    let rejection = async {
        stream.write_all(LIMIT_RESPONSE).await?;
        stream.shutdown().await?;
        // Closing a connection before its request is read would discard the response.
        let mut unread = [0; 1_024];
        while stream.read(&mut unread).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // The client may have disconnected, or never stop sending.
    let _ended = tokio::time::timeout(REJECTION_TIMEOUT, rejection).await;
}

struct Connection {
    app: Arc<App>,
    router: Arc<Router>,
    peer: SocketAddr,
    watcher: Watcher,
    _held: (OwnedSemaphorePermit, AddressShare),
}

impl Connection {
    async fn secure(self, stream: TcpStream, tls: TlsAcceptor) {
        let handshake_timeout = self.app.options.request_timeout;
        if let Ok(Ok(stream)) = tokio::time::timeout(handshake_timeout, tls.accept(stream)).await {
            self.serve(stream).await;
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let (app, router, peer) = (Arc::clone(&self.app), self.router, self.peer);
        let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
            let request = request.map(Body::new);
            let (app, router) = (Arc::clone(&app), Arc::clone(&router));
            async move { Ok::<_, Infallible>(router.answer(&app, peer, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.app.options.request_timeout)
            .max_buf_size(self.app.options.max_header_bytes.max(8 << 10))
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), service);
        // A client that disconnects is not an error of the server.
        let _ended = self.watcher.watch(connection).await;
    }
}

/// A TLS acceptor for a certificate and its key.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, Failure> {
    let unusable = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::new(
            Code::FileAccess,
            format!("`{}` cannot be used for TLS: {error}", path.display()),
        )
        .with_hint("give a certificate and its key as PEM files")
    };
    let certificates = CertificateDer::pem_file_iter(&tls.certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&tls.certificates, &error))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| unusable(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(certificates, key)
        })
        .map_err(|error| unusable(&tls.certificates, &error))?;
    Ok(TlsAcceptor::from(Arc::new(configuration)))
}
