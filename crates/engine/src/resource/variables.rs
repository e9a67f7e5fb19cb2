//! `${NAME}` and `${NAME:default}` in the texts of a file.
//!
//! They are replaced in values that were parsed, so that what a variable holds can never be taken for
//! a part of the file.

use super::error::ResourceError;

/// Gives the value of a variable.
pub(super) type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

/// Puts the values of variables into texts.
pub(super) struct Expand<'e> {
    /// The whole file, to find the place of a variable in it.
    pub(super) text: &'e str,
    pub(super) variables: Variables<'e>,
}

impl Expand<'_> {
    /// Replaces `${NAME}` and `${NAME:default}` in a text.
    pub(super) fn text(&self, text: &mut String) -> Result<(), ResourceError> {
        let mut rest = text.as_str();
        let mut expanded = String::new();
        while let Some(start) = rest.find("${") {
            let Some(end) = rest[start..].find('}').map(|end| start + end) else {
                break;
            };
            expanded.push_str(&rest[..start]);
            let inside = &rest[start + 2..end];
            let (variable, default) = match inside.split_once(':') {
                Some((variable, default)) => (variable, Some(default)),
                None => (inside, None),
            };
            let value = (self.variables)(variable)
                .or_else(|| default.map(|default| default.trim_start_matches('-').to_owned()));
            let Some(value) = value else {
                return Err(self.unset(variable));
            };
            expanded.push_str(&value);
            rest = &rest[end + 1..];
        }
        expanded.push_str(rest);
        *text = expanded;
        Ok(())
    }

    fn unset(&self, variable: &str) -> ResourceError {
        let start = self.text.find(&format!("${{{variable}"));
        let place = start.and_then(|start| {
            let before = self.text.get(..start)?;
            let line = before.matches('\n').count() as u64 + 1;
            let column = before.rsplit('\n').next()?.chars().count() as u64 + 1;
            Some((line, column))
        });
        ResourceError::Malformed {
            message: format!("the variable `{variable}` is not set"),
            place,
            nearest: None,
        }
    }
}
