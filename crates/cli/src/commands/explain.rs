//! `explain`: prints the documentation page of an error code, which is part of the program.

use cleveragents_domain::{Code, nearest};
use serde_json::json;

use crate::context::Context;
use crate::output::{CommandError, Markdown, Report};

/// Codes and their pages.
static PAGES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

pub(crate) fn run(context: &Context, code: &str) -> Result<Report, CommandError> {
    let code = code.trim().to_uppercase();
    let full_code = if code.starts_with("CA-") {
        code
    } else {
        format!("CA-{code:0>4}")
    };
    let page = PAGES.iter().find(|(known, _)| *known == full_code);
    let Some((code, page)) = page else {
        let known = PAGES.iter().map(|(known, _)| *known);
        let hint = match nearest::best(&full_code, known) {
            Some(similar) => format!("did you mean `agents explain {similar}`?"),
            None => {
                "error messages print their code in brackets, such as `error[CA-0645]`".to_owned()
            }
        };
        let message = format!("`{full_code}` is not an error code");
        return Err(CommandError::new(Code::Usage, message).with_hint(hint));
    };
    let report = Report::new("explain").data(json!({"code": code, "page": page}));
    let (paint, columns) = context.printer.canvas();
    Ok(if context.printer.draws() {
        report.text(Markdown::drawn(paint, columns, page))
    } else {
        report.text((*page).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::PAGES;

    #[test]
    fn every_error_code_has_a_page() {
        for code in cleveragents_domain::Code::ALL {
            let found = PAGES.iter().any(|(known, _)| *known == code.as_str());
            assert!(found, "{} has no page", code.as_str());
        }
    }
}
