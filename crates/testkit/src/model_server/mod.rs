//! A model provider for tests: an HTTP server on loopback with configured responses.
//!
//! Each request gets the next [`Response`] of a list, or the result of a function. A response is a sequence of
//! [`Step`]s, so it can pause, break off, hang or never end. The server stores received requests. It stops when the
//! [`ModelServer`] is dropped.
//!
//! The server rejects requests that the real provider would reject, in the provider's format and without using up a
//! response (see `rules`).

pub mod anthropic;
mod format;
pub mod openai;
mod rules;

pub use format::WireFormat;
pub use rules::refusal;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which a waiting thread checks whether the server was dropped.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A part of a response.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends bytes as a chunk of the body.
    Send(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Sends the current time through the channel.
    Note(Sender<Instant>),
    /// Waits until the test sets the flag, or the client closes the connection.
    Until(Arc<AtomicBool>),
    /// Closes the connection without completing the body.
    Cut,
    /// Sends no more bytes until the client closes the connection.
    Hang,
    /// Sends the bytes repeatedly until the client closes the connection.
    Endless(Vec<u8>),
}

/// A configured response.
#[derive(Debug, Clone)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers, in addition to those of the connection.
    pub headers: Vec<(String, String)>,
    /// Body, step by step.
    pub steps: Vec<Step>,
}

impl Response {
    /// Creates a JSON response.
    pub fn json(status: u16, body: &str) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            steps: vec![Step::Send(body.as_bytes().to_vec())],
        }
    }

    /// Creates a response of server-sent events, each given as its data.
    pub fn events<T: ToString>(data: impl IntoIterator<Item = T>) -> Self {
        let frames = data
            .into_iter()
            .map(|data| Step::Send(format!("data: {}\n\n", data.to_string()).into_bytes()));
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            steps: frames.collect(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a step at the end.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Keeps the first steps and cuts the connection after them.
    #[must_use]
    pub fn cut_after(mut self, steps: usize) -> Self {
        self.steps.truncate(steps);
        self.then(Step::Cut)
    }

    /// Sends the same bytes in chunks of `size` bytes, regardless of character boundaries.
    #[must_use]
    pub fn in_chunks_of(mut self, size: usize) -> Self {
        let steps = self.steps.into_iter().flat_map(|step| match step {
            Step::Send(bytes) => bytes
                .chunks(size.max(1))
                .map(|chunk| Step::Send(chunk.to_vec()))
                .collect(),
            other => vec![other],
        });
        self.steps = steps.collect();
        self
    }
}

#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Method, such as `POST`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl ReceivedRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }
}

type Handler = dyn Fn(&ReceivedRequest) -> Response + Send + Sync;

struct ServerState {
    handler: Box<Handler>,
    is_stopped: AtomicBool,
    received: Mutex<Vec<ReceivedRequest>>,
    refused: Mutex<Vec<ReceivedRequest>>,
    connections: AtomicUsize,
    /// Number of connections that clients closed during a response.
    closed: Mutex<usize>,
    changed: Condvar,
}

impl ServerState {
    fn received(&self) -> MutexGuard<'_, Vec<ReceivedRequest>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) -> MutexGuard<'_, Vec<ReceivedRequest>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> MutexGuard<'_, usize> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that runs until it is dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    listener: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Answers requests in order, each with the next response; answers any further request with status 500.
    pub fn start(responses: Vec<Response>) -> Self {
        let next = AtomicUsize::new(0);
        Self::answering(move |_| {
            let index = next.fetch_add(1, Ordering::SeqCst);
            responses.get(index).cloned().unwrap_or_else(|| {
                let body = "{\"error\":{\"message\":\"the test has no more responses\"}}";
                Response::json(500, body)
            })
        })
    }

