//! A folder of our own in the system's temporary one.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Goes with this value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn make() -> Result<Self, Failure> {
        let path = path();
        let made = std::fs::create_dir_all(&path);
        made.map_err(|why| Failure::Io { what: format!("cannot make {}", path.display()), why })?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove();
    }
}

fn path() -> PathBuf {
    std::env::temp_dir().join(format!("braid-perf-{}", std::process::id()))
}

/// For signal handlers, after which nothing is dropped.
pub(crate) fn remove() {
    // It may be gone already, which is just as well.
    let _ = std::fs::remove_dir_all(path());
}
