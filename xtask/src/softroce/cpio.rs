//! Archives that Linux unpacks into its first file system: cpio's `newc` format
//! (`Documentation/driver-api/early-userspace/buffer-format.rst`).
//!
//! Archives may follow each other; a later one replaces files of an earlier one.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const FOLDER: u32 = 0o040_755;
const LINK: u32 = 0o120_777;
const FILE: u32 = 0o100_000;

/// An archive in the making. A folder must come before what is in it.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(super) fn folder(&mut self, path: &Path) {
        self.entry(path, FOLDER, &[]);
    }

    pub(super) fn link(&mut self, path: &Path, to: &Path) {
        self.entry(path, LINK, to.as_os_str().as_bytes());
    }

    /// A file with these permissions, as in `0o755`.
    pub(super) fn file(&mut self, path: &Path, permissions: u32, content: &[u8]) {
        self.entry(path, FILE | permissions, content);
    }

    /// Adds the contents of a folder in the order of names, under the paths that `place` returns.
    /// An entry for which it returns `None` is left out, with its contents.
    pub(super) fn tree(
        &mut self,
        root: &Path,
        place: &dyn Fn(&Path) -> Option<PathBuf>,
    ) -> io::Result<()> {
        self.level(root, root, place)
    }

    fn level(
        &mut self,
        root: &Path,
        folder: &Path,
        place: &dyn Fn(&Path) -> Option<PathBuf>,
    ) -> io::Result<()> {
        let mut paths =
            fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            let Some(target) = place(path.strip_prefix(root).expect("it was found there")) else {
                continue;
            };
            let kind = fs::symlink_metadata(&path)?;
            if kind.is_dir() {
                self.folder(&target);
                self.level(root, &path, place)?;
            } else if kind.is_symlink() {
                self.link(&target, &fs::read_link(&path)?);
            } else {
                self.file(&target, kind.permissions().mode() & 0o777, &fs::read(&path)?);
            }
        }
        Ok(())
    }

    /// The archive, ready to be followed by another.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) {
        self.entries += 1;
        let name = path.as_os_str().as_bytes();
        let size = u32::try_from(content.len()).expect("a file of an image is under 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("a path is short");
        // Inode, mode, owner, group, links, time, size, device, device of a node, name, check.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_header_of_hexadecimal_words_a_name_and_padded_content() {
        let mut archive = Archive::default();
        archive.file(Path::new("a"), 0o755, b"hello");
        let header = "070701000000010000 81ED0000000000000000000000010000000000000005000000000000\
                      0000000000000000000000000002 00000000"
            .replace(' ', "");
        assert_eq!(header.len(), 110);
        let mut expected = header.into_bytes();
        expected.extend_from_slice(b"a\0hello\0\0\0");
        assert_eq!(archive.bytes, expected);
        let whole = archive.finish();
        assert!(whole.ends_with(b"TRAILER!!!\0\0\0\0") && whole.len().is_multiple_of(4));
    }
}
