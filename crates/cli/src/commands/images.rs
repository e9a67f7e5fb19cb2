//! Images that a message names.

use std::path::Path;

use cleveragents_application::PromptImage;

use crate::context::Context;
use crate::output::{Cell, CommandError, path_text};

/// The images that a message names, relative to the working folder.
pub(crate) fn prompt_images(
    context: &Context,
    message: Option<&str>,
) -> Result<Vec<PromptImage>, CommandError> {
    let environment = &context.environment;
    let folder = environment
        .working_folder()
        .unwrap_or_else(|| Path::new("/"));
    let home = environment.text("HOME");
    let home = home.as_deref().map(Path::new);
    let message = message.unwrap_or_default();
    Ok(cleveragents_application::prompt_images(
        message, folder, home,
    )?)
}

/// Line for an image that is sent with a message.
pub(crate) fn image_line(image: &PromptImage) -> String {
    let size = Cell::Bytes(image.data.len() as u64);
    format!(
        "image {} ({}, {})",
        path_text(&image.path),
        image.media_type,
        size.text()
    )
}
