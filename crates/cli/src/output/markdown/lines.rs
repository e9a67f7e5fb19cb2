//! Recognises the starts of Markdown blocks: fenced code, an item, a heading, a rule.

/// Width of the leading white space.
pub(super) fn indent(line: &str) -> usize {
    line.bytes()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .map(|byte| if byte == b'\t' { 4 } else { 1 })
        .sum()
}

/// Opening mark of fenced code; the closing mark must match it.
pub(super) struct CodeFence {
    mark: char,
    length: usize,
    indent: usize,
    info: String,
}

/// The fence that a line opens.
pub(super) fn fence(line: &str) -> Option<CodeFence> {
    let indent = indent(line);
    let rest = line.trim_start();
    let mark = rest
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let length = rest.chars().take_while(|other| *other == mark).count();
    let info = rest[length..].trim();
    let is_fence = indent < 4 && length >= 3 && !(mark == '`' && info.contains('`'));
    is_fence.then(|| CodeFence {
        mark,
        length,
        indent,
        info: info.to_owned(),
    })
}

impl CodeFence {
    pub(super) fn language(&self) -> &str {
        let word = self.info.split([' ', ',', '{']).next();
        word.unwrap_or_default()
    }

    pub(super) fn begin(&self) -> String {
        format!("{}{}", self.end(), self.info)
    }

    pub(super) fn end(&self) -> String {
        self.mark.to_string().repeat(self.length)
    }

    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let trimmed = line.trim();
        indent(line) < 4
            && trimmed.chars().count() >= self.length
            && trimmed.chars().all(|other| other == self.mark)
    }

    /// A line of the code, without the indentation of the fence.
    pub(super) fn inside<'l>(&self, line: &'l str) -> &'l str {
        let spaces = line.bytes().take_while(|byte| *byte == b' ').count();
        &line[spaces.min(self.indent)..]
    }
}

/// The start of an item.
pub(super) struct Marker {
    pub(super) number: Option<u64>,
}

/// The marker of an item at the left edge.
pub(super) fn list_marker(line: &str) -> Option<Marker> {
    if indent(line) >= 2 || is_rule(line) {
        return None;
    }
    let rest = line.trim_start();
    let (number, after) = if let Some(after) = rest.strip_prefix(['-', '*', '+']) {
        (None, after)
    } else {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = rest[digits..].strip_prefix(['.', ')'])?;
        // A longer number does not begin an item.
        let number = rest[..digits].parse().ok().filter(|_| digits < 10)?;
        (Some(number), after)
    };
    (after.is_empty() || after.starts_with([' ', '\t'])).then_some(Marker { number })
}

/// True if a line is a heading that begins with `#`.
pub(super) fn is_heading(line: &str) -> bool {
    let rest = line.trim_start();
    let level = rest.bytes().take_while(|byte| *byte == b'#').count();
    let after = &rest[level..];
    indent(line) < 4
        && (1..=6).contains(&level)
        && (after.is_empty() || after.starts_with([' ', '\t']))
}

/// True if a line is a horizontal rule.
pub(super) fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|mark| !mark.is_whitespace());
    let Some(first) = marks.next().filter(|mark| matches!(mark, '-' | '*' | '_')) else {
        return false;
    };
    indent(line) < 4 && {
        let rest: Vec<char> = marks.collect();
        rest.len() >= 2 && rest.iter().all(|mark| *mark == first)
    }
}
