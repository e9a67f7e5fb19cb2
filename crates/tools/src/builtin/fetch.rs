//! `builtin/fetch-url`: reads a web page, after the user approved it or a rule that names the tool allows the URL.
//!
//! Only public `https` addresses are read; `cleveragents_outbound` checks each of them. A redirect to another host is
//! reported instead of followed, because rules and approvals name a URL.

mod html;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_outbound::{AddressError, resolve, root_cause};
use cleveragents_process::Cancel;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Description, PrepareResult, builtin, ready};
use crate::capability::Capability;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Failure, FailureKind, PrepareContext, PrepareError, Subject, Tool};

/// Full name of the tool.
pub const FETCH_TOOL: &str = "builtin/fetch-url";

/// Time limit of a page, with its redirects.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a page, in bytes.
const MAX_BYTES: usize = 2 << 20;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// Interval at which a request checks whether it was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchArguments {
    /// A public https URL.
    #[schemars(length(min = 1))]
    url: String,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "fetch-url",
        about: "Reads a public web page over https, after the user approved it. HTML is converted to text.",
        category: Category::External,
        workspace_need: WorkspaceNeed::None,
        capability: Capability {
            side_effects: vec!["network".to_owned()],
            needs_approval: true,
            ..Capability::reads()
        },
        timeout: TIMEOUT + Duration::from_secs(5),
    };
    builtin::<FetchArguments>(description, prepare)
}

fn prepare(arguments: FetchArguments, _context: PrepareContext<'_>) -> PrepareResult<'_> {
    let url = cleveragents_outbound::check(arguments.url.trim(), false)
        .map_err(|error| PrepareError::Arguments(format!("the URL is refused: {error}")))?;
    let url = url.to_string();
    let subjects = vec![Subject::Text(url.clone())];
    Ok(ready(subjects, move |call| {
        let page = fetch(&url, TIMEOUT.min(call.time_left()), call.cancel(), false)?;
        call.output.text(&page.text);
        Ok(Answer::written().with_note(page.note))
    }))
}

/// A page as text.
#[derive(Debug)]
struct Page {
    text: String,
    note: Option<String>,
}

/// Fetches a page on a thread of its own, because the calling thread may belong to an event loop.
fn fetch(
    url: &str,
    time: Duration,
    cancel: &Cancel,
    allows_private: bool,
) -> Result<Page, Failure> {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("the request cannot be sent: {error}")))?;
        runtime.block_on(async {
            let fetched = tokio::time::timeout(time, fetch_page(url, time, allows_private));
            tokio::select! {
                page = fetched => page.unwrap_or_else(|_| {
                    let message = format!("stopped at the time limit of {} seconds", time.as_secs());
                    Err(Failure::with_kind(FailureKind::Timeout, message))
                }),
                () = cancelled(cancel) => {
                    Err(Failure::with_kind(FailureKind::Cancelled, "the call was cancelled"))
                }
            }
        })
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

async fn cancelled(cancel: &Cancel) {
    while !cancel.is_cancelled() {
        tokio::time::sleep(CANCEL_INTERVAL).await;
    }
}

async fn fetch_page(url: &str, time: Duration, allows_private: bool) -> Result<Page, Failure> {
    let deadline = Instant::now() + time;
    let refused =
        |url: &str, error: AddressError| Failure::new(format!("`{url}` is refused: {error}"));
    let mut url = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        // The name is resolved and its addresses are checked again for every request.
        let target = resolve(&url, allows_private)
            .await
            .map_err(|error| refused(&url, error))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let client = target.client(left).map_err(Failure::new)?;
        let failed =
            |error: &reqwest::Error| Failure::new(format!("`{url}`: {}", root_cause(error)));
        let response = client
            .get(target.url().clone())
            .send()
            .await
            .map_err(|error| failed(&error))?;
        let status = response.status();
        if status.is_redirection() {
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| target.url().join(location).ok());
            let Some(next) = next else {
                return Err(Failure::new(format!("`{url}` redirects to no valid URL")));
            };
            if next.host_str() != target.url().host_str() {
                return Err(Failure::new(format!(
                    "`{url}` redirects to `{next}`. Fetch that URL if it is needed"
                )));
            }
            url = next.to_string();
            continue;
        }
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or("text/plain").to_ascii_lowercase();
        if !status.is_success() {
            return Err(Failure::new(format!(
                "`{url}` answered with status {status}"
            )));
        }
        if !is_text(&content_type) {
            return Err(Failure::new(format!(
                "`{url}` is not text but `{content_type}`"
            )));
        }
        let (bytes, is_cut) = body(response).await.map_err(|error| failed(&error))?;
        let text = String::from_utf8_lossy(&bytes);
        let text = if content_type.contains("html") {
            html::to_text(&text)
        } else {
            text.into_owned()
        };
        let note = is_cut
            .then(|| format!("The page is longer than {MAX_BYTES} bytes; the rest was not read."));
        return Ok(Page { text, note });
    }
    Err(Failure::new(format!("more than {MAX_REDIRECTS} redirects")))
}

