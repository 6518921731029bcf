//! A folder of this process in the system's temporary folder.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A folder that is removed on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn make() -> Result<Self, Failure> {
        sweep();
        let path = path();
        // An existing folder is not ours, because other users may write into the system's folder
        // too.
        let made = std::fs::create_dir(&path);
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

const PREFIX: &str = "braid-perf-";

fn path() -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()))
}

/// Removes the folders of killed processes, including one with our process id.
fn sweep() {
    remove();
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // The system refuses to remove the folder of another user.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes the folder. For signal handlers, after which nothing is dropped.
pub(crate) fn remove() {
    // The folder may be gone already.
    let _ = std::fs::remove_dir_all(path());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_ended_processes_are_removed_and_others_stay() {
        let folder = |pid: u32| std::env::temp_dir().join(format!("{PREFIX}{pid}"));
        let (dead, living) = (folder(u32::MAX), folder(1));
        for path in [&dead, &living] {
            std::fs::create_dir_all(path).expect("a folder for the test");
        }
        let ours = Scratch::make().expect("a folder of our own");
        assert!(!dead.exists() && living.exists() && ours.path().exists());
        std::fs::remove_dir(&living).expect("it is the test's");
        drop(ours);
        assert!(!path().exists());
    }
}
