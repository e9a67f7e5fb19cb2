//! A caller over HTTP that is as small as a test needs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take before the server counts as gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
pub(crate) struct Caller {
    stream: BufReader<TcpStream>,
}

impl Caller {
    /// Connects; `None` when nobody listens.
    pub(crate) fn connect(address: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self {
            stream: BufReader::new(stream),
        })
    }

    fn send(&mut self, line: &str, header: &str, body: &str) -> Option<()> {
        let header = match header {
            "" => String::new(),
            header => format!("{header}\r\n"),
        };
        let whole = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             {header}\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(whole.as_bytes()).ok()
    }

    fn head(&mut self) -> Option<(u16, usize)> {
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if line.is_empty() {
                return Some((status, length));
            }
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest.get(..3)?.parse().ok()?;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
        }
    }

    /// Asks for something, with one more header if it is not empty; `None` when the connection broke.
    pub(crate) fn ask(&mut self, line: &str, header: &str, body: &str) -> Option<(u16, Value)> {
        self.send(line, header, body)?;
        let (status, length) = self.head()?;
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).ok()?;
        Some((
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        ))
    }

    /// Begins to listen to events; `None` when the connection broke.
    pub(crate) fn listen(mut self, line: &str, header: &str) -> Option<Events> {
        self.send(line, header, "")?;
        let (status, _) = self.head()?;
        (status == 200).then_some(Events {
            stream: self.stream,
        })
    }
}

/// The events of a connection.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
}

/// What was heard.
pub(crate) struct Heard {
    pub(crate) position: u64,
    /// What happened; nothing when only the position was told.
    pub(crate) data: Option<Value>,
}

impl Events {
    /// The next block; `None` when the connection broke.
    pub(crate) fn next(&mut self) -> Option<Heard> {
        let (mut position, mut data) = (None, None);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            // Sizes of chunks stand between the lines; none of them begins like a field.
            let line = line.trim_end();
            if let Some(id) = line.strip_prefix("id: ") {
                position = id.parse().ok();
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = Some(serde_json::from_str(text).ok()?);
            } else if line.is_empty()
                && let Some(position) = position.take()
            {
                return Some(Heard {
                    position,
                    data: data.take(),
                });
            }
        }
    }
}
