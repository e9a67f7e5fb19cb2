//! A tree against its manifest, folder by folder, without reading content.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io;

use cleveragents_domain::TreePath;

use super::{Known, Manifest, parse_known, parse_line, path_field, split};
use crate::beneath::{Root, Stat};
use crate::scan::{Extent, Names, Visitor, inside, walk};

/// Paths whose description changed, with what was known of them.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) pending: Vec<(TreePath, Option<Known>)>,
    /// Devices, sockets and pipes.
    pub(crate) special: Vec<TreePath>,
}

impl Manifest {
    /// Compares a tree with what is known of it, without reading content.
    pub(crate) fn compare(&self, root: &Root, extent: Extent<'_>) -> io::Result<Differences> {
        let touched: HashSet<String> = self
            .newer
            .keys()
            .map(|path| split(&path.to_string()).0.to_owned())
            .collect();
        let visitors = walk(root, extent, || Comparison {
            manifest: self,
            touched: &touched,
            found: Differences::default(),
            lines: 0,
            visited: Vec::new(),
            seen: Vec::new(),
        })?;
        let mut whole = Differences::default();
        let mut visited = HashSet::new();
        let mut seen = HashSet::new();
        let mut lines = 0;
        for visitor in visitors {
            whole.pending.extend(visitor.found.pending);
            whole.special.extend(visitor.found.special);
            visited.extend(visitor.visited);
            seen.extend(visitor.seen);
            lines += visitor.lines;
        }
        if lines != self.count {
            self.gone_folders(&visited, &mut whole)?;
        }
        for (path, known) in &self.newer {
            if known.is_some() && !seen.contains(path) {
                whole.pending.push((path.clone(), *known));
            }
        }
        whole.pending.sort_by(|left, right| left.0.cmp(&right.0));
        whole.special.sort();
        Ok(whole)
    }

    /// What was in folders that are gone.
    fn gone_folders(&self, visited: &HashSet<String>, found: &mut Differences) -> io::Result<()> {
        for line in self.lines().lines() {
            if visited.contains(split(path_field(line)).0) {
                continue;
            }
            let (path, known) = parse_line(line).ok_or_else(unreadable)?;
            if !self.newer.contains_key(&path) {
                found.pending.push((path, known));
            }
        }
        Ok(())
    }

    /// The lines of a folder: name and facts of each.
    fn run<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> + Clone {
        let lines = self.lines_from(folder).lines();
        let parts = lines.map(|line| line.split_once('\t').unwrap_or((line, "")));
        parts
            .map(|(path, facts)| (split(path), facts))
            .take_while(move |((there, _), _)| *there == folder)
            .map(|((_, name), facts)| (name, facts))
    }
}

fn unreadable() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "what is known of its files cannot be read",
    )
}

/// Compares folder by folder.
struct Comparison<'a> {
    manifest: &'a Manifest,
    /// Folders in which something was learned since the text was written.
    touched: &'a HashSet<String>,
    found: Differences,
    /// How many lines of the text were compared.
    lines: usize,
    visited: Vec<String>,
    seen: Vec<TreePath>,
}

impl Visitor for Comparison<'_> {
    fn names(&self, folder: &TreePath, stat: &Stat) -> Option<Vec<Vec<u8>>> {
        let known = self.manifest.get(folder)?;
        if !known.has_same_names(stat) {
            return None;
        }
        let text = folder.to_string();
        let name = |name: &str| {
            if name.contains('\\') {
                return Some(name.parse::<TreePath>().ok()?.name().to_vec());
            }
            Some(name.as_bytes().to_vec())
        };
        self.manifest
            .run(&text)
            .map(|(text, _)| name(text))
            .collect()
    }

    fn folder(&mut self, folder: Option<&TreePath>, names: &mut Names) -> io::Result<()> {
        let text = folder.map(ToString::to_string).unwrap_or_default();
        let manifest = self.manifest;
        let mut in_order = manifest.run(&text).peekable();
        let has_newer = self.touched.contains(&text);
        // Passed over, since the order of names as text is not always that of their bytes.
        let mut passed: HashMap<&str, &str> = HashMap::new();
        for (name, stat) in names.sorted() {
            let shown = match plain_name(name) {
                Some(name) => Cow::Borrowed(name),
                None => Cow::Owned(inside(None, name)?.to_string()),
            };
            let mut facts = None;
            while let Some((there, known)) = in_order.peek().copied() {
                if there > shown.as_ref() {
                    break;
                }
                in_order.next();
                self.lines += 1;
                if there == shown.as_ref() {
                    facts = Some(known);
                    break;
                }
                passed.insert(there, known);
            }
            let facts = facts.or_else(|| passed.remove(shown.as_ref()));
            if has_newer {
                let path = inside(folder, name)?;
                if let Some(known) = manifest.newer.get(&path) {
                    if known.is_none_or(|known| !known.is_unchanged(stat)) {
                        self.differ(path.clone(), *known, stat);
                    }
                    self.seen.push(path);
                    continue;
                }
            }
            let known = match facts {
                Some(facts) => Some(parse_known(facts).ok_or_else(unreadable)?),
                None => None,
            };
            if known.is_none_or(|known| !known.is_unchanged(stat)) {
                self.differ(inside(folder, name)?, known, stat);
            }
        }
        let left: Vec<_> = in_order.collect();
        self.lines += left.len();
        for (name, facts) in passed.into_iter().chain(left) {
            let whole = match text.as_str() {
                "" => name.to_owned(),
                folder => format!("{folder}/{name}"),
            };
            let path: TreePath = whole.parse().map_err(io::Error::other)?;
            if !manifest.newer.contains_key(&path) {
                let known = parse_known(facts).ok_or_else(unreadable)?;
                self.found.pending.push((path, Some(known)));
            }
        }
        self.visited.push(text);
        Ok(())
    }
}

impl Comparison<'_> {
    fn differ(&mut self, path: TreePath, known: Option<Known>, stat: &Stat) {
        if stat.mode.is_some() {
            self.found.pending.push((path, known));
        } else {
            if known.is_some() {
                self.found.pending.push((path.clone(), known));
            }
            self.found.special.push(path);
        }
    }
}

/// A name that is the same as text.
fn plain_name(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'\\';
    name.iter()
        .all(is_plain)
        .then(|| std::str::from_utf8(name).ok())?
}
