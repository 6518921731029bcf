//! The paths of RDMA device files and of their stand-ins.

use std::ffi::{CStr, c_char, c_int};
use std::io::Write;
use std::mem::{MaybeUninit, transmute};
use std::ptr;
use std::sync::OnceLock;

/// The directories that have stand-ins. Other files in them are hidden.
const PLACES: [&CStr; 5] = [
    c"/dev/infiniband",
    c"/sys/class/infiniband",
    c"/sys/class/infiniband_verbs",
    c"/sys/class/misc/rdma_cm",
    c"/sys/devices/virtual/braid",
];
/// The directory of device files.
const DEV: &CStr = PLACES[0];

/// The length of the longest path, with its end.
pub(crate) const PATH_MAX: usize = libc::PATH_MAX as usize;

/// Room for the path of a stand-in.
pub(crate) struct Room([MaybeUninit<u8>; PATH_MAX]);

impl Room {
    pub(crate) fn new() -> Self {
        Room([MaybeUninit::uninit(); PATH_MAX])
    }

    /// The path of the stand-in, or the path itself if it has none. A relative path begins at the
    /// open directory `dir`, or at the working directory.
    ///
    /// # Safety
    /// `path` is null or points to a string.
    pub(crate) unsafe fn stand_in(&mut self, dir: c_int, path: *const c_char) -> *const c_char {
        // SAFETY: by the caller's promise.
        if unsafe { may_be_relative(path) } {
            let mut whole = Room::new();
            // SAFETY: as above; `join` returns null or a string.
            return unsafe {
                let whole = whole.join(dir, path);
                self.of(whole).unwrap_or(path)
            };
        }
        // SAFETY: by the caller's promise.
        unsafe { self.of(path) }.unwrap_or(path)
    }

    /// The stand-in of an absolute path.
    ///
    /// # Safety
    /// `path` is null or points to a string.
    unsafe fn of(&mut self, path: *const c_char) -> Option<*const c_char> {
        // SAFETY: by the caller's promise.
        if !unsafe { leads_to(path, &PLACES) } {
            return None;
        }
        // SAFETY: as above.
        let path = unsafe { CStr::from_ptr(path) };
        self.write(&[root()?.to_bytes(), path.to_bytes_with_nul()])
    }

    /// The absolute path of a relative one. Null: the directory does not exist.
    ///
    /// # Safety
    /// `path` points to a string.
    unsafe fn join(&mut self, dir: c_int, path: *const c_char) -> *const c_char {
        let mut link = [0u8; 32];
        let name: &[u8] = if dir == libc::AT_FDCWD {
            b"/proc/self/cwd\0"
        } else {
            // The buffer has room for any number.
            _ = write!(&mut link[..], "/proc/self/fd/{dir}\0");
            &link
        };
        let mut base = [0u8; PATH_MAX];
        let (name, to) = (name.as_ptr().cast(), base.as_mut_ptr().cast());
        // SAFETY: the name ends with 0, and the buffer has `PATH_MAX` bytes.
        let len = unsafe { libc::readlink(name, to, PATH_MAX) };
        let base = base.get(..usize::try_from(len).unwrap_or(0)).unwrap_or_default();
        // SAFETY: by the caller's promise.
        let path = unsafe { CStr::from_ptr(path) };
        let joined = self.write(&[base, b"/", path.to_bytes_with_nul()]);
        joined.filter(|_| !base.is_empty()).unwrap_or(ptr::null())
    }

    /// A text of these parts. `None`: the text is longer than a path may be.
    fn write(&mut self, parts: &[&[u8]]) -> Option<*const c_char> {
        let len = parts.iter().map(|part| part.len()).sum();
        let room = self.0.get_mut(..len)?;
        let bytes = parts.iter().copied().flatten();
        room.iter_mut().zip(bytes).for_each(|(to, from)| _ = to.write(*from));
        Some(room.as_ptr().cast())
    }
}

/// Whether a relative path may lead to one of the directories: all paths that lead there from above
/// contain this text.
///
/// # Safety
/// `path` is null or points to a string.
unsafe fn may_be_relative(path: *const c_char) -> bool {
    const PART: &CStr = c"infiniband";
    // SAFETY: by the caller's promise.
    !path.is_null()
        && unsafe { *path != b'/' as c_char && !libc::strstr(path, PART.as_ptr()).is_null() }
}

/// Whether a path leads into the directory of device files, whose stand-ins are symbolic links.
///
/// # Safety
/// `path` is null or points to a string.
pub(crate) unsafe fn is_device(path: *const c_char) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { leads_to(path, &[DEV]) }
}

