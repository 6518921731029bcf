//! The result files of commands with several runs.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::json_file::JsonFile;

/// The requested files, opened before anything is measured.
pub(crate) struct ResultFiles<'a> {
    all: Vec<JsonFile>,
    folder: Option<&'a Path>,
}

impl<'a> ResultFiles<'a> {
    /// Creates `results.json` in a folder, and a file of any name.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn create(
        json: Option<&PathBuf>,
        folder: Option<&'a PathBuf>,
    ) -> Result<Self, Failure> {
        let mut all: Vec<JsonFile> = JsonFile::asked(json)?.into_iter().collect();
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(|why| Failure::Io {
                what: format!("cannot make {}", folder.display()),
                why,
            })?;
            all.push(JsonFile::create(&folder.join("results.json"))?);
        }
        Ok(ResultFiles { all, folder: folder.map(PathBuf::as_path) })
    }

    /// Returns the folder for plots, if one was requested.
    pub(crate) fn folder(&self) -> Option<&'a Path> {
        self.folder
    }

    /// Writes the results to all files.
    ///
    /// # Errors
    /// A file cannot be written, for example because the disk is full.
    pub(crate) fn write(self, results: &impl Serialize) -> Result<(), Failure> {
        self.all.into_iter().try_for_each(|file| file.write(results))
    }
}
