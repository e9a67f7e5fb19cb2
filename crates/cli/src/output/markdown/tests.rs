//! Tests of rendered Markdown, from complete texts and from texts in pieces.

use proptest::prelude::*;

use super::Markdown;
use crate::output::paint::Paint;

const EVERYTHING: &str = r#"# Borrowing **well**

A value has **one owner**; others may *borrow* it. Use `&mut` where it is to be changed, see
[the book](https://doc.rust-lang.org/book/) or <https://example.org>. A ~~wrong~~ word, and a line\
that is broken.

1. One owner
1. Many readers, which is a longer item that has to be broken into more than a single line here
   - or one writer

     with a paragraph
1. No more

- tight
- list
  ```sh
  ls # all
  ```

```rust
/* over
   lines */ fn main() {
    let name: &'a str = "wo\"rld"; // greet
    println!("{name}", 42);
}
```

```diff
-old
+new
```

| Kind | Mark |
| --- | --- |
| shared | `&T` |
| unique | `&mut T` |

| A wide heading of a table | Another wide heading of the table |
| --- | --- |
| a cell with rather a lot of text | and one more |

> Quoted wisdom,
> on two lines.

---

- [x] done
- [ ] open

<b>markup</b> &amp; entities

[ref]: https://example.org/ref
"#;

/// Draws a text with its escape sequences made visible, so that snapshots are readable.
fn draw_visible(paint: Paint, text: &str) -> String {
    Markdown::drawn(paint, 60, text).replace('\u{1b}', "␛")
}

#[test]
fn everything_in_colours() {
    insta::assert_snapshot!(draw_visible(Paint::On, EVERYTHING));
}

#[test]
fn everything_without_colours() {
    insta::assert_snapshot!(draw_visible(Paint::Off, EVERYTHING));
}

#[test]
fn blocks_are_drawn_when_complete_and_code_line_by_line() {
    let mut markdown = Markdown::new(Paint::Off, 60);
    let mut steps = Vec::new();
    for piece in [
        "Some ",
        "words\n",
        "\n",
        "- one\n",
        "- two\n",
        "\n```\nlet",
        " a;\n",
        "b\n```\n",
    ] {
        steps.push(markdown.push(piece));
    }
    steps.push(markdown.finish());
    assert_eq!(
        steps,
        [
            "",
            "",
            "Some words\n",
            "",
            "\n• one\n",
            "• two\n\n```\n",
            "let a;\n",
            "b\n```\n",
            ""
        ]
    );
}

#[test]
fn control_characters_never_reach_the_output() {
    let evil = "a\u{1b}[2Jb &#27;[31m &#x9b;1m `\u{7}` [x](http://a\u{1b}]0;t) \u{202e}\n\n```\u{1b}[1m\n\u{1b}c\n```\n\n\
                | \u{1b} |\n|---|\n| &#7; |\n\n# \u{8}\n\n[a\u{1b}]: http://x/&#27;\n";
    for paint in [Paint::Off, Paint::On] {
        let drawn = Markdown::drawn(paint, 60, evil);
        // The remaining sequences are the program's own colours.
        let colours = without_colours(&drawn);
        assert!(
            !colours.contains(|letter: char| letter.is_control() && letter != '\n'),
            "{drawn:?}"
        );
    }
}

/// Removes colour sequences: `ESC [`, digits and `;`, `m`.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after =
            part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
        plain.push_str(after.strip_prefix('m').unwrap_or("\u{1b}"));
    }
    plain
}

#[test]
fn incomplete_blocks_are_shown() {
    assert_eq!(
        Markdown::drawn(Paint::Off, 60, "```rust\nlet a"),
        "```rust\nlet a\n```\n"
    );
    assert_eq!(Markdown::drawn(Paint::Off, 60, "- a\n- "), "• a\n•\n");
    assert_eq!(Markdown::drawn(Paint::Off, 60, "**bold"), "**bold\n");
}

proptest! {
    #[test]
    fn splitting_the_text_does_not_change_the_output(cuts in proptest::collection::vec(0_usize..EVERYTHING.len(), 0..40)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| EVERYTHING.floor_char_boundary(cut)).collect();
        cuts.extend([0, EVERYTHING.len()]);
        cuts.sort_unstable();
        let mut markdown = Markdown::new(Paint::On, 60);
        let mut drawn = String::new();
        for pair in cuts.windows(2) {
            drawn.push_str(&markdown.push(&EVERYTHING[pair[0]..pair[1]]));
        }
        drawn.push_str(&markdown.finish());
        prop_assert_eq!(drawn, Markdown::drawn(Paint::On, 60, EVERYTHING));
    }

    #[test]
    fn no_word_is_lost_and_nothing_harmful_is_drawn(text in "([ \\-*+#>`|~_1.\\[\\]()<&;a-c\u{1b}\u{7}\n]|word){0,80}") {
        let drawn = Markdown::drawn(Paint::Off, 40, &text);
        prop_assert!(!drawn.contains(|letter: char| letter.is_control() && letter != '\n' && letter != '\t'));
        let count = |text: &str| text.matches("word").count();
        // The address of a link is shown next to it, so some words appear twice.
        prop_assert!(count(&drawn) >= count(&text), "{:?}", drawn);
    }
}
