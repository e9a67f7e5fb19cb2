//! `man`: man pages of all commands, generated from the definitions of the command line.

use std::io::{self, Write as _};
use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;
use cleveragents_domain::Code;
use serde_json::json;

use super::{counted, write_file};
use crate::arguments::Arguments;
use crate::output::{CommandError, Report, path_text};

pub(crate) fn run(folder: &Path) -> Result<Report, CommandError> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let message = format!("`{}` cannot be created", folder.display());
        CommandError::new(Code::FileAccess, message)
            .caused_by(&error)
            .with_hint("choose a folder in which you can write")
    })?;
    let mut command = Arguments::command();
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages).map_err(|error| {
        CommandError::internal("a man page cannot be generated").caused_by(&error)
    })?;
    for (name, page) in &pages {
        write_file(&folder.join(name), page)?;
    }
    Ok(Report::new("man")
        .data(json!({"folder": path_text(folder), "pages": pages.len()}))
        .ok(format!("{} written", counted(pages.len(), "man page")))
        .info(format!(
            "read one with `man -l {}`",
            folder.join("agents.1").display()
        )))
}

/// Adds the pages of a command and of its subcommands.
fn collect(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let man = Man::new(command.clone()).source(concat!("agents ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut subcommands = command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set());
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = command.get_after_help() {
        page.write_all(b".SH NOTES\n.nf\n")?;
        for line in notes.to_string().lines() {
            writeln!(page, "{}", escaped(line))?;
        }
        page.write_all(b".fi\n")?;
    }
    pages.push((man.get_filename(), page));
    subcommands.try_for_each(|subcommand| collect(subcommand, pages))
}

/// A line of roff that shows the text unchanged.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}
