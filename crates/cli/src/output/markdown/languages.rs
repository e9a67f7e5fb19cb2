//! The languages with syntax colours: their comments, strings and keywords.

use crate::output::paint::Tone;

/// Lexical rules of a language.
pub(super) struct Language {
    names: &'static [&'static str],
    pub(super) line_comments: &'static [&'static str],
    /// True if `#` begins a comment anywhere, not only at the start of a word.
    pub(super) hash_anywhere: bool,
    pub(super) blocks: &'static [(&'static str, &'static str)],
    /// Delimiters of strings that may span lines.
    pub(super) long_texts: &'static [&'static str],
    /// Delimiters of strings on one line.
    pub(super) quotes: &'static str,
    /// Space-separated words.
    keywords: &'static str,
    ignores_case: bool,
    pub(super) is_diff: bool,
}

const BASE: Language = Language {
    names: &[],
    line_comments: &[],
    hash_anywhere: true,
    blocks: &[],
    long_texts: &[],
    quotes: "\"'",
    keywords: "",
    ignores_case: false,
    is_diff: false,
};

const C_LIKE: Language = Language {
    line_comments: &["//"],
    blocks: &[("/*", "*/")],
    ..BASE
};

static LANGUAGES: [Language; 14] = [
    Language {
        names: &["rust", "rs"],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop \
                   match mod move mut pub ref return self Self static struct super trait true type unsafe use where \
                   while",
        ..C_LIKE
    },
    Language {
        names: &["python", "py", "python3"],
        line_comments: &["#"],
        long_texts: &["\"\"\"", "'''"],
        keywords: "and as assert async await break class continue def del elif else except False finally for from \
                   global if import in is lambda None nonlocal not or pass raise return True try while with yield \
                   match case",
        ..BASE
    },
    Language {
        names: &["javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs"],
        long_texts: &["`"],
        keywords: "abstract any as async await boolean break case catch class const continue debugger default delete \
                   do else enum export extends false finally for from function if implements import in instanceof \
                   interface let new null number of private protected public readonly return static string super \
                   switch this throw true try type typeof undefined var void while yield",
        ..C_LIKE
    },
    Language {
        names: &["go", "golang"],
        long_texts: &["`"],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import \
                   interface map nil package range return select struct switch true type var",
        ..C_LIKE
    },
    Language {
        names: &["c", "h", "cpp", "c++", "cc", "hpp", "cxx"],
        keywords: "auto bool break case char class const constexpr continue default delete do double else enum extern \
                   false float for goto if inline int long namespace new nullptr NULL operator private protected \
                   public return short signed sizeof static struct switch template this throw true try typedef \
                   typename union unsigned using virtual void volatile while",
        ..C_LIKE
    },
    Language {
        names: &[
            "java", "kotlin", "kt", "csharp", "cs", "c#", "swift", "scala", "php",
        ],
        keywords: "abstract as async await boolean break case catch char class const continue data default defer do \
                   double else enum extends false final finally float for foreach fun func function guard if \
                   implements import in init int interface internal is let long namespace new nil null object \
                   override package private protected public return sealed short static string struct super switch \
                   this throw throws true try typealias using val var void when while",
        ..C_LIKE
    },
    Language {
        names: &[
            "bash",
            "sh",
            "shell",
            "zsh",
            "console",
            "dockerfile",
            "makefile",
            "make",
        ],
        line_comments: &["#"],
        hash_anywhere: false,
        keywords: "case do done elif else esac exit export fi for function if in local return set then unset until \
                   while FROM RUN COPY ENV CMD ENTRYPOINT WORKDIR ARG EXPOSE",
        ..BASE
    },
    Language {
        names: &["json", "jsonc", "json5"],
        quotes: "\"",
        keywords: "true false null",
        ..C_LIKE
    },
    Language {
        names: &["yaml", "yml"],
        line_comments: &["#"],
        hash_anywhere: false,
        keywords: "true false null yes no",
        ..BASE
    },
    Language {
        names: &["toml", "ini", "conf", "properties"],
        line_comments: &["#", ";"],
        hash_anywhere: false,
        long_texts: &["\"\"\"", "'''"],
        keywords: "true false",
        ..BASE
    },
    Language {
        names: &["sql", "sqlite", "postgresql", "mysql"],
        line_comments: &["--"],
        blocks: &[("/*", "*/")],
        keywords: "add all alter and as asc begin between by case check column commit constraint create cross default \
                   delete desc distinct drop else end exists foreign from full group having if in index inner insert \
                   into is join key left like limit not null offset on or order outer primary references right \
                   rollback select set table then union unique update using values view when where with",
        ignores_case: true,
        ..BASE
    },
    Language {
        names: &["ruby", "rb"],
        line_comments: &["#"],
        hash_anywhere: false,
        keywords: "and begin break case class def do else elsif end ensure false for if in module next nil not or \
                   raise rescue return self super then true unless until when while yield",
        ..BASE
    },
    Language {
        names: &["html", "xml", "svg", "vue"],
        blocks: &[("<!--", "-->")],
        ..BASE
    },
    Language {
        names: &["diff", "patch"],
        is_diff: true,
        ..BASE
    },
];

/// The language with this name or alias.
pub(super) fn find(name: &str) -> Option<&'static Language> {
    let name = name.to_ascii_lowercase();
    LANGUAGES
        .iter()
        .find(|language| language.names.contains(&&*name))
}

impl Language {
    pub(super) fn tone_of(&self, word: &str) -> Tone {
        let is_keyword = self.keywords.split(' ').any(|keyword| {
            keyword == word || (self.ignores_case && keyword.eq_ignore_ascii_case(word))
        });
        if is_keyword {
            Tone::Keyword
        } else {
            Tone::Plain
        }
    }
}
