//! `builtin/file-search`: searches text in files, with ripgrep's libraries on several threads.
//!
//! The walk uses path names, but each file is opened relative to the part without following symlinks, so
//! that a symlink created during the walk has no effect. Results are sorted by path, so that the limit
//! selects the same matches in every run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cleveragents_domain::{FileKind, TreePath};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{Place, Target, places};
use super::tree::{self, Options};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, ready};
use crate::capability::{Access, Capability};
use crate::ports::PartPath;
use crate::safety::PathPermissions;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Call, Failure, PrepareContext, PrepareError, Tool};

/// Default of `limit`.
const DEFAULT_MATCHES: usize = 200;

/// Maximum length of a shown line, in bytes. Longer lines are truncated.
const MAX_LINE_LENGTH: usize = 400;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// The regular expression to search for.
    #[schemars(length(min = 1))]
    pattern: String,
    /// The file or directory to search. Default: the whole sandbox.
    path: Option<String>,
    /// Search only files whose path matches this glob, such as `*.rs` or `src/**/*.ts`.
    glob: Option<String>,
    /// Whether the pattern is plain text instead of a regular expression. Default: false.
    literal: Option<bool>,
    /// Whether to ignore case. Default: false.
    ignore_case: Option<bool>,
    /// Number of context lines before and after each match. Default: 0.
    #[schemars(range(max = 20))]
    context: Option<usize>,
    /// Whether to include hidden files. Default: false.
    hidden: Option<bool>,
    /// Maximum number of matching lines to show. Default: 200.
    #[schemars(range(min = 1, max = 5000))]
    limit: Option<usize>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-search",
        about: "Searches text in files. Binary files and files ignored by .gitignore are excluded. Returns lines of \
                      the form `path:line:text`, or `line:text` for a single file.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<SearchArguments>(description, prepare_search)
}

fn prepare_search(arguments: SearchArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(arguments.ignore_case == Some(true))
        .fixed_strings(arguments.literal == Some(true))
        .line_terminator(Some(b'\n'))
        .build(&arguments.pattern)
        .map_err(|error| PrepareError::Arguments(format!("the pattern is invalid: {error}")))?;
    if let Some(glob) = &arguments.glob {
        tree::check_glob(glob).map_err(PrepareError::Arguments)?;
    }
    let places = places(context, arguments.path.as_deref())?;
    let subjects = places
        .iter()
        .map(|place| place.subject(Access::Reads))
        .collect();
    Ok(ready(subjects, move |call| {
        let limit = arguments.limit.unwrap_or(DEFAULT_MATCHES);
        let search = Search {
            is_one_file: is_one_file(&places)?,
            matcher,
            context: arguments.context.unwrap_or(0),
            results: Mutex::new(SearchResults::new(limit)),
            matches: AtomicU64::new(0),
            files: AtomicU64::new(0),
        };
        let options = Options {
            hidden: arguments.hidden == Some(true),
            glob: arguments.glob,
        };
        let needs_alias = places.len() > 1 || has_parts(call)?;
        for place in &places {
            search.search_place(place, &options, needs_alias, call)?;
        }
        Ok(search.answer(limit, call))
    }))
}

/// Returns whether paths must start with the name of their part.
pub(super) fn has_parts(call: &Call<'_>) -> Result<bool, Failure> {
    Ok(call.workspace()?.parts().len() > 1)
}

/// A path as the model writes it.
pub(super) fn shown_path(place: &Place<'_>, path: &TreePath, needs_alias: bool) -> String {
    if needs_alias {
        format!("{}/{path}", place.part.alias)
    } else {
        path.to_string()
    }
}

/// The matches to show: the first files by path, up to the limit.
pub(super) struct SearchResults {
    limit: usize,
    /// Number of matches in `files`.
    count: usize,
    pub(super) files: BTreeMap<String, (usize, Vec<Line>)>,
}

