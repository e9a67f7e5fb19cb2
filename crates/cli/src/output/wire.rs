//! Reports and errors on their way from a server to a command line, which prints them as if they were its own.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cleveragents_domain::Code;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::block::Block;
use super::document::{Document, Target};
use super::error::CommandError;
use super::report::{Data, Message, Report};

/// A report as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireReport {
    data: Value,
    blocks: Vec<Block>,
    messages: Vec<Message>,
    failure: Option<WireError>,
    passed_on: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    document: Option<WireDocument>,
}

/// A document as it travels.
#[derive(Debug, Serialize, Deserialize)]
struct WireDocument {
    /// In Base64.
    content: String,
    file: Option<Target>,
}

/// An error as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireError {
    code: String,
    message: String,
    hint: Option<String>,
    details: Value,
    causes: Vec<String>,
}

impl From<&Report> for WireReport {
    fn from(report: &Report) -> Self {
        Self {
            data: report.data.to_tree(),
            blocks: report.blocks.clone(),
            messages: report.messages.clone(),
            failure: report.failure.as_ref().map(WireError::from),
            passed_on: report.passed_on,
            document: report.document.as_ref().map(|document| WireDocument {
                content: BASE64_STANDARD.encode(&document.content),
                file: document.file.clone(),
            }),
        }
    }
}

impl WireReport {
    /// The report of a command that ran elsewhere.
    pub(crate) fn into_report(self, command: &'static str) -> Result<Report, CommandError> {
        let document = self.document.map(|document| {
            let content = BASE64_STANDARD.decode(&document.content);
            let content = content.map_err(|error| {
                CommandError::new(Code::ServerProtocol, "the server sent a broken document")
                    .caused_by(&error)
            })?;
            let file = document.file;
            Ok::<_, CommandError>(Document { content, file })
        });
        Ok(Report {
            document: document.transpose()?,
            data: Data::Tree(self.data),
            blocks: self.blocks,
            messages: self.messages,
            failure: self.failure.map(WireError::into_error),
            passed_on: self.passed_on,
            ..Report::new(command)
        })
    }
}

impl From<&CommandError> for WireError {
    fn from(error: &CommandError) -> Self {
        let (code, message, hint, details, causes) = error.parts();
        Self {
            code: code.as_str().to_owned(),
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
            details: details.clone(),
            causes: causes.to_vec(),
        }
    }
}

impl WireError {
    /// The error of a command that ran elsewhere. A code that is not known here says as much.
    pub(crate) fn into_error(self) -> CommandError {
        let mut codes = Code::ALL.iter().copied();
        let code = codes.find(|code| code.as_str() == self.code);
        let message = match code {
            Some(_) => self.message,
            None => format!("{} ({})", self.message, self.code),
        };
        CommandError::from_parts(
            code.unwrap_or(Code::ServerProtocol),
            message,
            self.hint,
            self.details,
            self.causes,
        )
    }
}
