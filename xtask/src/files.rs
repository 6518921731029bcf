//! Files whose errors name them.

use std::fs;
use std::io;
use std::path::Path;

use crate::Failure;

/// Reads a file as text.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|e| cannot("read", path, &e))
}

/// Writes a file, and makes its folder if needed.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
    written.map_err(|e| cannot("write", path, &e))
}

/// Says what could not be done with a file or folder.
pub(crate) fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {error}", path.display()))
}
