//! Splits a byte stream into frames: server-sent events, or JSON lines.

use bytes::Bytes;
use cleveragents_outbound::sse::EventDecoder;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    pub(crate) data: String,
}

/// Framing of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value per line.
    Lines,
}

/// Collects bytes and returns frames. The size of a frame is not limited here, because the reader limits the size of
/// the whole response.
pub(crate) enum Frames {
    Events(EventDecoder),
    Lines(LineDecoder),
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Events => Self::Events(EventDecoder::new(usize::MAX)),
            Framing::Lines => Self::Lines(LineDecoder::default()),
        }
    }

    /// Adds received bytes.
    pub(crate) fn add(&mut self, bytes: Bytes) {
        match self {
            Self::Events(decoder) => decoder.add(bytes),
            Self::Lines(decoder) => decoder.add(&bytes),
        }
    }

    /// Returns the next complete frame.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        match self {
            // No event exceeds `usize::MAX`, so the size error cannot occur.
            Self::Events(decoder) => decoder
                .next_event()?
                .ok()
                .map(|event| Frame { data: event.data }),
            Self::Lines(decoder) => decoder.next(),
        }
    }

    /// Returns the remaining frame at the end of the stream: the last frame may lack its trailing blank line.
    pub(crate) fn end(&mut self) -> Option<Frame> {
        match self {
            Self::Events(decoder) => decoder
                .finish()?
                .ok()
                .map(|event| Frame { data: event.data }),
            Self::Lines(decoder) => {
                decoder.add(b"\n");
                decoder.next()
            }
        }
    }
}

/// Splits bytes into lines. Only complete lines are decoded, so a character that is split between two chunks stays
/// intact.
#[derive(Default)]
pub(crate) struct LineDecoder {
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that were already returned.
    returned: usize,
    /// Number of bytes of the buffer that were already searched for a line end.
    searched: usize,
}

impl LineDecoder {
    fn add(&mut self, bytes: &[u8]) {
        if self.returned > 0 {
            self.buffer.drain(..self.returned);
            self.searched -= self.returned;
            self.returned = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next line that is not blank.
    fn next(&mut self) -> Option<Frame> {
        loop {
            let end = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| end + self.searched) else {
                self.searched = self.buffer.len();
                return None;
            };
            let line = String::from_utf8_lossy(&self.buffer[self.returned..end]);
            let line = line.strip_suffix('\r').unwrap_or(&line);
            let data = (!line.trim().is_empty()).then(|| line.to_owned());
            self.returned = end + 1;
            self.searched = end + 1;
            if let Some(data) = data {
                return Some(Frame { data });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Frames, Framing};
    use bytes::Bytes;
    use proptest::prelude::*;

    fn decode(framing: Framing, text: &[u8], sizes: &[usize]) -> Vec<Frame> {
        let mut frames = Frames::new(framing);
        let mut decoded = Vec::new();
        let mut remaining = text;
        let mut sizes = sizes.iter().cycle();
        while !remaining.is_empty() {
            let size = sizes
                .next()
                .map_or(1, |size| *size)
                .clamp(1, remaining.len());
            frames.add(Bytes::copy_from_slice(&remaining[..size]));
            remaining = &remaining[size..];
            decoded.extend(std::iter::from_fn(|| frames.next()));
        }
        decoded.extend(frames.end());
        decoded
    }

    #[test]
    fn events_lines_and_comments_are_distinguished() {
        let text =
            ": hello\r\nevent: a\r\ndata: {\"x\":\r\ndata: 1}\r\n\r\nid: 7\n\ndata:é\n\ndata: rest";
        let found = decode(Framing::Events, text.as_bytes(), &[1000]);
        let data: Vec<_> = found.iter().map(|frame| frame.data.as_str()).collect();
        assert_eq!(data, ["{\"x\":\n1}", "é", "rest"]);
        let lines = decode(Framing::Lines, b"{}\n\n{\"a\":1}\r\n[]", &[3]);
        assert_eq!(
            lines
                .iter()
                .map(|line| line.data.as_str())
                .collect::<Vec<_>>(),
            ["{}", "{\"a\":1}", "[]"]
        );
    }

    proptest! {
            /// The frames are the same for every split of a stream into chunks, even inside characters.
            #[test]
            fn frames_do_not_depend_on_chunks(
                data in prop::collection::vec("[^\r\n]{1,30}", 1..6),
                sizes in prop::collection::vec(1_usize..9, 1..5),
            ) {
    let text = format!("data: {}\n\n", data.join("\n\ndata: "));
                let found = decode(Framing::Events, text.as_bytes(), &sizes);
                let found: Vec<String> = found.into_iter().map(|frame| frame.data).collect();
                prop_assert_eq!(found, data);
            }
        }
}