impl SearchResults {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            limit,
            count: 0,
            files: BTreeMap::new(),
        }
    }

    /// Returns whether matches of a file would be shown, given the files found so far.
    pub(super) fn would_show(&self, path: &str) -> bool {
        let last = self.files.last_key_value();
        self.count < self.limit || last.is_some_and(|(last, _)| path < last.as_str())
    }

    pub(super) fn add(&mut self, path: String, count: usize, lines: Vec<Line>) {
        self.count += count;
        self.files.insert(path, (count, lines));
        // Drop the last file, by path, as long as the other files have enough matches to reach the limit.
        while let Some(last) = self.files.last_entry() {
            let remaining = self.count - last.get().0;
            if remaining < self.limit {
                break;
            }
            self.count = remaining;
            last.remove();
        }
    }
}

/// Returns whether the places are a single file. Then the lines of the answer do not repeat its path.
fn is_one_file(places: &[Place<'_>]) -> Result<bool, Failure> {
    let [place] = places else {
        return Ok(false);
    };
    let Some(path) = place.path.clone() else {
        return Ok(false);
    };
    let target = Target {
        part: place.part,
        path,
    };
    Ok(target.kind()? == Some(FileKind::File))
}

struct Search {
    /// Whether lines have no path.
    is_one_file: bool,
    matcher: RegexMatcher,
    context: usize,
    results: Mutex<SearchResults>,
    matches: AtomicU64,
    files: AtomicU64,
}

impl Search {
    fn search_place(
        &self,
        place: &Place<'_>,
        options: &Options,
        needs_alias: bool,
        call: &Call<'_>,
    ) -> Result<(), Failure> {
        let path_permissions = call.path_permissions();
        tree::walk(place, options, call, || {
            let mut searcher = SearcherBuilder::new()
                .line_number(true)
                .before_context(self.context)
                .after_context(self.context)
                .binary_detection(BinaryDetection::quit(0))
                .build();
            move |path: &TreePath| {
                self.search_file(place, path, needs_alias, path_permissions, &mut searcher);
            }
        })
    }

    fn search_file(
        &self,
        place: &Place<'_>,
        path: &TreePath,
        needs_alias: bool,
        path_permissions: PathPermissions<'_>,
        searcher: &mut Searcher,
    ) {
        // Unreadable and deleted files are skipped.
        let Ok(file) = place.root().open_file(path) else {
            return;
        };
        let mut collector = MatchCollector {
            matcher: &self.matcher,
            report: None,
            lines: Vec::new(),
            count: 0,
            make_report: &|| {
                let part_path = PartPath {
                    alias: place.part.alias.clone(),
                    path: path.clone(),
                };
                if !path_permissions.shows(&part_path) {
                    return MatchReport::Nothing;
                }
                let shown = shown_path(place, path, needs_alias);
                let results = self.results();
                if results.would_show(&shown) {
                    MatchReport::Lines {
                        path: (!self.is_one_file).then(|| shown.clone()),
                        key: shown,
                        limit: results.limit,
                    }
                } else {
                    MatchReport::Count
                }
            },
        };
        let _unreadable = searcher.search_file(&self.matcher, &file, &mut collector);
        let MatchCollector {
            report,
            lines,
            count,
            ..
        } = collector;
        if count == 0 {
            return;
        }
        self.matches.fetch_add(count as u64, Ordering::Relaxed);
        self.files.fetch_add(1, Ordering::Relaxed);
        if let Some(MatchReport::Lines { key, limit, .. }) = report {
            self.results().add(key, count.min(limit), lines);
        }
    }

    fn results(&self) -> MutexGuard<'_, SearchResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(self, limit: usize, call: &mut Call<'_>) -> Answer {
        let results = self
            .results
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let (matches, files) = (self.matches.into_inner(), self.files.into_inner());
        let mut remaining = limit;
        for (count, lines) in results.files.into_values() {
            // The matches of the last file are truncated at the limit.
            for line in truncate(lines, remaining, count) {
                call.output.line(&line.text);
            }
            remaining = remaining.saturating_sub(count);
        }
        let shown = (limit - remaining) as u64;
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let found = format!(
            "{matches} matching line{} in {files} file{}",
            plural(matches),
            plural(files)
        );
        let note = if matches == 0 {
            "No matches found.".to_owned()
        } else if shown < matches {
            format!("{found}; the first {shown} are shown.")
        } else {
            format!("{found}.")
        };
        Answer::written().with_note(Some(note))
    }
}

