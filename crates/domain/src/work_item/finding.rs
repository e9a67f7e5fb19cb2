//! Findings: reports of defects with the place in the code and the code itself.
//!
//! The identity of a finding is its [`Fingerprint`]: path, symbol, category and cause, never its wording.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::Severity;
use crate::{ContentHash, HashError, PlanId, Timestamp, WorkItemId};

/// A place in the code at one commit, with the code that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeLocation {
    /// Path relative to the root of the project.
    pub path: String,
    /// Function, method or type, such as `Cart.add`.
    #[serde(default)]
    pub symbol: Option<String>,
    /// First line, from 1.
    pub line_start: u32,
    /// Last line, included.
    pub line_end: u32,
    /// Commit, or hash of the sandbox state, at which the code was read.
    #[serde(default)]
    pub commit: Option<String>,
    /// The lines as they are in the file.
    pub quote: String,
}

impl CodeLocation {
    /// Whether a file contains the quoted code at the stated lines. Differences in trailing white space are ignored;
    /// an empty quote never matches.
    pub fn is_quoted_from(&self, content: &str) -> bool {
        let (Ok(start), Ok(end)) = (
            usize::try_from(self.line_start),
            usize::try_from(self.line_end),
        ) else {
            return false;
        };
        if start == 0 || end < start || self.quote.trim().is_empty() {
            return false;
        }
        let found: Vec<&str> = content
            .lines()
            .skip(start - 1)
            .take(end - start + 1)
            .map(str::trim_end)
            .collect();
        let quoted: Vec<&str> = self.quote.trim_end().lines().map(str::trim_end).collect();
        found == quoted
    }
}

/// Identity of a finding: a hash of normalized path, symbol, category and cause key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(ContentHash);

/// Reduces a part of a fingerprint to lowercase words, so that spelling does not create a second identity.
fn normalized(text: &str) -> String {
    text.to_lowercase()
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Removes `./`, doubled and trailing separators and backslashes from a path. Case is kept: it distinguishes files.
fn normalized_path(path: &str) -> String {
    path.replace('\\', "/")
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect::<Vec<_>>()
        .join("/")
}

impl Fingerprint {
    /// The fingerprint of a defect.
    pub fn new(path: &str, symbol: Option<&str>, category: &str, cause: &str) -> Self {
        let parts = [
            normalized_path(path),
            symbol.map(normalized).unwrap_or_default(),
            normalized(category),
            normalized(cause),
        ];
        let joined = parts.join("\n");
        Self(ContentHash::of_bytes(joined.as_bytes()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl FromStr for Fingerprint {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        text.parse().map(Self)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Fingerprint {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Fingerprint".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"})
    }
}

/// A defect that a hunt reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// One line.
    pub title: String,
    /// Category, such as `concurrency`.
    pub category: String,
    /// Short stable name of the cause, such as `check-then-act`.
    pub cause: String,
    pub severity: Severity,
    pub location: CodeLocation,
    /// Description of the defect.
    pub description: String,
    /// Cause of the defect, such as the steps of a race.
    pub evidence: String,
    #[serde(default)]
    pub expected: Option<String>,
    #[serde(default)]
    pub actual: Option<String>,
    #[serde(default)]
    pub suggested_fix: Option<String>,
    /// Confidence of the finder, in percent.
    pub confidence: u8,
}

impl Finding {
    /// Identity of the defect.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new(
            &self.location.path,
            self.location.symbol.as_deref(),
            &self.category,
            &self.cause,
        )
    }

    /// Hash of the evidence: the quoted code and the reasoning. A rejected finding is reported again only with new
    /// evidence; the same code is not new evidence.
    pub fn evidence_hash(&self) -> ContentHash {
        let quote: Vec<&str> = self.location.quote.lines().map(str::trim).collect();
        ContentHash::of_bytes(quote.join("\n").as_bytes())
    }
}

/// One more report of a known defect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sighting {
    /// Position among the sightings of the item, from 1.
    pub number: u64,
    pub item: WorkItemId,
    pub finding: Finding,
    /// Plan that reported it.
    pub plan: Option<PlanId>,
    pub reported_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::{CodeLocation, Fingerprint};
    use proptest::prelude::*;

    fn location(start: u32, end: u32, quote: &str) -> CodeLocation {
        CodeLocation {
            path: "a.py".to_owned(),
            symbol: None,
            line_start: start,
            line_end: end,
            commit: None,
            quote: quote.to_owned(),
        }
    }

    #[test]
    fn a_quote_has_to_be_at_the_stated_lines() {
        let content = "def add(x):\n    total = read()  \n    write(total + x)\n";
        assert!(location(2, 3, "    total = read()\n    write(total + x)").is_quoted_from(content));
        assert!(
            !location(1, 2, "    total = read()\n    write(total + x)").is_quoted_from(content)
        );
        assert!(!location(2, 3, "    total = read()").is_quoted_from(content));
        assert!(!location(9, 9, "x").is_quoted_from(content));
        assert!(!location(4, 5, "").is_quoted_from(content));
        assert!(!location(0, 1, "def add(x):").is_quoted_from(content));
    }

    #[test]
    fn wording_does_not_change_the_identity() {
        let one = Fingerprint::new(
            "./src//cart.py",
            Some("Cart.add()"),
            "Concurrency",
            "check-then-act",
        );
        let same = Fingerprint::new(
            "src/cart.py",
            Some("cart.add"),
            "concurrency",
            "Check then act",
        );
        assert_eq!(one, same);
        for (path, symbol, category, cause) in [
            ("src/Cart.py", "cart.add", "concurrency", "check-then-act"),
            (
                "src/cart.py",
                "cart.remove",
                "concurrency",
                "check-then-act",
            ),
            ("src/cart.py", "cart.add", "security", "check-then-act"),
            ("src/cart.py", "cart.add", "concurrency", "lost update"),
        ] {
            assert_ne!(one, Fingerprint::new(path, Some(symbol), category, cause));
        }
    }

    proptest! {
        #[test]
        fn a_fingerprint_round_trips_through_storage(path in "\\PC{0,30}", cause in "\\PC{0,30}") {
            let print = Fingerprint::new(&path, None, "x", &cause);
            prop_assert_eq!(print.to_string().parse::<Fingerprint>(), Ok(print));
        }
    }
}
