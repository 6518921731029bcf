//! Network namespaces, as abstract sockets are names in one of them only.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::failure::Failure;

/// The network namespace of a process.
pub(super) enum Namespace {
    Ours,
    Other(OtherNamespace),
    /// The process belongs to another user, so that the system does not tell.
    Hidden,
}

/// A network namespace that is not ours.
pub(super) struct OtherNamespace {
    pid: u32,
}

impl Namespace {
    /// Returns the network namespace of a process; that of a process that does not exist is ours.
    pub(super) fn of(pid: u32) -> Self {
        match (fs::read_link("/proc/self/ns/net"), fs::read_link(path(pid))) {
            (Ok(own), Ok(other)) if own != other => Namespace::Other(OtherNamespace { pid }),
            (_, Err(why)) if why.kind() == ErrorKind::PermissionDenied => Namespace::Hidden,
            _ => Namespace::Ours,
        }
    }
}

fn path(pid: u32) -> String {
    format!("/proc/{pid}/ns/net")
}

impl OtherNamespace {
    /// Calls a function on a thread inside.
    ///
    /// # Errors
    /// This user may not enter it.
    pub(super) fn inside<T: Send>(&self, call: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        let pid = self.pid;
        let inside = || {
            let file = File::open(path(pid))?;
            setns(file, CloneFlags::CLONE_NEWNET)?;
            Ok(call())
        };
        let done: std::io::Result<T> = thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        done.map_err(|why| {
            Failure::Usage(format!(
                "process {pid} is in another network namespace, which cannot be entered: {why}; \
                 run this as root: `sudo nsenter -t {pid} -n braid-perf top {pid}`"
            ))
        })
    }
}
