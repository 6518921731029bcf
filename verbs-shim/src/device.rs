//! The list of devices.

use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};
use std::{fs, io, ptr, slice};

use crate::VerbsError;
use crate::abi::{Symbols, ibv_context, ibv_device};
use crate::library::libibverbs;

/// The folder in which the kernel has a folder for each device.
pub(crate) const SYSFS: &str = "/sys/class/infiniband";

/// Returns the names of this machine's devices, at least one.
///
/// # Errors
/// [`VerbsError::Library`], [`VerbsError::NoDevice`], [`VerbsError::NoProvider`].
pub fn device_names() -> Result<Vec<String>, VerbsError> {
    Ok(DeviceList::new(libibverbs()?)?.names())
}

/// Opens the device with this name.
pub(crate) fn open(
    symbols: &'static Symbols,
    name: &str,
) -> Result<ptr::NonNull<ibv_context>, VerbsError> {
    let list = DeviceList::new(symbols)?;
    let Some(&device) = list.devices().iter().find(|&&device| list.name(device) == name) else {
        return Err(VerbsError::UnknownDevice { name: name.into(), known: list.names() });
    };
    // SAFETY: the device belongs to a list that is not freed yet.
    let context = unsafe { (symbols.ibv_open_device)(device) };
    ptr::NonNull::new(context)
        .ok_or_else(|| VerbsError::Open { name: name.into(), source: io::Error::last_os_error() })
}

/// Returns the folder of the kernel's interface to a device (`uverbs0`) in `class`. Unlike the
/// device's own folder, it disappears as soon as the removal of the device begins.
pub(crate) fn access(class: &Path, name: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(class).ok()?.flatten().map(|entry| entry.path());
    let is_its = |folder: &PathBuf| {
        fs::read_to_string(folder.join("ibdev")).is_ok_and(|n| n.trim_end() == name)
    };
    folders.into_iter().find(is_its)
}

/// The result of `ibv_get_device_list`, with at least one device.
struct DeviceList {
    symbols: &'static Symbols,
    first: ptr::NonNull<*mut ibv_device>,
    len: usize,
}

impl DeviceList {
    fn new(symbols: &'static Symbols) -> Result<Self, VerbsError> {
        let mut len: c_int = 0;
        // SAFETY: `len` takes the number of devices.
        let first = unsafe { (symbols.ibv_get_device_list)(&raw mut len) };
        let Some(first) = ptr::NonNull::new(first) else {
            return Err(none(io::Error::last_os_error()));
        };
        let list = DeviceList { symbols, first, len: usize::try_from(len).unwrap_or(0) };
        match list.len {
            0 => Err(none(io::Error::from_raw_os_error(libc::ENODEV))),
            _ => Ok(list),
        }
    }

    fn devices(&self) -> &[*mut ibv_device] {
        // SAFETY: libibverbs returned an array of this many devices, which lives until it is freed
        // on drop.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }

    fn name(&self, device: *mut ibv_device) -> String {
        // SAFETY: the device belongs to the list, and its name is a string inside it.
        let name = unsafe { CStr::from_ptr((self.symbols.ibv_get_device_name)(device)) };
        name.to_string_lossy().into_owned()
    }

    fn names(&self) -> Vec<String> {
        self.devices().iter().map(|&device| self.name(device)).collect()
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list came from `ibv_get_device_list` and is freed once.
        unsafe { (self.symbols.ibv_free_device_list)(self.first.as_ptr()) };
    }
}

/// Returns the reason why libibverbs found no device: the kernel has none, or the userspace driver
/// is missing.
fn none(source: io::Error) -> VerbsError {
    let entries = fs::read_dir(SYSFS).into_iter().flatten().flatten();
    let mut kernel: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    kernel.sort();
    match kernel.is_empty() {
        true => VerbsError::NoDevice { source },
        false => VerbsError::NoProvider { kernel },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn the_interface_is_the_one_that_names_the_device() {
        let class = std::env::temp_dir().join(format!("braid-uverbs-{}", std::process::id()));
        for (folder, device) in [("uverbs0", "rxe1\n"), ("uverbs1", "rxe0\n")] {
            fs::create_dir_all(class.join(folder)).expect("a folder");
            fs::write(class.join(folder).join("ibdev"), device).expect("a file");
        }
        assert_eq!(access(&class, "rxe0"), Some(class.join("uverbs1")));
        assert_eq!(access(&class, "rxe"), None);
        fs::remove_dir_all(&class).expect("it is there");
        assert_eq!(access(&class, "rxe0"), None);
    }

    #[test]
    fn a_name_finds_its_device_only() {
        let fake = fake::Device::new();
        match open(fake.symbols(), "fake7") {
            Err(VerbsError::UnknownDevice { name, known }) => {
                assert_eq!(
                    (name.as_str(), known.as_slice()),
                    ("fake7", &[String::from("fake0")][..])
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(fake.alive(), Vec::<&str>::new(), "the list is freed");
    }
}
