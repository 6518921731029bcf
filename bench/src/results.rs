//! Where the results of many runs go.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::json_file::JsonFile;

/// The files that were asked for, open before anything is measured.
pub(crate) struct ResultFiles<'a> {
    all: Vec<JsonFile>,
    folder: Option<&'a Path>,
}

impl<'a> ResultFiles<'a> {
    /// `results.json` in a folder, which is made, and a file of any name.
    ///
    /// # Errors
    /// One of them cannot be written.
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

    /// The folder for plots, if one was asked for.
    pub(crate) fn folder(&self) -> Option<&'a Path> {
        self.folder
    }

    /// # Errors
    /// The disk is full, or the like.
    pub(crate) fn write(self, results: &impl Serialize) -> Result<(), Failure> {
        self.all.into_iter().try_for_each(|file| file.write(results))
    }
}
