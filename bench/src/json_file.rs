//! Result files, which are opened before anything is measured.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::about::About;
use crate::failure::Failure;
use crate::stdio;

/// An open result file. The old content stays until there are results. A new file is removed if
/// there are none.
pub(crate) struct JsonFile {
    path: PathBuf,
    file: File,
    kind: FileKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileKind {
    /// Created for these results.
    New,
    Old,
    StandardOutput,
}

/// New files without results, which a signal handler removes.
static NEW: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn with_new(change: impl FnOnce(&mut Vec<PathBuf>)) {
    change(&mut NEW.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Removes the files without results. For signal handlers, after which nothing is dropped.
pub(crate) fn remove_new() {
    with_new(|files| {
        for file in files.drain(..) {
            _ = fs::remove_file(file);
        }
    });
}

/// The name of standard output for `--json`.
const STANDARD_OUTPUT: &str = "-";

impl JsonFile {
    /// Opens a file. `-` is standard output, which from then on is for JSON only.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        if path == Path::new(STANDARD_OUTPUT) {
            return Self::standard_output();
        }
        let (file, kind) = match File::options().write(true).create_new(true).open(path) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                (File::options().write(true).open(path), FileKind::Old)
            }
            made => (made, FileKind::New),
        };
        let file = file.map_err(|why| cannot_write(path, why))?;
        if kind == FileKind::New {
            with_new(|files| files.push(path.to_owned()));
        }
        Ok(JsonFile { path: path.to_owned(), file, kind })
    }

    fn standard_output() -> Result<Self, Failure> {
        let file = stdio::take_for_json().map_err(Failure::Output)?;
        Ok(JsonFile { path: STANDARD_OUTPUT.into(), file, kind: FileKind::StandardOutput })
    }

    pub(crate) fn is_standard_output(&self) -> bool {
        self.kind == FileKind::StandardOutput
    }

    /// Opens the file that the command line requests, if any.
    ///
    /// # Errors
    /// As [`JsonFile::create`].
    pub(crate) fn asked(path: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        path.map(|path| JsonFile::create(path)).transpose()
    }

    /// Writes an object with the header of the run.
    ///
    /// # Errors
    /// The file cannot be written, for example because the disk is full.
    pub(crate) fn write(mut self, results: &impl Serialize) -> Result<(), Failure> {
        let document = Document { run: About::this_run(), results };
        let text = serde_json::to_string_pretty(&document).expect("plain data has a JSON form");
        self.replace(&text).map_err(|why| match self.kind {
            FileKind::StandardOutput => Failure::Output(why),
            _ => cannot_write(&self.path, why),
        })?;
        self.is_kept();
        Ok(())
    }

    fn is_kept(&mut self) {
        self.kind = FileKind::Old;
        with_new(|files| files.retain(|file| *file != self.path));
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // Pipes and terminals have no length, and earlier content of standard output is not ours.
        if self.kind != FileKind::StandardOutput && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())?;
        self.file.write_all(b"\n")
    }
}

/// The content of a result file.
#[derive(Serialize)]
struct Document<'a, T> {
    run: About,
    #[serde(flatten)]
    results: &'a T,
}

impl Drop for JsonFile {
    fn drop(&mut self) {
        if self.kind == FileKind::New {
            _ = fs::remove_file(&self.path);
            self.is_kept();
        }
    }
}

fn cannot_write(path: &Path, why: io::Error) -> Failure {
    Failure::Io { what: format!("cannot write {}", path.display()), why }
}
