//! [`Client`]: HTTP/1.1 over a plain socket, so that a test controls every byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Timeout of every read, so that failing tests end.
const READ_TIMEOUT: Duration = Duration::from_secs(40);

/// A client with or without a token.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    token: Option<String>,
    headers: Vec<(String, String)>,
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let entry = self.headers.iter().find(|(known, _)| known == name);
        entry.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Checks the status, and returns the response.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// Checks that the response is a problem with this status and code.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) {
        let answer = self.expect(status);
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(answer.json()["code"], code, "{}", answer.text());
        assert_eq!(answer.json()["status"], status);
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self {
            address,
            token,
            headers: Vec::new(),
        }
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The same client with another header.
    pub(crate) fn with(&self, name: &str, value: impl Into<String>) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.into()));
        client
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, Some(body))
    }

    /// Sends a request and waits for the whole response.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bytes = body.map(|body| body.to_string().into_bytes());
        let kind = body.map(|_| "application/json");
        self.raw(method, path, kind, bytes.as_deref().unwrap_or_default())
    }

    /// Sends a request with arbitrary bytes as body.
    pub(crate) fn raw(&self, method: &str, path: &str, kind: Option<&str>, body: &[u8]) -> Answer {
        let mut stream = self.send(method, path, kind, body);
        stream.answer(method)
    }

    /// Sends a request to a server that may be killed; `None` without a complete response.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Option<Answer> {
        let socket = TcpStream::connect(self.address).ok()?;
        socket.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
        let mut stream = Stream {
            reader: BufReader::new(socket),
        };
        let (head, body) = (self.head("POST", path), body.to_string());
        let kind = "content-type: application/json\r\nconnection: close";
        let request = format!(
            "{head}{kind}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write(request.as_bytes()).ok()?;
        let (status, headers) = stream.head()?;
        let mut body = Vec::new();
        stream.reader.read_to_end(&mut body).ok()?;
        let length = headers.iter().find(|(name, _)| name == "content-length")?;
        (length.1 == body.len().to_string()).then_some(Answer {
            status,
            headers,
            body,
        })
    }

    fn head(&self, method: &str, path: &str) -> String {
        let token = self.token.iter().map(|token| {
            let secret = format!("Bearer {token}");
            ("authorization".to_owned(), secret)
        });
        let headers: Vec<String> = token
            .chain(self.headers.iter().cloned())
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let headers = headers.concat();
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}")
    }

    /// Sends a request without reading the response.
    pub(crate) fn send(&self, method: &str, path: &str, kind: Option<&str>, body: &[u8]) -> Stream {
        let kind = kind.map(|kind| format!("content-type: {kind}\r\n"));
        let head = format!(
            "{}{}connection: close\r\ncontent-length: {}\r\n\r\n",
            self.head(method, path),
            kind.unwrap_or_default(),
            body.len()
        );
        let mut stream = self.connect();
        // A server that rejects the request may stop reading.
        let _sent = stream
            .write(head.as_bytes())
            .and_then(|()| stream.write(body));
        stream
    }

    /// A connection for arbitrary bytes.
    pub(crate) fn connect(&self) -> Stream {
        let socket = TcpStream::connect(self.address).expect("the server listens");
        socket
            .set_read_timeout(Some(READ_TIMEOUT))
            .expect("a timeout");
        socket
            .set_write_timeout(Some(READ_TIMEOUT))
            .expect("a timeout");
        Stream {
            reader: BufReader::new(socket),
        }
    }

    /// Starts to listen to server-sent events.
    pub(crate) fn listen(&self, path: &str) -> Stream {
        let mut stream = self
            .with("accept", "text/event-stream")
            .send("GET", path, None, b"");
        let (status, headers) = stream.head().expect("an answer");
        assert_eq!(status, 200, "{path}: {}", stream.rest(&headers, "GET"));
        stream
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ReceivedEvent {
    pub(crate) id: Option<u64>,
    pub(crate) event: Option<String>,
    pub(crate) data: Option<Value>,
}

impl Stream {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// The status and the headers of a response; `None` if the connection ends.
    pub(crate) fn head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                return Some((status, headers));
            };
            headers.push((name.to_owned(), value.to_owned()));
        }
    }

    pub(crate) fn rest(&mut self, headers: &[(String, String)], method: &str) -> String {
        String::from_utf8_lossy(&self.body(headers, method)).into_owned()
    }

    fn body(&mut self, headers: &[(String, String)], method: &str) -> Vec<u8> {
        let header = |name: &str| {
            let entry = headers.iter().find(|(known, _)| known == name);
            entry.map(|(_, value)| value.as_str())
        };
        let mut body = Vec::new();
        if method == "HEAD" {
            return body;
        }
        if header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                body.extend(chunk);
            }
        } else if let Some(length) = header("content-length") {
            body.resize(length.parse().expect("a length"), 0);
            self.reader.read_exact(&mut body).expect("a whole body");
        }
        body
    }

    /// The whole response.
    #[track_caller]
    pub(crate) fn answer(&mut self, method: &str) -> Answer {
        let (status, headers) = self.head().expect("an answer");
        Answer {
            status,
            body: self.body(&headers, method),
            headers,
        }
    }

    /// The next chunk of a chunked body; `None` at its end.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk).ok()?;
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    /// The next block of server-sent events, `None` at the end.
    pub(crate) fn block(&mut self) -> Option<ReceivedEvent> {
        // The server sends each block in its own chunk.
        let chunk = String::from_utf8(self.chunk()?).expect("UTF-8");
        assert!(chunk.ends_with("\n\n"), "{chunk:?} is not one block");
        let mut sent = ReceivedEvent::default();
        for line in chunk.lines() {
            match line.split_once(": ") {
                Some(("id", id)) => sent.id = Some(id.parse().expect("a position")),
                Some(("event", event)) => sent.event = Some(event.to_owned()),
                Some(("data", data)) => {
                    sent.data = Some(serde_json::from_str(data).expect("JSON"));
                }
                _ => {}
            }
        }
        Some(sent)
    }

    /// The next event, skipping keep-alives; `None` at the end.
    pub(crate) fn event(&mut self) -> Option<ReceivedEvent> {
        // Without this timeout keep-alives would continue the loop forever.
        let started_at = Instant::now();
        while started_at.elapsed() < READ_TIMEOUT {
            let sent = self.block()?;
            if sent.data.is_some() {
                return Some(sent);
            }
        }
        panic!("no event arrived");
    }
}
