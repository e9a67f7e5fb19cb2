//! Exports and imports.

use cleveragents_testkit::{Agents, Dice, proof_size};
use serde_json::Value;

use super::{agents_with_data, contents, refuse};

fn export(agents: &Agents) -> Vec<u8> {
    let answer = agents.run(&["session", "export", "one"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.out.into_bytes()
}

fn refuse_import(agents: &Agents, document: &[u8], code: &str) -> Value {
    std::fs::write(agents.cwd().join("in.json"), document).expect("a file");
    let from_input = refuse(agents, &["session", "import", "--input", "-"])
        .reading(document)
        .with(1, code);
    let from_file = refuse(agents, &["session", "import", "--input", "in.json"]).with(1, code);
    assert_eq!(from_file, from_input);
    from_file
}

/// Report 7345: an import refuses any single changed byte and accepts the unchanged export.
#[test]
fn defect_7345_an_import_with_one_byte_changed_is_refused() {
    let agents = agents_with_data();
    let document = export(&agents);
    let before = contents(&agents);
    let mut dice = Dice::default();
    let path = agents.cwd().join("in.json");
    for _ in 0..proof_size(60, document.len()) {
        let offset = usize::try_from(dice.roll(document.len() as u64)).expect("an index");
        let mut altered = document.clone();
        altered[offset] ^= 1 << dice.roll(7);
        std::fs::write(&path, &altered).expect("a file");
        let answer = agents.run(&[
            "--format", "json", "session", "import", "--input", "in.json",
        ]);
        assert_eq!(
            answer.code,
            Some(1),
            "byte {offset} was changed: {answer:?}"
        );
        let code = answer.json()["data"]["error"]["code"].clone();
        let known = ["CA-0309", "CA-0310", "CA-0311"];
        assert!(
            known.iter().any(|known| code == *known),
            "byte {offset}: {answer:?}"
        );
    }
    // A changed byte in a message text is refused in every output format.
    let text = String::from_utf8(document.clone()).expect("text");
    let altered = text.replace("second", "sEcond");
    assert_ne!(altered, text);
    let error = refuse_import(&agents, altered.as_bytes(), "CA-0309");
    assert_ne!(error["details"]["expected"], error["details"]["actual"]);
    assert_eq!(contents(&agents), before);
    // The unchanged file is accepted.
    let answer = agents.run_with(&["session", "import", "--input", "-"], &document);
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

#[test]
fn an_import_of_a_newer_schema_is_refused() {
    let agents = agents_with_data();
    let text = String::from_utf8(export(&agents)).expect("text");
    let before = contents(&agents);
    for newer in ["\"2.0\"", "\"1.1\"", "\"99\"", "2", "1.5", "99"] {
        let changed = text.replacen(
            "\"schema_version\": \"1.0\"",
            &format!("\"schema_version\": {newer}"),
            1,
        );
        assert_ne!(changed, text);
        let error = refuse_import(&agents, changed.as_bytes(), "CA-0310");
        assert_eq!(error["details"]["known"], "1.0");
        assert_eq!(error["details"]["found"], newer.trim_matches('"'));
    }
    for wrong in ["\"one\"", "null", "{}", "-1", "\"\"", "\"0.9\""] {
        let changed = text.replacen(
            "\"schema_version\": \"1.0\"",
            &format!("\"schema_version\": {wrong}"),
            1,
        );
        refuse_import(&agents, changed.as_bytes(), "CA-0311");
    }
    assert_eq!(contents(&agents), before);
}

#[test]
fn a_truncated_import_is_refused() {
    let agents = agents_with_data();
    let document = export(&agents);
    let before = contents(&agents);
    let ends = [
        0,
        1,
        20,
        document.len() / 2,
        document.len() - 60,
        document.len() - 2,
    ];
    for end in ends {
        refuse_import(&agents, &document[..end], "CA-0311");
    }
    // A missing final line feed is also refused.
    refuse_import(&agents, &document[..document.len() - 1], "CA-0311");
    let longer = [document.as_slice(), b"\n"].concat();
    refuse_import(&agents, &longer, "CA-0311");
    let repeated = [document.as_slice(), document.as_slice()].concat();
    refuse_import(&agents, &repeated, "CA-0311");
    assert_eq!(contents(&agents), before);
}

#[test]
fn an_import_of_another_document_is_refused() {
    let agents = agents_with_data();
    let before = contents(&agents);
    for document in [
        b"".as_slice(),
        b"not json",
        b"[]",
        b"{}",
        b"null",
        b"{\"schema_version\":\"1.0\"}",
        b"\xff\xfe\x00",
        b"# Session one\n",
    ] {
        refuse_import(&agents, document, "CA-0311");
    }
    refuse(&agents, &["session", "import", "--input", "missing.json"]).with(1, "CA-0105");
    refuse(&agents, &["session", "import", "--input", "."]).with(1, "CA-0105");
    assert_eq!(contents(&agents), before);
}

/// `--unverified` skips the checksum but not the other checks.
#[test]
fn an_unverified_import_still_obeys_the_rules() {
    let agents = agents_with_data();
    let text = String::from_utf8(export(&agents)).expect("text");
    let before = contents(&agents);
    for (from, to) in [
        ("\"role\":\"user\"", "\"role\":\"robot\""),
        ("\"content\":\"second\"", "\"content\":\"\""),
        ("\"sequence\":1,", "\"sequence\":7,"),
        ("\"message_count\": 3", "\"message_count\": 4"),
        ("\"namespace\"", "\"nameplace\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        std::fs::write(agents.cwd().join("in.json"), changed).expect("a file");
        let arguments = [
            "--format",
            "json",
            "session",
            "import",
            "--unverified",
            "--input",
            "in.json",
        ];
        let answer = agents.run(&arguments);
        assert_ne!(answer.code, Some(0), "{to}: {answer:?}");
        let hint = answer.json()["data"]["error"]["hint"].clone();
        assert!(hint.is_string(), "{to}: {answer:?}");
    }
    assert_eq!(contents(&agents), before);
}

#[test]
fn an_export_overwrites_a_file_only_with_force() {
    let agents = agents_with_data();
    let file = agents.cwd().join("out.json");
    std::fs::write(&file, "precious").expect("a file");
    let arguments = ["session", "export", "one", "--output", "out.json"];
    refuse(&agents, &arguments).with(4, "CA-0108");
    refuse(&agents, &[&arguments[..], &["--as", "markdown"]].concat()).with(4, "CA-0108");
    assert_eq!(std::fs::read(&file).expect("a file"), b"precious");
    agents.data(&[&arguments[..], &["--force"]].concat());
    assert_eq!(std::fs::read(&file).expect("a file"), export(&agents));

    refuse(
        &agents,
        &[
            "session",
            "export",
            "one",
            "--output",
            "no/such/folder/x.json",
        ],
    )
    .with(1, "CA-0105");
    let left: Vec<_> = std::fs::read_dir(agents.cwd())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["out.json"], "no other file is left behind");
}
