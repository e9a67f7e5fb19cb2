//! Pages of lists. A cursor says after what the next page begins, not how many come before it: what is added or
//! removed meanwhile neither repeats nor hides anything.

use std::num::NonZeroU64;
use std::str::FromStr;

use axum::extract::Request;
use cleveragents_domain::Code;
use serde::Deserialize;

use super::request;
use super::types::Page;
use crate::problem::Problem;
use crate::routes::{Parameter, schema_of};

/// How many things a page holds when nothing is said, and at most.
const USUAL: u64 = 50;
const MAXIMUM: u64 = 500;

pub(crate) const LIMIT: Parameter = Parameter {
    name: "limit",
    place: "query",
    about: "How many to give, 50 when left out and 500 at most",
    schema: |_| schemars::json_schema!({"type": "integer", "minimum": 1}),
};

pub(crate) const CURSOR: Parameter = Parameter {
    name: "cursor",
    place: "query",
    about: "The `next_cursor` of the page before",
    schema: schema_of::<Option<String>>,
};

#[derive(Debug, Deserialize)]
struct Asked {
    limit: Option<NonZeroU64>,
    cursor: Option<String>,
}

/// Which page is asked for. `T` is what names the last thing of the page before.
pub(crate) struct Paging<T> {
    pub(crate) limit: u64,
    pub(crate) after: Option<T>,
}

impl<T: FromStr> Paging<T> {
    pub(crate) fn read(request: &Request) -> Result<Self, Problem> {
        let asked: Asked = request::query(request.uri())?;
        let after = asked.cursor.map(|cursor| {
            let text = hex::decode(&cursor)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok());
            text.and_then(|text| text.parse().ok()).ok_or_else(|| {
                Problem::new(Code::MalformedRequest, "`cursor` is none of ours")
                    .with_hint("send the `next_cursor` of the page before, unchanged")
            })
        });
        Ok(Self {
            limit: asked.limit.map_or(USUAL, NonZeroU64::get).min(MAXIMUM),
            after: after.transpose()?,
        })
    }

    /// One more than the page holds, to know whether there is a next one.
    pub(crate) const fn wanted(&self) -> u64 {
        self.limit + 1
    }

    /// The page of what was found.
    pub(crate) fn page<F, D>(&self, mut found: Vec<F>, name: impl FnOnce(&F) -> T) -> Page<D>
    where
        T: ToString,
        D: for<'f> From<&'f F>,
    {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(name);
        Page {
            items: found.iter().map(D::from).collect(),
            next_cursor: next.map(|next| hex::encode(next.to_string())),
        }
    }
}
