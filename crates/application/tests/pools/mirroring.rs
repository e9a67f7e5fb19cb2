//! Items that come from a tracker, and attempts that are reported to it, by the loop. The trackers are shaped like Forgejo
//! and GitHub.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::{
    ForgejoTracker, GitHubTracker, PoolEvent, Tracker, Trackers, WorkItemEdit, WorkItemService,
    deliver_outbox, sync_source,
};
use cleveragents_domain::{Code, Diagnose as _, Timestamp, WorkItem, WorkItemKind, WorkItemState};
use cleveragents_models::Secret;
use cleveragents_process::Cancel;
use cleveragents_store::item_sources::{self, ItemSource};
use cleveragents_store::{Engine, attempts, work_items};
use cleveragents_testkit::{ForgeApi, TestDatabase, TrackerFault, TrackerServer, TrackerToken};

use super::support::{LIMITS, PROJECT, ScriptedRole, pool_files, register, run_until_idle};

const TOKEN: &str = "tracker-token-0123456789abcdef";

/// A project whose items are the issues of a tracker.
struct TrackedProject {
    engine: Arc<Engine>,
    database: TestDatabase,
    server: TrackerServer,
    source: ItemSource,
    trackers: Trackers,
    api: ForgeApi,
}

impl TrackedProject {
    fn new(api: ForgeApi, database: TestDatabase) -> Self {
        let engine = database.open();
        let server = TrackerServer::start(api, &[TrackerToken::new(TOKEN, "bot")]);
        for state in [
            "Unverified",
            "Verified",
            "Captured",
            "In Progress",
            "In Review",
            "Approved",
            "Completed",
            "Needs Feedback",
        ] {
            server.add_labels(&[&format!("State/{state}")]);
        }
        server.add_labels(&["Type/Bug", "Type/Post-mortem", "Priority/Medium"]);
        let is_github = api == ForgeApi::GitHub;
        let source = ItemSource {
            name: "forge".to_owned(),
            project: PROJECT.to_owned(),
            kind: if is_github { "github" } else { "forgejo" }.to_owned(),
            address: server.repository_url(),
            credential: Some("TRACKER_TOKEN".to_owned()),
            labels: "{}".to_owned(),
            mirrors: true,
            created_at: Timestamp::now(),
            synced_at: None,
            total: None,
            last_error: None,
        };
        let stored = source.clone();
        let is_added = engine.write(move |unit| item_sources::insert(unit, &stored));
        assert!(is_added.expect("stored"));
        let base = server.url();
        let variable = move |name: &str| match name {
            "TRACKER_TOKEN" => Some(TOKEN.to_owned()),
            "GITHUB_API_URL" => Some(base.clone()),
            _ => None,
        };
        Self {
            trackers: Trackers::new(Arc::new(variable)),
            engine,
            database,
            server,
            source,
            api,
        }
    }

    fn tracker(&self) -> Box<dyn Tracker> {
        let (address, token) = (self.server.repository_url(), Secret::new(TOKEN));
        match self.api {
            ForgeApi::Forgejo => {
                Box::new(ForgejoTracker::new(&address, token).expect("an address"))
            }
            ForgeApi::GitHub => {
                let base = self.server.url();
                let variable = move |name: &str| (name == "GITHUB_API_URL").then(|| base.clone());
                Box::new(GitHubTracker::new(&address, token, &variable).expect("an address"))
            }
        }
    }

    fn sync(&self) -> Result<u64, Code> {
        sync_source(&self.engine, &self.source, &*self.tracker())
            .map(|report| report.created)
            .map_err(|error| error.code())
    }

    fn items(&self) -> Vec<WorkItem> {
        let items = self
            .engine
            .read(|reader| work_items::of_source(reader, "forge"));
        items.expect("read")
    }