/// The directory of the stand-ins. `None`: there is none, and standard error gives the reason.
pub(crate) fn root() -> Option<&'static CStr> {
    static MAKE: OnceLock<Option<unsafe extern "C" fn() -> *const c_char>> = OnceLock::new();
    let make = *MAKE.get_or_init(|| {
        // SAFETY: the name is a string. Braid's libibverbs has the function.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"braid_device_files".as_ptr()) };
        // SAFETY: the function has this type.
        (!found.is_null()).then(|| unsafe { transmute::<*mut libc::c_void, _>(found) })
    });
    // SAFETY: the function has no preconditions.
    let root = unsafe { make?() };
    // SAFETY: the pointer is null, or leads to a string that is never freed.
    (!root.is_null()).then(|| unsafe { CStr::from_ptr(root) })
}

/// Whether a path is one of the places or leads into it. `//` is equivalent to `/`.
///
/// # Safety
/// `path` is null or points to a string.
unsafe fn leads_to(path: *const c_char, places: &[&CStr]) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: by the caller's promise; the second byte exists if the first is a slash.
    let may_lead =
        unsafe { *path == b'/' as c_char && matches!(*path.add(1) as u8, b'd' | b's' | b'/') };
    // SAFETY: as above.
    may_lead && places.iter().any(|place| unsafe { begins_with(path, place) })
}

/// Whether a path begins with a place.
///
/// # Safety
/// `path` points to a string.
unsafe fn begins_with(mut path: *const c_char, place: &CStr) -> bool {
    // SAFETY: nothing is read behind the end of the string, because its last byte differs from all
    // bytes of the place.
    unsafe {
        for byte in place.to_bytes() {
            if *path as u8 != *byte {
                return false;
            }
            path = path.add(1);
            while *byte == b'/' && *path == b'/' as c_char {
                path = path.add(1);
            }
        }
        matches!(*path as u8, b'/' | 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(path: &CStr) -> bool {
        // SAFETY: the pointer leads to a string.
        unsafe { leads_to(path.as_ptr(), &PLACES) }
    }

    #[test]
    fn the_places_and_their_files_have_stand_ins() {
        for path in [
            c"/dev/infiniband",
            c"/dev/infiniband/uverbs-braid0",
            c"//dev///infiniband//x",
            c"/sys/class/infiniband/braid0/../..",
            c"/sys/class/infiniband_verbs/abi_version",
            c"/sys/class/misc/rdma_cm/abi_version",
            c"/sys/devices/virtual/braid/braid0/numa_node",
        ] {
            assert!(leads(path), "{path:?}");
        }
    }

    #[test]
    fn other_paths_have_none() {
        for path in [
            c"",
            c"/",
            c"/dev",
            c"/dev/infiniband0",
            c"/dev/infinibandx/y",
            c"/sys/class/infiniband_mad",
            c"/sys/class/net/lo",
            c"dev/infiniband",
            c"/home/dev/infiniband",
        ] {
            assert!(!leads(path), "{path:?}");
        }
        // SAFETY: a null pointer is allowed.
        assert!(!unsafe { leads_to(ptr::null(), &PLACES) });
    }

    #[test]
    fn relative_paths_begin_at_a_directory() {
        let mut room = Room::new();
        // SAFETY: the paths are strings, and no other code closes the descriptor.
        unsafe {
            let class = libc::open(c"/sys/class".as_ptr(), libc::O_RDONLY);
            let joined = CStr::from_ptr(room.join(class, c"infiniband/x".as_ptr())).to_owned();
            assert_eq!(joined.as_c_str(), c"/sys/class/infiniband/x");
            assert_eq!(libc::close(class), 0);
            assert!(room.join(class, c"infiniband".as_ptr()).is_null());
            let root = libc::open(c"/".as_ptr(), libc::O_RDONLY);
            assert!(leads(CStr::from_ptr(room.join(root, c"dev/infiniband".as_ptr()))));
            assert_eq!(libc::close(root), 0);
            let here = CStr::from_ptr(room.join(libc::AT_FDCWD, c"a".as_ptr())).to_str();
            let cwd = std::env::current_dir().expect("there is one").join("a");
            assert_eq!(here.ok(), cwd.to_str());
        }
    }

    #[test]
    fn without_the_library_a_path_stays_what_it_is() {
        let mut room = Room::new();
        let path = c"/dev/infiniband/uverbs-braid0";
        // SAFETY: the pointer leads to a string.
        assert_eq!(unsafe { room.stand_in(libc::AT_FDCWD, path.as_ptr()) }, path.as_ptr());
    }
}
