//! The directory that holds the entries.

use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use braid::environment;

use super::entries::{Content, Entry};

/// Everyone may read files of sysfs.
const FILE_MODE: u32 = 0o444;

/// Finds the directory of these entries, or creates it in the first suitable place.
///
/// # Errors
/// No place is suitable: the reasons, and the remedy.
pub(super) fn make(entries: &[Entry]) -> Result<PathBuf, String> {
    let name = name_of(entries);
    let mut reasons = Vec::new();
    for place in places() {
        match make_in(&place, &name, entries) {
            Ok(root) => return Ok(root),
            Err(error) => reasons.push(format!("{}: {error}", place.display())),
        }
    }
    Err(format!(
        "no place for the files of /dev/infiniband and /sys/class/infiniband, so programs that \
         look at them find no device ({}); set TMPDIR to a directory that this user may write to",
        reasons.join("; ")
    ))
}

/// Whether the directory still exists.
pub(super) fn is_there(root: &CString) -> bool {
    Path::new(OsStr::from_bytes(root.as_bytes())).is_dir()
}

/// The places for the directory, those in memory first.
fn places() -> Vec<PathBuf> {
    let named = |name: &str| {
        environment::variable(name).map(PathBuf::from).filter(|place| place.is_absolute())
    };
    let (runtime, temporary) = (named("XDG_RUNTIME_DIR"), named("TMPDIR"));
    let places = [runtime, Some("/dev/shm".into()), temporary, Some("/tmp".into())];
    places.into_iter().flatten().collect()
}

/// The name of the directory. The user is part of the name, because users share `/dev/shm` and
/// `/tmp`.
fn name_of(entries: &[Entry]) -> String {
    let mut hasher = DefaultHasher::new();
    entries.hash(&mut hasher);
    format!("braid-device-files-{}-{:016x}", user(), hasher.finish())
}

fn user() -> u32 {
    // SAFETY: no pointers are passed.
    unsafe { libc::geteuid() }
}

/// Creates the directory under another name first, so that a directory of the final name is
/// complete.
fn make_in(place: &Path, name: &str, entries: &[Entry]) -> io::Result<PathBuf> {
    let place = place.canonicalize()?;
    let root = place.join(name);
    if is_ours(&root)? {
        return Ok(root);
    }
    let unfinished = place.join(format!("{name}.{}", std::process::id()));
    // A process of the same number may have left one behind.
    let _ = fs::remove_dir_all(&unfinished);
    let made = fill(&unfinished, entries).and_then(|()| fs::rename(&unfinished, &root));
    match made {
        Ok(()) => Ok(root),
        Err(error) => {
            // No other process knows the unfinished directory.
            let _ = fs::remove_dir_all(&unfinished);
            // Another process was faster.
            if is_ours(&root)? { Ok(root) } else { Err(error) }
        }
    }
}

/// Whether the directory exists.
///
/// # Errors
/// Another user has made it, or others may write to it.
fn is_ours(root: &Path) -> io::Result<bool> {
    match root.symlink_metadata() {
        Ok(found) if found.is_dir() && found.uid() == user() && found.mode() & 0o022 == 0 => {
            Ok(true)
        }
        Ok(_) => {
            let text = format!("{} is not a directory of this user alone", root.display());
            Err(io::Error::new(ErrorKind::PermissionDenied, text))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn fill(root: &Path, entries: &[Entry]) -> io::Result<()> {
    // Others may read the directory but not write to it, whatever the umask is.
    DirBuilder::new().mode(0o755).create(root)?;
    for entry in entries {
        let path = root.join(&entry.path);
        DirBuilder::new().recursive(true).mode(0o755).create(path.parent().unwrap_or(root))?;
        match &entry.content {
            Content::Text(text) => {
                fs::write(&path, format!("{text}\n"))?;
                fs::set_permissions(&path, PermissionsExt::from_mode(FILE_MODE))?;
            }
            Content::Link(target) => symlink(target, &path)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    fn place(name: &str) -> PathBuf {
        let place = env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("a folder for the test");
        place
    }

    fn entries() -> Vec<Entry> {
        let entry = |path: &str, content| Entry { path: path.into(), content };
        vec![
            entry("sys/class/infiniband/a/state", Content::Text("4: ACTIVE".to_owned())),
            entry("dev/infiniband/a", Content::Link("/dev/null".into())),
        ]
    }

    #[test]
    fn a_directory_is_made_once_and_found_again() {
        let place = place("braid-files-made");
        let root = make_in(&place, "d", &entries()).expect("it is made");
        let state = fs::read_to_string(root.join("sys/class/infiniband/a/state"));
        assert_eq!(state.expect("it is there"), "4: ACTIVE\n");
        assert!(root.join("dev/infiniband/a").exists());
        fs::write(root.join("mark"), "").expect("ours to write");
        assert_eq!(make_in(&place, "d", &entries()).expect("it is found"), root);
        assert!(root.join("mark").exists() && fs::read_dir(&place).unwrap().count() == 1);
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let place = place("braid-files-open");
        let root = place.join("d");
        fs::create_dir(&root).expect("a folder for the test");
        fs::set_permissions(&root, PermissionsExt::from_mode(0o777)).expect("ours to change");
        let error = make_in(&place, "d", &entries()).expect_err("others may write to it");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }

    #[test]
    fn other_entries_have_another_name() {
        let mut other = entries();
        other[0].content = Content::Text("1: DOWN".to_owned());
        assert_ne!(name_of(&entries()), name_of(&other));
        assert_eq!(name_of(&entries()), name_of(&entries()));
    }
}
