//! The process that has a port, for messages.

use std::fs;
use std::io;

use super::unix::Process;

/// A port that this process cannot share. Inside an [`io::Error`] of the kind `AddrInUse`.
#[derive(Debug, thiserror::Error)]
#[error("Address already in use by {holder}")]
pub(crate) struct PortTaken {
    holder: String,
    pub(crate) why: Unshared,
}

/// The reason why a port is not shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unshared {
    /// Its process belongs to another user.
    OtherUser,
    /// Its process does not let others in.
    Refused,
}

impl PortTaken {
    pub(super) fn error(process: Process, why: Unshared) -> io::Error {
        let holder =
            format!("process {}{} of user {}", process.pid, name(process.pid), process.uid);
        io::Error::new(io::ErrorKind::AddrInUse, PortTaken { holder, why })
    }

    /// The reason inside an error.
    pub(crate) fn in_error(error: &io::Error) -> Option<Unshared> {
        Some(error.get_ref()?.downcast_ref::<PortTaken>()?.why)
    }
}

/// The name of a process in brackets, if this process may know it.
fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| String::new(), |name| format!(" ({})", name.trim_end().escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_process_and_the_user() {
        let pid = std::process::id() as i32;
        let comm = fs::read_to_string("/proc/self/comm").unwrap();
        let error = PortTaken::error(Process { pid, uid: 77 }, Unshared::OtherUser);
        let named = format!("process {pid} ({}) of user 77", comm.trim_end());
        assert!(error.to_string().ends_with(&named), "{error}");
        assert_eq!(PortTaken::in_error(&error), Some(Unshared::OtherUser));
        assert_eq!(name(0), "");
    }
}
