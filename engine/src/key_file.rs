//! Key files, which only their owner may read, and lists of allowed keys, which only their owner
//! may change.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use braid_keys::{AllowList, AllowListError, Key, KeyError, PrivateKey, PublicKey, SecretKey};
use zeroize::Zeroizing;

use crate::random;

/// Bytes of the longest key file.
const LONGEST: u64 = 4096;
/// Bytes of the longest list of allowed keys.
const LONGEST_LIST: u64 = 1 << 20;
/// The permissions of group and others.
const OTHERS: u32 = 0o077;
/// The write permissions of group and others.
const OTHERS_WRITE: u32 = 0o022;

/// The reason why a key file was not read or not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The system refused to read the file.
    #[error("the key file {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The system refused to create the file. An existing file is not overwritten.
    #[error("the key file {path} cannot be made: {source}")]
    Make {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The path names a directory, a device or a socket.
    #[error("the key file {path} is not a regular file; name one")]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Other users may read or change the file.
    #[error("the key file {path} is open to others (mode {mode:03o}); run `chmod 600 {path}`")]
    Open {
        /// The file.
        path: PathBuf,
        /// The permissions of the file.
        mode: u32,
    },
    /// Other users may change the list of allowed keys.
    #[error(
        "the key file {path} can be changed by others (mode {mode:03o}); run `chmod go-w {path}`"
    )]
    Writable {
        /// The file.
        path: PathBuf,
        /// The permissions of the file.
        mode: u32,
    },
    /// The file belongs to another user, who can read and change it whatever its permissions.
    #[error("the key file {path} belongs to user {owner}; it has to be this user's own, or root's")]
    Owner {
        /// The file.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// The file is too long for a key file.
    #[error("the key file {path} has more than {most} bytes, so it is no key file; check its name")]
    Long {
        /// The file.
        path: PathBuf,
        /// The largest valid size in bytes.
        most: u64,
    },
    /// The content of the file is not a key.
    #[error("the key file {path} holds no key: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: KeyError,
    },
    /// No key can be made.
    #[error("no key is made for {path}: {source}")]
    Absent {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: KeyError,
    },
    /// The content of the file is not a list of allowed keys.
    #[error("the key file {path} is not a list of allowed keys: {source}")]
    List {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: AllowListError,
    },
}

/// Reads the key of a file that only its owner, this user or root, can read.
///
/// # Errors
/// See [`KeyFileError`]. No error reveals the content.
pub fn read_key(path: impl AsRef<Path>) -> Result<SecretKey, KeyFileError> {
    let path = path.as_ref();
    let text = read(path, LONGEST, OTHERS, |path, mode| KeyFileError::Open { path, mode })?;
    let key = SecretKey::parse(&text);
    key.map_err(|source| KeyFileError::Content { path: path.to_owned(), source })
}

/// Reads a list of allowed keys from a file that only its owner, this user or root, can change.
///
/// # Errors
/// See [`KeyFileError`]. No error reveals the content.
pub fn read_allowed_keys(path: impl AsRef<Path>) -> Result<AllowList, KeyFileError> {
    let path = path.as_ref();
    let exposed = |path, mode| KeyFileError::Writable { path, mode };
    let text = read(path, LONGEST_LIST, OTHERS_WRITE, exposed)?;
    let list = AllowList::parse(&text);
    list.map_err(|source| KeyFileError::List { path: path.to_owned(), source })
}