/// A line to show.
pub(super) struct Line {
    is_match: bool,
    text: String,
}

/// Truncates lines after the match that reaches the limit.
fn truncate(lines: Vec<Line>, remaining: usize, count: usize) -> Vec<Line> {
    if count <= remaining {
        return lines;
    }
    let mut matches = 0;
    lines
        .into_iter()
        .take_while(|line| {
            matches += usize::from(line.is_match);
            matches <= remaining
        })
        .collect()
}

/// Kind of report for the matches of a file.
enum MatchReport {
    /// Permission rules hide the file.
    Nothing,
    /// Matches are counted but not shown, because files with earlier paths already have enough matches.
    Count,
    /// Matching lines are shown, up to `limit` matches.
    Lines {
        /// Precedes each line.
        path: Option<String>,
        /// The path, by which files are ordered.
        key: String,
        limit: usize,
    },
}

/// Collects the matches of one file. Permission rules are checked at the first match, because most files have none.
struct MatchCollector<'s> {
    matcher: &'s RegexMatcher,
    report: Option<MatchReport>,
    lines: Vec<Line>,
    count: usize,
    make_report: &'s dyn Fn() -> MatchReport,
}

impl MatchCollector<'_> {
    /// Returns the kind of report for the file, chosen at the first match.
    fn report(&mut self) -> &MatchReport {
        self.report.get_or_insert_with(self.make_report)
    }

    /// Stores a line, unless lines are not shown or the limit is reached.
    fn push(&mut self, separator: char, number: Option<u64>, bytes: &[u8]) {
        let Some(MatchReport::Lines { path, limit, .. }) = &self.report else {
            return;
        };
        if self.count >= *limit {
            return;
        }
        let number = number.unwrap_or(0);
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let text = if text.len() > MAX_LINE_LENGTH {
            self.around_match(text)
        } else {
            text.to_owned()
        };
        self.lines.push(Line {
            is_match: separator == ':',
            text: match path {
                Some(path) => format!("{path}{separator}{number}{separator}{text}"),
                None => format!("{number}{separator}{text}"),
            },
        });
    }

    /// The part of a long line that contains the match.
    fn around_match(&self, text: &str) -> String {
        let found = self.matcher.find(text.as_bytes()).ok().flatten();
        let at = found.map_or(0, |found| found.start());
        let start = text.floor_char_boundary(at.saturating_sub(MAX_LINE_LENGTH / 4));
        let end = text.floor_char_boundary((start + MAX_LINE_LENGTH).min(text.len()));
        let before = if start > 0 { "…" } else { "" };
        let after = if end < text.len() { "…" } else { "" };
        format!("{before}{}{after}", &text[start..end])
    }
}

impl Sink for &mut MatchCollector<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> std::io::Result<bool> {
        if matches!(self.report(), MatchReport::Nothing) {
            return Ok(false);
        }
        let first = found.line_number();
        for (offset, line) in found.lines().enumerate() {
            self.push(':', first.map(|first| first + offset as u64), line);
            self.count += 1;
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> std::io::Result<bool> {
        // The context lines before the first match arrive before the call of `matched`, so check here too.
        if matches!(self.report(), MatchReport::Nothing) {
            return Ok(false);
        }
        self.push('-', found.line_number(), found.bytes());
        Ok(true)
    }
}