    /// Answers each request with the result of `handler`, which several threads may call concurrently.
    pub fn answering(
        handler: impl Fn(&ReceivedRequest) -> Response + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(ServerState {
            handler: Box::new(handler),
            is_stopped: AtomicBool::new(false),
            received: Mutex::default(),
            refused: Mutex::default(),
            connections: AtomicUsize::new(0),
            closed: Mutex::default(),
            changed: Condvar::new(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || accept(&listener, &for_thread));
        Self {
            address,
            shared,
            listener: Some(thread),
        }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests received so far.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.shared.received().clone()
    }

    /// Requests that broke a rule of their provider.
    pub fn refused(&self) -> Vec<ReceivedRequest> {
        self.shared.refused().clone()
    }

    /// Number of connections made so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits up to ten seconds until the client has closed `count` connections during a response. Returns whether it
    /// did.
    pub fn wait_for_closed(&self, count: usize) -> bool {
        let deadline = Duration::from_secs(10);
        let (closed, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.closed(), deadline, |closed| *closed < count)
            .unwrap_or_else(PoisonError::into_inner);
        *closed >= count
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for the next connection.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.listener.take() {
            let _ended = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for connection in listener.incoming() {
        if shared.is_stopped.load(Ordering::SeqCst) {
            break;
        }
        if let Ok(connection) = connection {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            let shared = Arc::clone(shared);
            threads.push(std::thread::spawn(move || {
                // A client that disconnects is not an error of the server.
                let _ended = serve(&connection, &shared);
            }));
        }
    }
    for thread in threads {
        let _ended = thread.join();
    }
}

/// Serves one connection until one side closes it.
fn serve(connection: &TcpStream, shared: &ServerState) -> io::Result<()> {
    connection.set_read_timeout(Some(POLL_INTERVAL))?;
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(RetryingReader { connection, shared });
    while let Some(request) = receive(&mut reader)? {
        shared.received().push(request.clone());
        let refusal = rules::refusal(&request);
        if refusal.is_some() {
            shared.refused().push(request.clone());
        }
        let response = refusal.unwrap_or_else(|| (shared.handler)(&request));
        if !respond(connection, &response, shared)? {
            break;
        }
    }
    Ok(())
}

/// Continues reading after a timeout, unless the server has stopped.
struct RetryingReader<'a> {
    connection: &'a TcpStream,
    shared: &'a ServerState,
}

impl Read for RetryingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.read(buffer) {
                Err(error) if is_timeout(&error) => {
                    if self.shared.is_stopped.load(Ordering::SeqCst) {
                        return Ok(0);
                    }
                }
                other => return other,
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn receive(reader: &mut impl BufRead) -> io::Result<Option<ReceivedRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or("/").to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(Some(ReceivedRequest {
        method,
        path,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }))
}

/// Sends a response. Returns whether the connection can be reused.
fn respond(connection: &TcpStream, response: &Response, shared: &ServerState) -> io::Result<bool> {
    let mut out = connection;
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", response.status);
    for (name, value) in &response.headers {
        head.push_str(&[name, ": ", value, "\r\n"].concat());
    }
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    out.write_all(head.as_bytes())?;
    for step in &response.steps {
        match step {
            Step::Send(bytes) => send(connection, bytes)?,
            Step::Pause(time) => pause(*time, shared),
            Step::Until(flag) => {
                while !flag.load(Ordering::SeqCst) && !shared.is_stopped.load(Ordering::SeqCst) {
                    if is_closed(connection)? {
                        note_closed(true, shared);
                        return Ok(false);
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
            // Sending fails if the test has dropped the receiver.
            Step::Note(sender) => drop(sender.send(Instant::now())),
            Step::Cut => {
                connection.shutdown(Shutdown::Both)?;
                return Ok(false);
            }
            Step::Hang => {
                let read_result = RetryingReader { connection, shared }.read(&mut [0]);
                note_closed(read_result.is_err() || matches!(read_result, Ok(0)), shared);
                return Ok(false);
            }
            Step::Endless(bytes) => {
                while !shared.is_stopped.load(Ordering::SeqCst) {
                    if let Err(error) = send(connection, bytes) {
                        note_closed(true, shared);
                        return Err(error);
                    }
                }
                return Ok(false);
            }
        }
    }
    out.write_all(b"0\r\n\r\n")?;
    Ok(true)
}

/// Whether the client has closed the connection. Does not block.
fn is_closed(connection: &TcpStream) -> io::Result<bool> {
    connection.set_nonblocking(true)?;
    let read = connection.peek(&mut [0]);
    connection.set_nonblocking(false)?;
    Ok(match read {
        Ok(count) => count == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    })
}

fn note_closed(is_closed: bool, shared: &ServerState) {
    if is_closed && !shared.is_stopped.load(Ordering::SeqCst) {
        *shared.closed() += 1;
        shared.changed.notify_all();
    }
}

fn send(mut connection: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    connection.write_all(&chunk)
}

fn pause(time: Duration, shared: &ServerState) {
    let end = Instant::now() + time;
    while Instant::now() < end && !shared.is_stopped.load(Ordering::SeqCst) {
        std::thread::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now())));
    }
}