    /// Delivers until nothing waits, as the loop does over time.
    fn deliver_all(&self) {
        for _ in 0..80 {
            deliver_outbox(&self.engine, &self.trackers, &Cancel::new()).expect("stored");
            self.database
                .execute_sql("UPDATE tracker_outbox SET next_at = 1 WHERE state = 'waiting'");
        }
        let waiting = self
            .database
            .ask("SELECT action, last_error FROM tracker_outbox WHERE state <> 'delivered'");
        assert!(waiting.is_empty(), "{waiting:?}");
    }

    fn attempts_of(&self, item: &WorkItem) -> usize {
        let past = self
            .engine
            .read(|reader| attempts::of_item(reader, item.id));
        past.expect("read").len()
    }
}

fn each() -> Vec<TrackedProject> {
    let mut all = vec![TrackedProject::new(
        ForgeApi::GitHub,
        TestDatabase::sqlite(),
    )];
    let databases = TestDatabase::each().into_iter();
    all.extend(databases.map(|database| TrackedProject::new(ForgeApi::Forgejo, database)));
    all
}

#[test]
fn issues_are_fixed_and_every_attempt_and_state_goes_back_once() {
    for tracked in each() {
        register(&tracked.engine, &pool_files(LIMITS));
        for number in 0..4 {
            tracked
                .server
                .add_issue(&format!("bug {number}"), "It fails.", &["Type/Bug"]);
        }
        assert_eq!(tracked.sync(), Ok(4));
        let runner = ScriptedRole::new(4, Duration::ZERO);
        // Answers of the tracker are lost, and requests fail after their effect, while attempts end.
        let delivering = |event: &PoolEvent<'_>| {
            if matches!(event, PoolEvent::Settled { .. }) {
                for fault in [TrackerFault::LostResponse, TrackerFault::ErrorAfterEffect] {
                    tracked.server.inject("POST", "/comments", fault);
                }
                let delivered = deliver_outbox(&tracked.engine, &tracked.trackers, &Cancel::new());
                delivered.expect("stored");
            }
        };
        run_until_idle(&tracked.engine, &runner, 4, &delivering);
        tracked.deliver_all();
        let items = tracked.items();
        assert!(
            items
                .iter()
                .any(|item| item.state == WorkItemState::Completed)
        );
        let bugs = items.iter().filter(|item| item.kind == WorkItemKind::Bug);
        let mut checked = 0;
        for item in bugs {
            checked += 1;
            let external = item.external.as_ref().expect("an issue");
            let number: u64 = external.id.parse().expect("a number");
            let comments = tracked.server.comments(number);
            assert_eq!(
                comments.len(),
                tracked.attempts_of(item),
                "one comment per attempt on {}: {comments:#?}",
                tracked.database.kind
            );
            let mut distinct = comments.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), comments.len());
            assert!(
                comments.iter().all(|comment| !comment.contains(TOKEN)),
                "no credential in a comment"
            );
            let issue = tracked.tracker().get(&number.into()).expect("read");
            let issue = issue.expect("the issue");
            assert_eq!(issue.is_closed, item.state == WorkItemState::Completed);
            let state = if item.state == WorkItemState::Completed {
                "State/Completed"
            } else {
                "State/Needs Feedback"
            };
            let states: Vec<&String> = issue
                .labels
                .iter()
                .filter(|label| label.starts_with("State/"))
                .collect();
            assert_eq!(states, [state], "{item:?}");
        }
        assert_eq!(checked, 4);
        // Items stay as they are when their own changes are read again.
        let before: Vec<_> = tracked.items().iter().map(|item| item.state).collect();
        assert_eq!(tracked.sync(), Ok(0));
        let after: Vec<_> = tracked.items().iter().map(|item| item.state).collect();
        assert_eq!(after, before);
        let post_mortems = tracked
            .database
            .count("SELECT count(*) FROM work_items WHERE kind = 'post_mortem'");
        assert_eq!(tracked.server.issues().len() as u64, 4 + post_mortems);
    }
}

