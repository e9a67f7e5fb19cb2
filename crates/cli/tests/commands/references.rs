//! References to sessions.

use super::{agents, with_weekly};

#[test]
fn a_session_is_found_by_id_prefix_and_name() {
    let agents = with_weekly();
    let id = agents.data(&["session", "list"])["sessions"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let lower = id.to_lowercase();
    for reference in [id.as_str(), &lower, &id[..6], &id[..8], &id[..25], "weekly"] {
        let shown = agents.data(&["session", "show", reference]);
        assert_eq!(shown["session_summary"]["id"], id.as_str(), "{reference}");
    }
}

/// The prefixes in a list are long enough to use as references.
#[test]
fn ids_in_a_list_can_be_used_as_references() {
    let agents = agents();
    for index in 0..12 {
        agents.data(&["session", "create", "--name", &format!("s{index}")]);
    }
    let listed = agents.run(&["--format", "plain", "session", "list"]).out;
    let rows: Vec<(&str, &str)> = listed
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (id, name) = (words.next()?, words.next()?);
            (id.starts_with("01") && name.starts_with('s')).then_some((id, name))
        })
        .collect();
    assert_eq!(rows.len(), 12, "{listed}");
    for (prefix, name) in rows {
        assert!(prefix.len() >= 8, "{prefix}");
        let shown = agents.data(&["session", "show", prefix]);
        assert_eq!(shown["session_summary"]["name"], name);
    }
}

#[test]
fn sessions_that_share_a_name_are_found_by_id() {
    let agents = agents();
    for _ in 0..2 {
        agents.data(&["session", "create", "--name", "same"]);
    }
    assert_eq!(agents.run(&["session", "show", "same"]).code, Some(2));
    let sessions = agents.data(&["session", "list"])["sessions"].clone();
    for session in sessions.as_array().expect("a list") {
        agents.data(&["session", "show", session["id"].as_str().expect("an id")]);
    }
}

#[test]
fn a_name_may_look_like_anything() {
    let agents = agents();
    for name in [
        "-dash",
        "ünïcödé 会議",
        "with spaces",
        "123456",
        "01ARZ3",
        "quote'\"s",
        "%_*",
    ] {
        let created = agents.data(&["session", "create", &format!("--name={name}")]);
        let shown = agents.data(&["session", "show", "--", name]);
        assert_eq!(
            shown["session_summary"]["id"], created["session"]["id"],
            "{name}"
        );
        assert_eq!(shown["session_summary"]["name"], name);
    }
}
