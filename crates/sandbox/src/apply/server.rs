//! Apply for a database on a server: parses its script; a preview also runs it.

use cleveragents_domain::FileKind;

use super::{Part, PlannedPart};
use crate::error::Error;
use crate::server::{SCRIPT, Script, ServerChange};

impl Part<'_> {
    /// Parses the script. A preview also runs it and rolls it back. An apply runs it before it changes other resources,
    /// in a transaction that it commits last.
    pub(super) fn postgres(&mut self) -> Result<PlannedPart, Error> {
        let mut preview = self.preview(&Vec::new(), Vec::new());
        let script = self.script()?;
        if script.statements.is_empty() {
            return Ok((preview, Vec::new()));
        }
        if self.journal.has_server() {
            return Err(self.cannot(
                "a second database on a server: only one can be changed together with the rest",
            ));
        }
        preview.statements = if self.options.is_preview {
            ServerChange::preview(&script, self.servers.connect(&self.member.alias)?)?
        } else {
            script.planned()
        };
        self.journal
            .set_server(ServerChange::new(&self.member.alias, script));
        Ok((preview, Vec::new()))
    }

    /// The captured script; empty if the file does not exist.
    fn script(&self) -> Result<Script, Error> {
        let state = self.changes.iter().find_map(|change| change.after);
        let Some(state) = state else {
            return Script::parse(SCRIPT, b"");
        };
        if state.kind() != FileKind::File {
            return Err(self.cannot("it is not a file"));
        }
        let content = self.objects.read(state.hash).ok().flatten();
        let content = content.ok_or_else(|| {
            Error::ContentLost(
                self.changes
                    .iter()
                    .map(|change| change.path.clone())
                    .collect(),
            )
        })?;
        Script::parse(SCRIPT, &content)
    }
}