#[test]
fn a_tracker_that_does_not_answer_stops_no_work() {
    let tracked = TrackedProject::new(ForgeApi::Forgejo, TestDatabase::sqlite());
    register(&tracked.engine, &pool_files(LIMITS));
    tracked.server.add_issue("bug", "", &["Type/Bug"]);
    assert_eq!(tracked.sync(), Ok(1));
    for method in ["POST", "PATCH", "PUT", "DELETE"] {
        for _ in 0..200 {
            tracked
                .server
                .inject(method, "", TrackerFault::ErrorBeforeEffect);
        }
    }
    let runner = ScriptedRole::new(0, Duration::ZERO);
    let delivering = |event: &PoolEvent<'_>| {
        if matches!(event, PoolEvent::Settled { .. }) {
            let delivered = deliver_outbox(&tracked.engine, &tracked.trackers, &Cancel::new());
            delivered.expect("stored");
        }
    };
    run_until_idle(&tracked.engine, &runner, 4, &delivering);
    assert_eq!(tracked.items()[0].state, WorkItemState::Completed);
    assert_eq!(tracked.server.comments(1).len(), 0, "nothing was written");
    let waiting = tracked
        .database
        .count("SELECT count(*) FROM tracker_outbox WHERE state = 'waiting'");
    assert!(waiting >= 5, "the writes wait: {waiting}");
}

#[test]
fn a_truncated_listing_changes_no_item_and_is_repeated() {
    for api in [ForgeApi::Forgejo, ForgeApi::GitHub] {
        let tracked = TrackedProject::new(api, TestDatabase::sqlite());
        for number in 0..130 {
            tracked
                .server
                .add_issue(&format!("bug {number}"), "", &["Type/Bug"]);
        }
        for _ in 0..3 {
            tracked
                .server
                .inject("GET", "page=2", TrackerFault::TruncatedPage);
        }
        assert_eq!(tracked.sync(), Err(Code::TrackerListingIncomplete));
        assert_eq!(tracked.items().len(), 0, "half a listing is no listing");
        assert_eq!(tracked.sync(), Ok(130));
    }
}

#[test]
fn one_of_several_processes_synchronizes_a_source() {
    for database in TestDatabase::each() {
        let tracked = TrackedProject::new(ForgeApi::Forgejo, database);
        for number in 0..60 {
            tracked
                .server
                .add_issue(&format!("bug {number}"), "", &["Type/Bug"]);
        }
        let outcomes = cleveragents_testkit::at_once(4, |_| tracked.sync());
        assert!(outcomes.iter().any(Result::is_ok), "{outcomes:?}");
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Ok(_) | Err(Code::LeaseHeld))),
            "{outcomes:?}"
        );
        assert_eq!(tracked.items().len(), 60);
    }
}

/// A label that a triage sets reaches the issue if the tracker has it, and survives changes at the tracker in any case.
#[test]
fn labels_of_items_survive_changes_at_the_tracker() {
    for tracked in each() {
        tracked.server.add_labels(&["web"]);
        let number = tracked.server.add_issue("bug", "", &["Type/Bug"]);
        assert_eq!(tracked.sync(), Ok(1));
        let item = tracked.items().remove(0);
        let edited = WorkItemService::new(Arc::clone(&tracked.engine)).edit(
            item.id,
            WorkItemEdit {
                add_labels: vec!["web".to_owned(), "concurrency".to_owned()],
                ..WorkItemEdit::default()
            },
        );
        edited.expect("edited");
        tracked.deliver_all();
        let issue = tracked.tracker().get(&number.into()).expect("read");
        let labels = issue.expect("the issue").labels;
        assert!(labels.contains("web"), "{labels:?}");
        assert!(!labels.contains("concurrency"), "no label is invented");
        tracked
            .server
            .edit_issue(number, |issue| issue["title"] = "bug, in detail".into());
        tracked.sync().expect("synchronized");
        let item = tracked.items().remove(0);
        assert_eq!(item.title, "bug, in detail");
        for label in ["web", "concurrency", "Type/Bug"] {
            assert!(item.labels.contains(label), "{label}: {:?}", item.labels);
        }
    }
}
