//! Parses a patch: `*** Begin Patch`, one section per file, `*** End Patch`.

/// One section of a patch: the change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Section {
    Add {
        path: String,
        content: String,
    },
    Delete {
        path: String,
    },
    Update {
        path: String,
        move_to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// Lines to replace, with context lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The texts after `@@`: lines that occur in this order before the hunk.
    pub(super) headers: Vec<String>,
    pub(super) lines: Vec<(Mark, String)>,
    /// Whether the lines are at the end of the file.
    pub(super) is_at_end: bool,
}

/// Operation on a line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Keep,
    Remove,
    Add,
}

impl Hunk {
    fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.lines.is_empty() && !self.is_at_end
    }
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Parses a patch. Text before `*** Begin Patch` and after `*** End Patch` is ignored.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, String> {
    let lines: Vec<&str> = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .collect();
    let begin = lines
        .iter()
        .position(|line| line.trim() == BEGIN)
        .ok_or_else(|| format!("the patch does not start with `{BEGIN}`"))?;
    let end = lines
        .iter()
        .rposition(|line| line.trim() == END)
        .filter(|end| *end > begin)
        .ok_or_else(|| format!("the patch does not end with `{END}`; send the whole patch"))?;
    let mut reader = Reader {
        lines: &lines[..end],
        at: begin + 1,
    };
    let mut sections = Vec::new();
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() {
            reader.at += 1;
            continue;
        }
        sections.push(reader.parse_section(line)?);
    }
    if sections.is_empty() {
        return Err(
            "the patch has no `*** Add File:`, `*** Update File:` or `*** Delete File:`".to_owned(),
        );
    }
    Ok(sections)
}

struct Reader<'t> {
    lines: &'t [&'t str],
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<&'t str> {
        self.lines.get(self.at).copied()
    }

    /// Reads the next line of the section; `None` at the end of the section.
    fn next_line(&mut self) -> Option<&'t str> {
        let line = self.peek().filter(|line| !is_section(line))?;
        self.at += 1;
        Some(line)
    }

    fn error_at_line(&self, why: &str) -> String {
        let line = self.at.checked_sub(1).and_then(|at| self.lines.get(at));
        let line: String = line.map_or("", |line| *line).chars().take(120).collect();
        format!("line {} of the patch, `{line}`: {why}", self.at)
    }

    fn parse_section(&mut self, line: &str) -> Result<Section, String> {
        self.at += 1;
        let line = line.trim();
        let path = |prefix: &str| {
            let path = line.strip_prefix(prefix)?.trim();
            (!path.is_empty()).then(|| path.to_owned())
        };
        if let Some(path) = path(ADD) {
            self.parse_add(path)
        } else if let Some(path) = path(DELETE) {
            Ok(Section::Delete { path })
        } else if let Some(path) = path(UPDATE) {
            self.parse_update(path)
        } else {
            Err(self.error_at_line(
                "expected `*** Add File: PATH`, `*** Update File: PATH` or `*** Delete File: PATH`",
            ))
        }
    }

    fn parse_add(&mut self, path: String) -> Result<Section, String> {
        let mut content = String::new();
        while let Some(line) = self.next_line() {
            match line.strip_prefix('+') {
                Some(line) => {
                    content.push_str(line);
                    content.push('\n');
                }
                // An empty line between two sections.
                None if line.trim().is_empty() && self.peek().is_none_or(is_section) => {}
                None => {
                    return Err(self.error_at_line("every line of a new file must start with `+`"));
                }
            }
        }
        Ok(Section::Add { path, content })
    }

    fn parse_update(&mut self, path: String) -> Result<Section, String> {
        let mut move_to = None;
        if let Some(target) = self.peek().and_then(|line| line.trim().strip_prefix(MOVE)) {
            move_to = Some(target.trim().to_owned());
            self.at += 1;
        }
        let mut hunks: Vec<Hunk> = vec![Hunk::default()];
        let start_hunk = |hunks: &mut Vec<Hunk>| {
            if hunks.last().is_some_and(|hunk| !hunk.lines.is_empty()) {
                hunks.push(Hunk::default());
            }
        };
        while let Some(line) = self.next_line() {
            if let Some(header) = line.strip_prefix("@@") {
                start_hunk(&mut hunks);
                if let (Some(header), Some(hunk)) = (header_of(header), hunks.last_mut()) {
                    hunk.headers.push(header);
                }
                continue;
            }
            let Some(hunk) = hunks.last_mut() else { break };
            if line.trim() == END_OF_FILE {
                hunk.is_at_end = true;
                continue;
            }
            let (mark, content) = match line.chars().next() {
                None => (Mark::Keep, ""),
                Some(' ') => (Mark::Keep, &line[1..]),
                Some('-') => (Mark::Remove, &line[1..]),
                Some('+') => (Mark::Add, &line[1..]),
                Some(_) => {
                    return Err(self.error_at_line(
                        "lines of a change must start with a space (keep), `-` (remove) or `+` (add)",
                    ));
                }
            };
            hunk.lines.push((mark, content.to_owned()));
        }
        // Empty lines before the next section are not part of the file.
        if let Some(hunk) = hunks.last_mut() {
            while hunk.lines.last() == Some(&(Mark::Keep, String::new())) && hunk.lines.len() > 1 {
                hunk.lines.pop();
            }
        }
        hunks.retain(|hunk| !hunk.is_empty());
        let is_change = |hunk: &Hunk| hunk.lines.iter().any(|(mark, _)| *mark != Mark::Keep);
        if !hunks.iter().any(is_change) && move_to.is_none() {
            return Err(format!(
                "the update of `{path}` changes nothing: it has no `-` or `+` lines"
            ));
        }
        hunks.retain(is_change);
        Ok(Section::Update {
            path,
            move_to,
            hunks,
        })
    }
}

fn is_section(line: &str) -> bool {
    let line = line.trim_end();
    [ADD, DELETE, UPDATE]
        .iter()
        .any(|prefix| line.starts_with(prefix))
}

/// Parses the text after `@@`: the line before the hunk. Line numbers, as in unified diffs, are ignored.
fn header_of(text: &str) -> Option<String> {
    let is_numbers = text.trim_start().starts_with('-') && text.contains("@@");
    let text = text.strip_prefix(' ').unwrap_or(text);
    (!is_numbers && !text.trim().is_empty()).then(|| text.trim_end().to_owned())
}