fn is_text(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/")
        || ["json", "xml", "javascript", "yaml", "toml"]
            .iter()
            .any(|ending| kind.ends_with(ending))
}

/// Reads a body up to [`MAX_BYTES`], and returns whether it is longer.
async fn body(mut response: reqwest::Response) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = MAX_BYTES - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::time::Duration;

    use cleveragents_process::Cancel;

    use super::{MAX_BYTES, Page, fetch, prepare};
    use crate::tool::{Failure, PrepareContext};

    /// Serves one response per path, and returns the address.
    fn serve(responses: Vec<(&'static str, Vec<u8>)>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a server");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else {
                    return;
                };
                let mut lines = BufReader::new(connection.try_clone().expect("a copy"));
                let mut first = String::new();
                lines.read_line(&mut first).expect("a request");
                let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|length| length > 2) {
                    line.clear();
                }
                let response = responses.iter().find(|(known, _)| *known == path);
                if let Some((_, response)) = response {
                    // The client closes the connection when a page is too long.
                    let _unless_closed = connection.write_all(response);
                }
            }
        });
        format!("http://{address}")
    }

    fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    }

    fn get(url: &str) -> Result<Page, Failure> {
        fetch(url, Duration::from_secs(20), &Cancel::new(), true)
    }

    #[test]
    fn pages_are_read_as_text_within_their_limits() {
        let html = b"<title>T</title><script>evil()</script><p>a &amp; b</p><p>c</p>";
        let html_type = "content-type: text/html; charset=utf-8\r\n";
        let server = serve(vec![
            ("/page", response("200 OK", html_type, html)),
            ("/moved", response("301 Moved", "location: /page\r\n", b"")),
            (
                "/away",
                response("302 Found", "location: https://example.org/x\r\n", b""),
            ),
            (
                "/image",
                response("200 OK", "content-type: image/png\r\n", b"x"),
            ),
            (
                "/missing",
                response("404 Not Found", "content-type: text/plain\r\n", b"no"),
            ),
            (
                "/long",
                response(
                    "200 OK",
                    "content-type: text/plain\r\n",
                    &vec![b'a'; MAX_BYTES + 10],
                ),
            ),
            ("/loop", response("302 Found", "location: /loop\r\n", b"")),
        ]);
        for path in ["page", "moved"] {
            let page = get(&format!("{server}/{path}")).expect("a page");
            assert_eq!(page.text, "T\na & b\nc\n", "{path}");
        }
        let long = get(&format!("{server}/long")).expect("a page");
        assert_eq!(long.text.len(), MAX_BYTES);
        assert!(long.note.is_some());
        for (path, reason) in [
            ("away", "redirects to `https://example.org/x`"),
            ("image", "image/png"),
            ("missing", "404"),
            ("loop", "redirects"),
        ] {
            let failure = get(&format!("{server}/{path}")).expect_err(path);
            assert!(failure.message.contains(reason), "{}", failure.message);
        }
    }

    #[test]
    fn private_addresses_are_refused() {
        let server = serve(vec![("/", response("200 OK", "", b"secret"))]);
        let refused = fetch(&server, Duration::from_secs(20), &Cancel::new(), false);
        assert!(refused.is_err());
        for url in [
            server.as_str(),
            "https://127.0.0.1/",
            "https://localhost:8080/",
            "https://[::1]/",
            "https://10.0.0.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://user:password@example.org/",
            "file:///etc/passwd",
            "http://example.org/",
        ] {
            let arguments = super::FetchArguments {
                url: url.to_owned(),
            };
            let context = PrepareContext { workspace: None };
            assert!(prepare(arguments, context).is_err(), "{url}");
        }
    }

    #[test]
    fn a_page_that_does_not_come_ends_at_the_time_limit_or_when_cancelled() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a server");
        let url = format!("http://{}/", listener.local_addr().expect("its address"));
        let late = fetch(&url, Duration::from_millis(200), &Cancel::new(), true);
        assert!(late.expect_err("late").message.contains("time limit"));
        let cancel = Cancel::new();
        cancel.cancel();
        let cancelled = fetch(&url, Duration::from_mins(1), &cancel, true);
        assert!(
            cancelled
                .expect_err("cancelled")
                .message
                .contains("cancelled")
        );
    }
}
