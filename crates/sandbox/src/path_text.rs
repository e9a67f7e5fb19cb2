//! Serializes absolute paths as lossless text, for journals (`#[serde(with = "crate::path_text")]`).

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::TreePath;
use serde::{Deserialize as _, Deserializer, Serializer, de, ser};

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let bytes = path.as_os_str().as_bytes();
    let relative = bytes
        .strip_prefix(b"/")
        .ok_or_else(|| ser::Error::custom("the path is not absolute"))?;
    let path = TreePath::from_bytes(relative).map_err(ser::Error::custom)?;
    serializer.collect_str(&format_args!("/{path}"))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    let relative = text
        .strip_prefix('/')
        .ok_or_else(|| de::Error::custom("the path is not absolute"))?;
    let path: TreePath = relative.parse().map_err(de::Error::custom)?;
    Ok(Path::new("/").join(path.as_path()))
}
