//! [`LabelMapping`]: the typed fields of work items as labels of a tracker.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::error::TrackerError;

/// The typed fields that labels express, with the words of their values.
const FIELDS: &[(&str, &[&str])] = &[
    (
        "kind",
        &[
            "bug",
            "feature",
            "task",
            "test",
            "refactor",
            "documentation",
            "epic",
            "post_mortem",
        ],
    ),
    (
        "priority",
        &["ci_blocker", "critical", "high", "medium", "low", "backlog"],
    ),
    ("moscow", &["must", "should", "could", "wont_have"]),
    (
        "points",
        &["1", "2", "3", "5", "8", "13", "21", "34", "55", "88"],
    ),
    (
        "state",
        &[
            "unverified",
            "verified",
            "captured",
            "in_progress",
            "in_review",
            "approved",
            "completed",
            "paused",
            "duplicate",
            "wont_do",
            "needs_person",
        ],
    ),
];

/// Values of typed fields, as words such as `ci_blocker`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MappedFields {
    pub kind: Option<String>,
    pub priority: Option<String>,
    pub moscow: Option<String>,
    pub points: Option<String>,
    pub state: Option<String>,
}

impl MappedFields {
    fn get(&self, field: &str) -> Option<&String> {
        match field {
            "kind" => self.kind.as_ref(),
            "priority" => self.priority.as_ref(),
            "moscow" => self.moscow.as_ref(),
            "points" => self.points.as_ref(),
            _ => self.state.as_ref(),
        }
    }

    fn set(&mut self, field: &str, value: Option<String>) {
        *match field {
            "kind" => &mut self.kind,
            "priority" => &mut self.priority,
            "moscow" => &mut self.moscow,
            "points" => &mut self.points,
            _ => &mut self.state,
        } = value;
    }
}

/// The label of each value of a typed field: `kind.bug` is `Type/Bug`. A value without a label is not mirrored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LabelMapping(BTreeMap<String, String>);

impl LabelMapping {
    /// The labels of the teams that use one scope for each field: `Type/Bug`, `Priority/High`, `State/In Progress`.
    pub fn scoped() -> Self {
        let mut labels = BTreeMap::new();
        for (field, values) in FIELDS {
            let scope = match *field {
                "kind" => "Type",
                "priority" => "Priority",
                "moscow" => "MoSCoW",
                "points" => "Points",
                _ => "State",
            };
            for value in *values {
                let label = match (*field, *value) {
                    ("kind", "test") => "Testing".to_owned(),
                    ("kind", "post_mortem") => "Post-mortem".to_owned(),
                    ("priority", "ci_blocker") => "CI Blocker".to_owned(),
                    ("state", "needs_person") => "Needs Feedback".to_owned(),
                    _ => words(value),
                };
                labels.insert(format!("{field}.{value}"), format!("{scope}/{label}"));
            }
        }
        Self(labels)
    }

    /// Sets the label of a value: `kind.bug`. An empty label keeps the value from being mirrored.
    pub fn set(&mut self, value: &str, label: &str) -> Result<(), TrackerError> {
        let known = value.split_once('.').is_some_and(|(field, value)| {
            FIELDS
                .iter()
                .any(|(known, values)| *known == field && values.contains(&value))
        });
        if !known {
            return Err(TrackerError::InvalidSource {
                reason: format!(
                    "`{value}` is no value of a field; write one such as `kind.bug` or `priority.high`"
                ),
            });
        }
        if label.is_empty() {
            self.0.remove(value);
        } else {
            self.0.insert(value.to_owned(), label.to_owned());
        }
        Ok(())
    }

    /// The typed fields that labels express. A field with several different values has none.
    pub fn fields_of(&self, labels: &BTreeSet<String>) -> MappedFields {
        let mut fields = MappedFields::default();
        for (field, values) in FIELDS {
            let mut found = values.iter().filter(|value| {
                let label = self.0.get(&format!("{field}.{value}"));
                label.is_some_and(|label| labels.contains(label))
            });
            if let (Some(value), None) = (found.next(), found.next()) {
                fields.set(field, Some((*value).to_owned()));
            }
        }
        fields
    }

    /// The labels to add and to remove so that they express these fields. Fields without a value, and values without a
    /// label, change nothing.
    pub fn changes(&self, fields: &MappedFields) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
        for (field, values) in FIELDS {
            let Some(wanted) = fields.get(field) else {
                continue;
            };
            let Some(label) = self.0.get(&format!("{field}.{wanted}")) else {
                continue;
            };
            let others = values.iter().filter(|value| *value != wanted);
            let others = others.filter_map(|value| self.0.get(&format!("{field}.{value}")));
            removed.extend(others.filter(|other| *other != label).cloned());
            added.insert(label.clone());
        }
        (added, removed)
    }
}

/// `in_progress` as `In Progress`.
fn words(value: &str) -> String {
    let words = value.split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LabelMapping, MappedFields};

    fn labels(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn labels_become_typed_fields_and_back() {
        let mapping = LabelMapping::scoped();
        let found = mapping.fields_of(&labels(&[
            "Type/Bug",
            "Priority/CI Blocker",
            "Points/8",
            "MoSCoW/Must",
            "State/In Progress",
            "area/checkout",
        ]));
        let expected = MappedFields {
            kind: Some("bug".to_owned()),
            priority: Some("ci_blocker".to_owned()),
            moscow: Some("must".to_owned()),
            points: Some("8".to_owned()),
            state: Some("in_progress".to_owned()),
        };
        assert_eq!(found, expected);
        let (added, removed) = mapping.changes(&MappedFields {
            state: Some("in_review".to_owned()),
            ..MappedFields::default()
        });
        assert_eq!(added, labels(&["State/In Review"]));
        assert!(removed.contains("State/In Progress") && !removed.contains("Type/Bug"));
    }

    #[test]
    fn contradictory_labels_express_nothing() {
        let mapping = LabelMapping::scoped();
        let found = mapping.fields_of(&labels(&["Priority/High", "Priority/Low"]));
        assert_eq!(found, MappedFields::default());
    }

    #[test]
    fn labels_of_values_can_be_chosen() {
        let mut mapping = LabelMapping::scoped();
        mapping.set("kind.bug", "defect").expect("a known value");
        let found = mapping.fields_of(&labels(&["defect", "Type/Bug"]));
        assert_eq!(found.kind.as_deref(), Some("bug"));
        assert!(mapping.set("kind.nonsense", "x").is_err());
        mapping.set("kind.bug", "").expect("a known value");
        assert_eq!(mapping.fields_of(&labels(&["defect"])).kind, None);
    }
}
