//! Converts HTML to text: one line per block, without scripts, styles and tags.

/// Elements whose content is not text.
const HIDDEN: [&str; 5] = ["script", "style", "noscript", "template", "svg"];

/// Elements that continue the line.
const INLINE: [&str; 20] = [
    "a", "abbr", "b", "bdi", "cite", "code", "em", "font", "i", "kbd", "mark", "q", "s", "samp",
    "small", "span", "strong", "sub", "sup", "var",
];

/// The text of an HTML document.
pub(super) fn to_text(html: &str) -> String {
    let mut writer = TextWriter::default();
    let mut remaining = html;
    while let Some(at) = remaining.find('<') {
        writer.add(&remaining[..at]);
        remaining = &remaining[at..];
        if let Some(comment) = remaining.strip_prefix("<!--") {
            remaining = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let next = remaining[1..].chars().next().unwrap_or(' ');
        if !next.is_ascii_alphabetic() && !matches!(next, '/' | '!' | '?') {
            writer.add("<");
            remaining = &remaining[1..];
            continue;
        }
        let Some(end) = tag_end(remaining) else {
            break;
        };
        let name: String = remaining[1..end]
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .map(|letter| letter.to_ascii_lowercase())
            .collect();
        let is_closing = remaining[1..].starts_with('/');
        let is_empty = remaining[..end].ends_with('/');
        remaining = &remaining[end + 1..];
        if HIDDEN.contains(&name.as_str()) && !is_closing && !is_empty {
            remaining = after_element(remaining, &name);
            continue;
        }
        if name == "pre" {
            writer.is_preformatted = !is_closing;
        }
        if name == "li" && !is_closing {
            writer.end_line();
            writer.add("- ");
        } else if name == "td" || name == "th" {
            writer.add(" ");
        } else if !INLINE.contains(&name.as_str()) {
            writer.end_line();
        }
    }
    if !remaining.starts_with('<') {
        writer.add(remaining);
    }
    writer.end_line();
    writer.text
}

/// The position of the `>` that ends a tag; a `>` in a quoted attribute does not.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

/// The text after the end tag of an element.
fn after_element<'h>(html: &'h str, name: &str) -> &'h str {
    let mut from = 0;
    while let Some(at) = html[from..].find("</") {
        let tag = &html[from + at + 2..];
        let is_end = tag
            .get(..name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name));
        if is_end {
            return tag.find('>').map_or("", |end| &tag[end + 1..]);
        }
        from += at + 2;
    }
    ""
}

#[derive(Default)]
struct TextWriter {
    text: String,
    line: String,
    is_preformatted: bool,
}

impl TextWriter {
    fn add(&mut self, html: &str) {
        let decoded = decode(html);
        if self.is_preformatted {
            self.line.push_str(&decoded);
            return;
        }
        for letter in decoded.chars() {
            if !letter.is_whitespace() {
                self.line.push(letter);
            } else if !self.line.ends_with(' ') && !self.line.is_empty() {
                self.line.push(' ');
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.trim().is_empty() {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }
}

/// Replaces character references.
fn decode(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut remaining = html;
    while let Some(at) = remaining.find('&') {
        text.push_str(&remaining[..at]);
        remaining = &remaining[at..];
        let reference = remaining[1..]
            .find(';')
            .filter(|end| *end <= 10)
            .map(|end| &remaining[1..=end]);
        if let Some((name, character)) = reference.and_then(|name| Some((name, character(name)?))) {
            text.push(character);
            remaining = &remaining[name.len() + 2..];
        } else {
            text.push('&');
            remaining = &remaining[1..];
        }
    }
    text.push_str(remaining);
    text
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let number = match number.strip_prefix(['x', 'X']) {
            Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(number);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "copy" => '©',
        "rarr" => '→',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::to_text;

    #[test]
    fn blocks_become_lines_and_scripts_are_left_out() {
        let html = "<!DOCTYPE html><html><head><title>A  title</title><style>p > a {}</style>
            <script>if (a < b) { document.write('</p>') }</script></head><body><!-- <p>no</p> -->
            <h1>Head</h1><p title=\"a > b\">one <b>two</b>\n three&nbsp;&lt;tag&gt; &#233;&#x41; &unknown; a < b</p>
            <ul><li>first<li>second</ul><table><tr><td>x</td><td>y</td></tr></table>
            <pre>  kept\n    as is</pre>last";
        assert_eq!(
            to_text(html),
            "A title\nHead\none two three <tag> éA &unknown; a < b\n- first\n- second\nx y\n  kept\n    as is\nlast\n"
        );
    }

    #[test]
    fn broken_html_ends() {
        for html in [
            "<",
            "<p",
            "a <b",
            "<script>never closed",
            "<!-- never",
            "&",
            "&#99999999;",
            "<p a=\"x>y",
            "</",
        ] {
            let _text = to_text(html);
        }
        assert_eq!(to_text("a<p"), "a\n");
        assert_eq!(to_text("plain"), "plain\n");
    }
}
