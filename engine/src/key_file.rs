//! Key files: only their owner may read them.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use braid_keys::{Key, KeyError};
use zeroize::Zeroizing;

use crate::random;

/// Bytes of the longest key file.
const LONGEST: u64 = 4096;
/// The permissions of group and others.
const OTHERS: u32 = 0o077;

/// Why a key file was not read, or not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The system did not let us.
    #[error("the key file {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system did not let us make it; one that exists is not overwritten.
    #[error("the key file {path} cannot be made: {source}")]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a directory, a device or a socket.
    #[error("the key file {path} is no file")]
    NoFile {
        /// What was named.
        path: PathBuf,
    },
    /// Somebody else may read or change it.
    #[error("the key file {path} is open to others (mode {mode:03o}); run `chmod 600 {path}`")]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to another user, who can read it whatever its permissions are.
    #[error("the key file {path} belongs to user {owner}; it has to be this user's own, or root's")]
    Owner {
        /// The file.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// It is longer than any key file.
    #[error("the key file {path} has more than {LONGEST} bytes; it is no key file")]
    Long {
        /// The file.
        path: PathBuf,
    },
    /// What it says is no key.
    #[error("the key file {path} holds no key: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: KeyError,
    },
}

/// Reads the key of a file that nobody but its owner, this user or root, can read.
///
/// # Errors
/// See [`KeyFileError`]. No error shows anything of the content.
pub fn read_key(path: impl AsRef<Path>) -> Result<Key, KeyFileError> {
    let path = path.as_ref();
    let unreadable = |source| KeyFileError::Read { path: path.to_owned(), source };
    // A FIFO would otherwise be waited for.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(unreadable)?;
    // Of what is open, not of what has that name by now.
    check(path, &file.metadata().map_err(unreadable)?)?;
    let mut text = Zeroizing::new(String::with_capacity(LONGEST as usize + 1));
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LONGEST {
        return Err(KeyFileError::Long { path: path.to_owned() });
    }
    Key::parse(&text).map_err(|source| KeyFileError::Content { path: path.to_owned(), source })
}

fn check(path: &Path, about: &fs::Metadata) -> Result<(), KeyFileError> {
    let path = path.to_owned();
    // SAFETY: it only asks for the number of this user, and cannot fail.
    let user = unsafe { libc::geteuid() };
    if !about.is_file() {
        return Err(KeyFileError::NoFile { path });
    }
    if about.mode() & OTHERS != 0 {
        return Err(KeyFileError::Open { path, mode: about.mode() & 0o777 });
    }
    match about.uid() {
        owner if owner == user || owner == 0 => Ok(()),
        owner => Err(KeyFileError::Owner { path, owner }),
    }
}

/// Makes a file with a new random key, which only this user can read.
///
/// # Errors
/// [`KeyFileError::Make`]: it exists, or cannot be written.
pub fn make_key(path: impl AsRef<Path>) -> Result<(), KeyFileError> {
    let path = path.as_ref();
    let text = Key::new(random::bytes()).to_text();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).inspect_err(|_| {
            // Half a key is none; that it cannot be removed is not worth another error.
            let _ = fs::remove_file(path);
        })
    });
    written.map_err(|source| KeyFileError::Make { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("braid-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_made_key_is_its_owners_alone_and_never_overwritten() {
        let folder = Folder::new("key-made");
        let path = folder.0.join("key");
        make_key(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let key = read_key(&path).unwrap();
        assert!(matches!(make_key(&path), Err(KeyFileError::Make { .. })));
        assert_eq!(read_key(&path).unwrap(), key);
        make_key(folder.0.join("other")).unwrap();
        assert_ne!(read_key(folder.0.join("other")).unwrap(), key);
    }

    #[test]
    fn files_that_will_not_do_are_refused_by_name() {
        let folder = Folder::new("key-refused");
        let path = folder.0.join("key");
        assert!(matches!(read_key(&path), Err(KeyFileError::Read { .. })), "none");
        assert!(matches!(read_key(&folder.0), Err(KeyFileError::NoFile { .. })), "a folder");
        make_key(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = read_key(&path).unwrap_err();
            assert!(matches!(error, KeyFileError::Open { mode: told, .. } if told == mode));
            let text = error.to_string();
            assert!(text.contains(path.to_str().unwrap()) && text.contains("chmod 600"), "{text}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert!(matches!(read_key(&path), Err(KeyFileError::Content { .. })), "short");
        fs::write(&path, [0xFF, 0xFE]).unwrap();
        assert!(matches!(read_key(&path), Err(KeyFileError::Read { .. })), "no text");
        fs::write(&path, "# ".repeat(5000)).unwrap();
        assert!(matches!(read_key(&path), Err(KeyFileError::Long { .. })), "endless");
        fs::remove_file(&path).unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: it is a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(matches!(read_key(&path), Err(KeyFileError::NoFile { .. })), "a FIFO");
    }
}
