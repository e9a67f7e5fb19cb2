//! Cutting a byte stream into frames: server-sent events, or JSON lines.
//!
//! Bytes are collected and only whole frames are decoded, so a character split between two
//! chunks comes out whole.

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// The name of the event, empty when it has none.
    pub(crate) name: String,
    /// Its data.
    pub(crate) data: String,
}

/// How a stream is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value a line.
    Lines,
}

/// Collects bytes and gives frames.
pub(crate) struct Frames {
    framing: Framing,
    buffer: Vec<u8>,
    /// How much of the buffer was given out already.
    taken: usize,
    /// How much of the buffer holds no end of a line.
    searched: usize,
    current: Frame,
    has_data: bool,
}

impl Frames {
    pub(crate) const fn new(framing: Framing) -> Self {
        Self {
            framing,
            buffer: Vec::new(),
            taken: 0,
            searched: 0,
            current: Frame {
                name: String::new(),
                data: String::new(),
            },
            has_data: false,
        }
    }

    /// Adds bytes as they came.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.searched -= self.taken;
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        while let Some(line) = self.line() {
            if let Some(frame) = self.read(&line) {
                return Some(frame);
            }
        }
        None
    }

    /// What is left when the stream ended: the last frame may lack the blank line behind it.
    pub(crate) fn end(&mut self) -> Option<Frame> {
        self.add(b"\n\n");
        self.next()
    }

    fn line(&mut self) -> Option<String> {
        let end = self.buffer[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| end + self.searched) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = String::from_utf8_lossy(&self.buffer[self.taken..end]).into_owned();
        self.taken = end + 1;
        self.searched = end + 1;
        Some(line)
    }

    fn read(&mut self, line: &str) -> Option<Frame> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if self.framing == Framing::Lines {
            return (!line.trim().is_empty()).then(|| Frame {
                name: String::new(),
                data: line.to_owned(),
            });
        }
        if line.is_empty() {
            let frame = std::mem::take(&mut self.current);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.current.name),
            "data" => {
                if self.has_data {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(value);
                self.has_data = true;
            }
            // Comments, ids and retry times say nothing to us.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Frames, Framing};
    use proptest::prelude::*;

    fn cut(framing: Framing, text: &[u8], sizes: &[usize]) -> Vec<Frame> {
        let mut frames = Frames::new(framing);
        let mut found = Vec::new();
        let mut rest = text;
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() {
            let size = sizes.next().map_or(1, |size| *size).clamp(1, rest.len());
            frames.add(&rest[..size]);
            rest = &rest[size..];
            found.extend(std::iter::from_fn(|| frames.next()));
        }
        found.extend(frames.end());
        found
    }

    #[test]
    fn events_lines_and_comments_are_told_apart() {
        let text =
            ": hello\r\nevent: a\r\ndata: {\"x\":\r\ndata: 1}\r\n\r\nid: 7\n\ndata:é\n\ndata: rest";
        let found = cut(Framing::Events, text.as_bytes(), &[1000]);
        let pairs: Vec<_> = found
            .iter()
            .map(|frame| (frame.name.as_str(), frame.data.as_str()))
            .collect();
        assert_eq!(pairs, [("a", "{\"x\":\n1}"), ("", "é"), ("", "rest")]);
        let lines = cut(Framing::Lines, b"{}\n\n{\"a\":1}\r\n[]", &[3]);
        assert_eq!(
            lines
                .iter()
                .map(|line| line.data.as_str())
                .collect::<Vec<_>>(),
            ["{}", "{\"a\":1}", "[]"]
        );
    }

    proptest! {
            /// However the network cuts a stream, and characters in it, the frames are the same.
            #[test]
            fn chunks_do_not_matter(
                data in prop::collection::vec("[^\r\n]{1,30}", 1..6),
                sizes in prop::collection::vec(1_usize..9, 1..5),
            ) {
    let text = format!("data: {}\n\n", data.join("\n\ndata: "));
                let found = cut(Framing::Events, text.as_bytes(), &sizes);
                let found: Vec<String> = found.into_iter().map(|frame| frame.data).collect();
                prop_assert_eq!(found, data);
            }
        }
}
