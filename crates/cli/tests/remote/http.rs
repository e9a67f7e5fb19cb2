//! A minimal HTTP/1.1 client that distinguishes complete from truncated responses.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Read timeout of a connection. A response that exceeds it counts as missing.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Cause of a missing response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingResponse {
    /// The connection ended before the first byte of a response.
    Unanswered,
    /// The response started but was not completed.
    Truncated,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body, which must be JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            let text = String::from_utf8_lossy(&self.body);
            panic!("{} {error}: {text}", self.status)
        })
    }
}

/// One connection.
pub(crate) struct Caller {
    stream: BufReader<TcpStream>,
}

/// Status and headers of a response.
struct ResponseHead {
    status: u16,
    text: String,
    /// Length of the body in bytes; `None` for chunked encoding.
    length: Option<u64>,
}

impl Caller {
    /// Connects to the server. Returns `None` if no process listens.
    pub(crate) fn connect(address: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self {
            stream: BufReader::new(stream),
        })
    }

    fn send(
        &mut self,
        line: &str,
        headers: &[&str],
        body: &str,
    ) -> Result<ResponseHead, MissingResponse> {
        let mut request = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        request.push_str(body);
        // Ignore a write error, because a server that refuses early may already have responded.
        let _written = self.stream.get_mut().write_all(request.as_bytes());
        match self.stream.fill_buf() {
            Ok(bytes) if !bytes.is_empty() => {
                head(&mut self.stream).map_err(|_| MissingResponse::Truncated)
            }
            _ => Err(MissingResponse::Unanswered),
        }
    }

    /// Sends a request and reads the complete response.
    pub(crate) fn ask(
        &mut self,
        line: &str,
        headers: &[&str],
        body: &str,
    ) -> Result<Answer, MissingResponse> {
        let head = self.send(line, headers, body)?;
        let mut body = Vec::new();
        let remaining = RemainingBody::from_head(&head);
        let stream = &mut self.stream;
        Body { stream, remaining }
            .read_to_end(&mut body)
            .map_err(|_| MissingResponse::Truncated)?;
        Ok(Answer {
            status: head.status,
            head: head.text,
            body,
        })
    }

    /// Requests an event stream. A response that is not a stream is the inner `Err`.
    pub(crate) fn listen(
        mut self,
        line: &str,
        headers: &[&str],
        body: &str,
    ) -> Result<Result<Events, Answer>, MissingResponse> {
        let head = self.send(line, headers, body)?;
        let mut body = Body {
            remaining: RemainingBody::from_head(&head),
            stream: self.stream,
        };
        if head.text.contains("text/event-stream") {
            return Ok(Ok(Events(BufReader::new(body))));
        }
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes)
            .map_err(|_| MissingResponse::Truncated)?;
        Ok(Err(Answer {
            status: head.status,
            head: head.text,
            body: bytes,
        }))
    }
}

fn head(stream: &mut impl BufRead) -> Result<ResponseHead, Error> {
    let mut head = ResponseHead {
        status: 0,
        text: String::new(),
        length: Some(0),
    };
    loop {
        let line = line(stream)?;
        if line.is_empty() {
            return Ok(head);
        }
        if let Some(status_line) = line.strip_prefix("HTTP/1.1 ") {
            head.status = status_line
                .get(..3)
                .and_then(|code| code.parse().ok())
                .unwrap_or(0);
        }
        let line = line.to_ascii_lowercase();
        if let Some(length) = line.strip_prefix("content-length:") {
            head.length = length.trim().parse().ok();
        } else if line.starts_with("transfer-encoding:") {
            head.length = None;
        }
        head.text.push_str(&line);
        head.text.push('\n');
    }
}

/// Reads a complete line, without its end. A line without a line feed is an error.
fn line(stream: &mut impl BufRead) -> Result<String, Error> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.trim_end_matches('\r').to_owned()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

enum RemainingBody {
    Bytes(u64),
    /// Remaining bytes of the current chunk, and true if the response had an earlier chunk.
    Chunk(u64, bool),
    Nothing,
}

impl RemainingBody {
    const fn from_head(head: &ResponseHead) -> Self {
        match head.length {
            Some(length) => Self::Bytes(length),
            None => Self::Chunk(0, false),
        }
    }
}

/// Body of a response. Reading a truncated body is an error.
struct Body<S> {
    stream: S,
    remaining: RemainingBody,
}

impl<S: BufRead> Read for Body<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        if let RemainingBody::Chunk(0, has_previous) = self.remaining {
            if has_previous {
                line(&mut self.stream)?;
            }
            let size = line(&mut self.stream)?;
            let size =
                u64::from_str_radix(&size, 16).map_err(|_| Error::from(ErrorKind::InvalidData))?;
            self.remaining = RemainingBody::Chunk(size, true);
            if size == 0 {
                line(&mut self.stream)?;
                self.remaining = RemainingBody::Nothing;
            }
        }
        let (RemainingBody::Bytes(remaining) | RemainingBody::Chunk(remaining, _)) =
            &mut self.remaining
        else {
            return Ok(0);
        };
        if *remaining == 0 {
            return Ok(0);
        }
        let read = self.stream.by_ref().take(*remaining).read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        *remaining -= read as u64;
        Ok(read)
    }
}

/// Event stream of a connection.
pub(crate) struct Events(BufReader<Body<BufReader<TcpStream>>>);

#[derive(Debug)]
pub(crate) struct ReceivedResponse {
    /// Position in the log, if given.
    pub(crate) position: Option<u64>,
    pub(crate) kind: Option<String>,
    /// Data of the event; `None` if only the position was sent.
    pub(crate) data: Option<Value>,
}

impl Events {
    /// The next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Result<Option<ReceivedResponse>, MissingResponse> {
        let mut event = ReceivedResponse {
            position: None,
            kind: None,
            data: None,
        };
        let mut has_started = false;
        loop {
            if !has_started {
                match self.0.fill_buf() {
                    Ok([]) => return Ok(None),
                    Ok(_) => has_started = true,
                    Err(_) => return Err(MissingResponse::Truncated),
                }
            }
            let line = line(&mut self.0).map_err(|_| MissingResponse::Truncated)?;
            if let Some(id) = line.strip_prefix("id: ") {
                event.position = id.parse().ok();
            } else if let Some(kind) = line.strip_prefix("event: ") {
                event.kind = Some(kind.to_owned());
            } else if let Some(text) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(text);
                event.data = Some(data.unwrap_or_else(|error| panic!("{error}: {text}")));
            } else if line.is_empty() {
                return Ok(Some(event));
            }
        }
    }
}
