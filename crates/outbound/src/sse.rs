//! Server-sent events, decoded as they arrive.
//!
//! The crate `sse_core` decodes the stream. This module adds a buffer for the current chunk, and the last event of a
//! stream that ends without a blank line, as sent by some servers.

use std::num::NonZeroUsize;

use bytes::{Buf as _, Bytes};
use sse_core::{SseDecoder, SseEvent};

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSentEvent {
    /// Event name; `message` when the event has none.
    pub name: String,
    /// Event data, never empty.
    pub data: String,
}

/// An event exceeds the size limit. It is skipped; later events can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is too large")]
pub struct EventTooLarge;

/// Decodes events from the chunks of a response.
pub struct EventDecoder {
    decoder: SseDecoder,
    chunk: Bytes,
}

impl EventDecoder {
    /// Creates a decoder for events with at most `max_event_bytes` of data.
    pub fn new(max_event_bytes: usize) -> Self {
        let limit = NonZeroUsize::new(max_event_bytes).unwrap_or(NonZeroUsize::MIN);
        Self {
            decoder: SseDecoder::with_limit(limit),
            chunk: Bytes::new(),
        }
    }

    /// Adds the next chunk. Read all events of the previous chunk first, because its unread rest is copied.
    pub fn add(&mut self, chunk: Bytes) {
        self.chunk = if self.chunk.has_remaining() {
            let mut both = Vec::with_capacity(self.chunk.len() + chunk.len());
            both.extend_from_slice(&self.chunk);
            both.extend_from_slice(&chunk);
            both.into()
        } else {
            chunk
        };
    }

    /// Returns the next complete event; `None` when another chunk is needed. Events with empty data are skipped: some
    /// servers send them to keep the connection alive.
    pub fn next_event(&mut self) -> Option<Result<ServerSentEvent, EventTooLarge>> {
        loop {
            match self.decoder.next(&mut self.chunk)? {
                Ok(SseEvent::Message(message)) if message.data.is_empty() => {}
                Ok(SseEvent::Message(message)) => {
                    return Some(Ok(ServerSentEvent {
                        name: message.event.into_owned(),
                        data: message.data,
                    }));
                }
                Ok(SseEvent::Retry(_)) => {}
                Err(_) => return Some(Err(EventTooLarge)),
            }
        }
    }

    /// Returns the last event, when the stream ended without the blank line after it.
    pub fn finish(&mut self) -> Option<Result<ServerSentEvent, EventTooLarge>> {
        self.add(Bytes::from_static(b"\n\n"));
        self.next_event()
    }
}

#[cfg(test)]
mod tests {
    use super::{EventDecoder, EventTooLarge};
    use bytes::Bytes;

    fn decode(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = EventDecoder::new(1_000);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.add(Bytes::copy_from_slice(chunk));
            events.extend(std::iter::from_fn(|| decoder.next_event()));
        }
        events.extend(decoder.finish());
        let event = |event: Result<super::ServerSentEvent, EventTooLarge>| {
            let event = event.expect("small");
            (event.name, event.data)
        };
        events.into_iter().map(event).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, data): &(&str, &str)| ((*name).to_owned(), (*data).to_owned());
        expected.iter().map(owned).collect()
    }

    #[test]
    fn events_are_decoded_with_every_line_ending() {
        let text = "\u{feff}: hello\nevent: a\ndata: {\"x\":\ndata: 1}\n\nid: 7\nretry: 5\n\ndata\n\ndata:\n\nodd: 1\ndata:é\n\ndata: rest";
        let expected = pairs(&[("a", "{\"x\":\n1}"), ("message", "é"), ("message", "rest")]);
        for end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', end);
            let bytes = text.as_bytes();
            assert_eq!(decode(&[bytes]), expected, "{end:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decode(&single), expected, "{end:?}");
        }
    }

    #[test]
    fn a_chunk_can_be_added_before_the_previous_one_is_read() {
        let mut decoder = EventDecoder::new(1_000);
        decoder.add(Bytes::from_static(b"data: a\n\ndata:"));
        decoder.add(Bytes::from_static(b" b\n\n"));
        let data = std::iter::from_fn(|| decoder.next_event());
        let data: Vec<String> = data.map(|event| event.expect("small").data).collect();
        assert_eq!(data, ["a", "b"]);
    }

    #[test]
    fn an_event_over_the_limit_is_skipped() {
        let mut decoder = EventDecoder::new(8);
        decoder.add(Bytes::from_static(b"data: 123456789\n\ndata: 12345678\n\n"));
        assert_eq!(decoder.next_event(), Some(Err(EventTooLarge)));
        let next = decoder.next_event().expect("an event").expect("small");
        assert_eq!(next.data, "12345678");
    }
}
