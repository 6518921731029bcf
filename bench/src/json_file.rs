//! A file for results, which is there before anything is measured.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::about::About;
use crate::failure::Failure;
use crate::stdio;

/// Open for writing. What is in it stays until there are results, and a file that was made for them goes if there are none.
pub(crate) struct JsonFile {
    path: PathBuf,
    file: File,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Made for these results.
    New,
    Old,
    StandardOutput,
}

/// What `--json` calls standard output.
const STANDARD_OUTPUT: &str = "-";

impl JsonFile {
    /// `-` is standard output, which is for JSON alone from then on.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        if path == Path::new(STANDARD_OUTPUT) {
            return Self::standard_output();
        }
        let (file, kind) = match File::options().write(true).create_new(true).open(path) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                (File::options().write(true).open(path), Kind::Old)
            }
            made => (made, Kind::New),
        };
        let file = file.map_err(|why| cannot_write(path, why))?;
        Ok(JsonFile { path: path.to_owned(), file, kind })
    }

    fn standard_output() -> Result<Self, Failure> {
        let file = stdio::take_for_json().map_err(Failure::Output)?;
        Ok(JsonFile { path: STANDARD_OUTPUT.into(), file, kind: Kind::StandardOutput })
    }

    pub(crate) fn is_standard_output(&self) -> bool {
        self.kind == Kind::StandardOutput
    }

    /// The one that the command line asks for, if it does.
    ///
    /// # Errors
    /// As [`JsonFile::create`].
    pub(crate) fn asked(path: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        path.map(|path| JsonFile::create(path)).transpose()
    }

    /// Writes an object, and in it what run it is of.
    ///
    /// # Errors
    /// The disk is full, or the like.
    pub(crate) fn write(mut self, results: &impl Serialize) -> Result<(), Failure> {
        let document = Document { run: About::this_run(), results };
        let text = serde_json::to_string_pretty(&document).expect("plain data has a JSON form");
        self.replace(&text).map_err(|why| match self.kind {
            Kind::StandardOutput => Failure::Output(why),
            _ => cannot_write(&self.path, why),
        })?;
        if self.kind == Kind::New {
            self.kind = Kind::Old;
        }
        Ok(())
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // Pipes and terminals have no length, and what stands in standard output is not ours.
        if self.kind != Kind::StandardOutput && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())?;
        self.file.write_all(b"\n")
    }
}

/// All that a file for results holds.
#[derive(Serialize)]
struct Document<'a, T> {
    run: About,
    #[serde(flatten)]
    results: &'a T,
}

impl Drop for JsonFile {
    fn drop(&mut self) {
        if self.kind == Kind::New {
            _ = fs::remove_file(&self.path);
        }
    }
}

fn cannot_write(path: &Path, why: io::Error) -> Failure {
    Failure::Io { what: format!("cannot write {}", path.display()), why }
}
