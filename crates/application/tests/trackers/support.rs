//! Trackers and attempts for these tests.

use std::time::{Duration, Instant};

use cleveragents_application::{
    ForgejoTracker, GitHubTracker, IdempotencyKey, NewIssue, Tracker, WriteAttempt,
};
use cleveragents_models::Secret;
use cleveragents_testkit::{ForgeApi, TrackerServer, TrackerToken};

/// The token of the account `bot`.
pub(crate) const TOKEN: &str = "tracker-token-0123456789abcdef";

/// Both services.
pub(crate) const APIS: [ForgeApi; 2] = [ForgeApi::Forgejo, ForgeApi::GitHub];

pub(crate) fn server(api: ForgeApi) -> TrackerServer {
    let server = TrackerServer::start(api, &[TrackerToken::new(TOKEN, "bot")]);
    server.add_labels(&[
        "Type/Bug",
        "Type/Feature",
        "State/Verified",
        "State/In Progress",
    ]);
    server
}

pub(crate) fn tracker(api: ForgeApi, server: &TrackerServer) -> Box<dyn Tracker> {
    tracker_with(api, server, TOKEN, Duration::from_secs(10))
}

pub(crate) fn tracker_with(
    api: ForgeApi,
    server: &TrackerServer,
    token: &str,
    timeout: Duration,
) -> Box<dyn Tracker> {
    let (address, token) = (server.repository_url(), Secret::new(token));
    match api {
        ForgeApi::Forgejo => {
            let tracker = ForgejoTracker::new(&address, token).expect("an address");
            Box::new(tracker.with_timeout(timeout))
        }
        ForgeApi::GitHub => {
            let base = server.url();
            let variable = move |name: &str| (name == "GITHUB_API_URL").then(|| base.clone());
            let tracker = GitHubTracker::new(&address, token, &variable).expect("an address");
            Box::new(tracker.with_timeout(timeout))
        }
    }
}

pub(crate) fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a key")
}

/// An attempt with enough time.
pub(crate) fn attempt(key: &IdempotencyKey, is_repeated: bool) -> WriteAttempt<'_> {
    WriteAttempt {
        key,
        is_repeated,
        until: Instant::now() + Duration::from_mins(5),
    }
}

pub(crate) fn new_issue(labels: &[&str]) -> NewIssue {
    NewIssue {
        title: "Two writers lose an update".to_owned(),
        body: "`append` reads before it locks.".to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        milestone: None,
    }
}
