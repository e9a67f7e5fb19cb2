//! Database URLs and their canonical form, the key by which engines are shared.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::dialect::Dialect;
use crate::error::Error;

/// Names a database. URLs that spell the name of the same database differently are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DatabaseUrl(Target);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// A SQLite file, by its canonical path.
    File(PathBuf),
    /// An in-memory SQLite database, shared within one process by all users of its name.
    Memory(String),
    /// A PostgreSQL connection string.
    Postgres(String),
}

impl DatabaseUrl {
    /// Parses a URL. A relative path is resolved against `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Error> {
        let text = text.trim();
        let invalid = |reason: &str| Error::InvalidUrl {
            url: redact(text),
            reason: reason.to_owned(),
        };
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(invalid("it has no scheme"));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "sqlite" => Self::parse_sqlite(rest, base).map_err(|reason| invalid(&reason)),
            "postgres" | "postgresql" => {
                let url = format!("postgres:{rest}");
                if !rest.starts_with("//") {
                    return Err(invalid(
                        "the URL of a server has the form postgres://user@host/database",
                    ));
                }
                url.parse::<postgres::Config>()
                    .map_err(|error| invalid(&chain(&error)))?;
                Ok(Self(Target::Postgres(url)))
            }
            _ => Err(invalid(&format!(
                "the scheme `{scheme}` is not sqlite or postgres"
            ))),
        }
    }

    /// The URL of a SQLite file.
    pub fn file(path: &Path, base: &Path) -> Self {
        Self(Target::File(real_path(&base.join(path))))
    }

    /// A named in-memory database.
    pub fn memory(name: impl Into<String>) -> Self {
        Self(Target::Memory(name.into()))
    }

    fn parse_sqlite(rest: &str, base: &Path) -> Result<Self, String> {
        if let Some(named) = rest.strip_prefix("file:") {
            let (name, options) = named.split_once('?').unwrap_or((named, ""));
            if !options.split('&').any(|option| option == "mode=memory") {
                return Err(
                    "file: URLs are for memory only, as in sqlite:file:NAME?mode=memory".into(),
                );
            }
            if name.is_empty() {
                return Err("the database in memory has no name".into());
            }
            return Ok(Self::memory(name));
        }
        let path = match rest.strip_prefix("//") {
            Some(path) if path.starts_with('/') => path,
            Some(_) => return Err("write sqlite:///absolute/path with three slashes".into()),
            None => rest,
        };
        if matches!(path.trim_start_matches('/'), ":memory:") {
            return Ok(Self::memory(":memory:"));
        }
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        if path.trim_matches('/').is_empty() {
            return Err("it names no file".into());
        }
        if path.contains('\0') {
            return Err("the path contains a NUL character".into());
        }
        Ok(Self::file(Path::new(path), base))
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.0
    }

    /// The kind of database.
    pub const fn dialect(&self) -> Dialect {
        match self.0 {
            Target::File(_) | Target::Memory(_) => Dialect::Sqlite,
            Target::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Path of the file, if it is a file.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Target::File(path) => Some(path),
            _ => None,
        }
    }
}

/// Formats the URL without its password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Target::File(path) => write!(formatter, "sqlite://{}", path.display()),
            Target::Memory(name) if name == ":memory:" => formatter.write_str("sqlite::memory:"),
            Target::Memory(name) => write!(formatter, "sqlite:file:{name}?mode=memory"),
            Target::Postgres(url) => formatter.write_str(&redact(url)),
        }
    }
}

/// Removes the password from a URL, both in the authority and in the options.
pub fn redact(url: &str) -> String {
    let mut shown = url.to_owned();
    if let Some(start) = url.find("//").map(|at| at + 2) {
        let end = url[start..]
            .find(['/', '?'])
            .map_or(url.len(), |at| start + at);
        // PostgreSQL clients take the first `@` as the end of the password, even after a `/` or `?`.
        let first = url
            .get(..8)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("postgres"))
            .then(|| url[start..].find('@'))
            .flatten();
        let last = url[start..end].rfind('@');
        if let Some(at) = last.max(first)
            && let Some(colon) = url[start..start + at].find(':')
        {
            shown.replace_range(start + colon + 1..start + at, "***");
        }
    }
    let mut from = 0;
    while let Some(at) = shown[from..].find("password=") {
        from += at + "password=".len();
        let to = shown[from..]
            .find('&')
            .map_or(shown.len(), |end| from + end);
        shown.replace_range(from..to, "***");
    }
    shown
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Resolves the symbolic links in the existing part of a path, so that different spellings become equal.
fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let mut missing = Vec::new();
    let mut existing = path.to_path_buf();
    loop {
        if let Ok(mut real) = existing.canonicalize() {
            real.extend(missing.iter().rev());
            return real;
        }
        match existing.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name.to_owned()),
            Some(component @ (Component::ParentDir | Component::CurDir)) => {
                missing.push(component.as_os_str().to_owned());
            }
            _ => return path.to_path_buf(),
        }
        existing.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::{DatabaseUrl, Path};

    fn parse(text: &str) -> Result<DatabaseUrl, crate::Error> {
        DatabaseUrl::parse(text, Path::new("/nowhere"))
    }

    #[test]
    fn spellings_of_one_database_are_equal() {
        assert_eq!(parse("sqlite:///a/b.db"), parse("sqlite:////a/b.db"));
        assert_eq!(parse("sqlite:b.db"), parse("sqlite:///nowhere/b.db"));
        assert_eq!(parse("sqlite::memory:"), parse("sqlite:///:memory:"));
        assert_eq!(parse("postgresql://u@h/d"), parse("postgres://u@h/d"));
        assert_ne!(
            parse("sqlite:file:a?mode=memory"),
            parse("sqlite:file:b?mode=memory")
        );
    }

    #[test]
    fn links_to_one_file_are_one_database() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("real");
        std::fs::create_dir(&real).expect("made");
        std::os::unix::fs::symlink(&real, folder.path().join("link")).expect("linked");
        let url_through =
            |name: &str| DatabaseUrl::file(&folder.path().join(name).join("x.db"), Path::new("/"));
        assert_eq!(url_through("real"), url_through("link"));
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in [
            "",
            "x",
            "mysql://h/d",
            "sqlite:",
            "sqlite://",
            "sqlite://host/x",
            "sqlite:file:x",
            "postgres:x",
            "postgres://h:port/d",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = parse("postgres://user:sec:ret@host/db?application_name=x").expect("a url");
        assert!(!url.to_string().contains("sec") && url.to_string().contains("user:***@host"));
        let url = parse("postgres://host/db?user=me&password=secret").expect("a url");
        assert!(!url.to_string().contains("secret"));
        for text in [
            "postgres://me:sec/ret@host/db",
            "postgres://me:sec?ret@host/db",
            "postgres://me@host/db?password=sec&password=secret",
        ] {
            let shown = super::redact(text);
            assert!(!shown.contains("sec") && !shown.contains("ret"), "{shown}");
        }
        let error = parse("postgres://me:secret@host:bad/db").expect_err("a bad port");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
