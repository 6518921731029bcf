//! Stand-ins for the files by which programs find RDMA devices: `/dev/infiniband` and the entries
//! of sysfs.
//!
//! They stand in a directory of the user, below which the preloaded library `ibverbs/preload` looks
//! for them. The name of the directory follows from its contents, so that all processes with the
//! same devices share it. Nothing has to remove the directory when a process ends.

mod directory;
mod entries;

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{Mutex, Once, PoisonError};

use crate::device::{self, Device};
use crate::errno::{self, Errno};

/// The entries of the latest list of devices.
struct Made {
    devices: Vec<&'static Device>,
    root: &'static CString,
}

/// The directory that holds `dev/infiniband` and `sys/class/infiniband`, for the preloaded library.
/// NULL with `errno` if the system cannot list the devices or no directory can be made, which
/// standard error explains. The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn braid_device_files() -> *const c_char {
    static LAST: Mutex<Option<Made>> = Mutex::new(None);
    static SAID: Once = Once::new();
    errno::pointer(|| {
        let devices = device::list()?;
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = last.as_ref().filter(|made| made.is_of(&devices)) {
            return Ok(made.root.as_ptr().cast_mut());
        }
        let root = directory::make(&entries::of(&devices)).map_err(|reason| {
            SAID.call_once(|| eprintln!("braid: {reason}"));
            Errno(libc::ENOENT)
        })?;
        let made = last.insert(Made { devices, root: leaked(root)? });
        Ok(made.root.as_ptr().cast_mut())
    })
}

impl Made {
    /// Whether the directory belongs to these devices and still exists.
    fn is_of(&self, devices: &[&'static Device]) -> bool {
        let same = |(mine, its): (&&Device, &&Device)| std::ptr::eq(*mine, *its);
        let is_same = self.devices.len() == devices.len();
        is_same && self.devices.iter().zip(devices).all(same) && directory::is_there(self.root)
    }
}

/// Leaks the text, because programs use it until they end.
fn leaked(root: PathBuf) -> Result<&'static CString, Errno> {
    let text = CString::new(root.into_os_string().into_encoded_bytes());
    Ok(Box::leak(Box::new(text.map_err(|_| Errno::INVALID)?)))
}