/// Reads a file of at most `most` bytes. `exposed` makes the error for a file with a permission of
/// `forbidden`.
fn read(
    path: &Path,
    most: u64,
    forbidden: u32,
    exposed: impl FnOnce(PathBuf, u32) -> KeyFileError,
) -> Result<Zeroizing<String>, KeyFileError> {
    let unreadable = |source| KeyFileError::Read { path: path.to_owned(), source };
    // Without this flag, opening a FIFO would block.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(unreadable)?;
    // The metadata of the open file, not of the file that has the name by now.
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(KeyFileError::NoFile { path: path.to_owned() });
    }
    let mode = about.mode() & 0o777;
    if mode & forbidden != 0 {
        return Err(exposed(path.to_owned(), mode));
    }
    check_owner(path, &about)?;
    // The buffer never grows, so that no copy of a part stays in memory.
    let room = about.len().min(most) as usize + 1;
    let mut text = Zeroizing::new(String::with_capacity(room));
    file.take(most + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > most {
        return Err(KeyFileError::Long { path: path.to_owned(), most });
    }
    Ok(text)
}

fn check_owner(path: &Path, about: &fs::Metadata) -> Result<(), KeyFileError> {
    // SAFETY: it only asks for the number of this user, and cannot fail.
    let user = unsafe { libc::geteuid() };
    match about.uid() {
        owner if owner == user || owner == 0 => Ok(()),
        owner => Err(KeyFileError::Owner { path: path.to_owned(), owner }),
    }
}

/// Creates a file with a new random pre-shared key, which only this user can read.
///
/// # Errors
/// [`KeyFileError::Make`]: the file exists or cannot be written.
pub fn make_key(path: impl AsRef<Path>) -> Result<(), KeyFileError> {
    check_built(path.as_ref())?;
    write_new(path.as_ref(), &Key::new(random::bytes()).to_text())
}

/// Fails in a build without keys, whose keys would be of no use.
fn check_built(path: &Path) -> Result<(), KeyFileError> {
    match braid_keys::HAS_CRYPTO {
        true => Ok(()),
        false => Err(KeyFileError::Absent { path: path.to_owned(), source: KeyError::Absent }),
    }
}

/// Creates a file with a new random private key, which only this user can read. Returns the public
/// key for the lists of the peers.
///
/// # Errors
/// As for [`make_key`].
pub fn make_private_key(path: impl AsRef<Path>) -> Result<PublicKey, KeyFileError> {
    check_built(path.as_ref())?;
    let key = PrivateKey::new(random::bytes());
    write_new(path.as_ref(), &key.to_text())?;
    Ok(key.public())
}

fn write_new(path: &Path, text: &str) -> Result<(), KeyFileError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).inspect_err(|_| {
            // A partial key is useless. If the file cannot be removed either, the first error is
            // enough.
            let _ = fs::remove_file(path);
        })
    });
    written.map_err(|source| KeyFileError::Make { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder that is removed after the test.
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

    #[test]
    fn a_private_key_has_its_public_key_in_lists_that_others_do_not_change() {
        let folder = Folder::new("key-static");
        let (path, list) = (folder.0.join("own"), folder.0.join("allowed"));
        let public = make_private_key(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let SecretKey::Private(own) = read_key(&path).unwrap() else { panic!("not private") };
        assert_eq!(own.public(), public);
        fs::write(&list, format!("{public} until 2030-01-01 # node\n")).unwrap();
        for (mode, is_good) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&list, fs::Permissions::from_mode(mode)).unwrap();
            match read_allowed_keys(&list) {
                Ok(allowed) => assert_eq!((allowed.keys()[0].key, is_good), (public, true)),
                Err(error) => {
                    let told =
                        matches!(error, KeyFileError::Writable { mode: told, .. } if told == mode);
                    assert!(told && !is_good, "{error}");
                }
            }
        }
        fs::set_permissions(&list, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&list, "nobody").unwrap();
        assert!(matches!(read_allowed_keys(&list), Err(KeyFileError::List { .. })), "no list");
        fs::write(&list, "#\n".repeat(1 << 20)).unwrap();
        assert!(matches!(read_allowed_keys(&list), Err(KeyFileError::Long { .. })), "endless");
        let private = read_allowed_keys(&path).unwrap_err().to_string();
        assert!(private.contains("private key"), "{private}");
        assert!(matches!(read_key(&list), Err(KeyFileError::Long { .. })), "a list");
    }
}
