//! A file for results, which is there before anything is measured.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;

/// Open for writing. What is in it stays until there are results, and a file that was made for them goes if there are none.
pub(crate) struct JsonFile {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl JsonFile {
    /// # Errors
    /// It cannot be written.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let (file, is_new) = match File::options().write(true).create_new(true).open(path) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                (File::options().write(true).open(path), false)
            }
            made => (made, true),
        };
        let file = file.map_err(|why| cannot_write(path, why))?;
        Ok(JsonFile { path: path.to_owned(), file, is_new })
    }

    /// The one that the command line asks for, if it does.
    ///
    /// # Errors
    /// As [`JsonFile::create`].
    pub(crate) fn asked(path: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        path.map(|path| JsonFile::create(path)).transpose()
    }

    /// # Errors
    /// The disk is full, or the like.
    pub(crate) fn write(mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).expect("plain data has a JSON form");
        self.replace(&text).map_err(|why| cannot_write(&self.path, why))?;
        self.is_new = false;
        Ok(())
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // Pipes and terminals have no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())?;
        self.file.write_all(b"\n")
    }
}

impl Drop for JsonFile {
    fn drop(&mut self) {
        if self.is_new {
            _ = fs::remove_file(&self.path);
        }
    }
}

fn cannot_write(path: &Path, why: io::Error) -> Failure {
    Failure::Io { what: format!("cannot write {}", path.display()), why }
}
