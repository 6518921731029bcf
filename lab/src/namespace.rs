//! Network namespaces: enter one, list those of fabrics, remove them with everything inside.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{FabricError, layout, tools};

/// The folder in which `ip netns` keeps its namespaces.
const FOLDER: &str = "/run/netns";

/// Runs a function in a namespace, on a thread of its own. Sockets that the function opens stay in
/// that namespace, wherever they are used later.
pub(crate) fn inside<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> T + Send,
) -> Result<T, FabricError> {
    let path = Path::new(FOLDER).join(namespace);
    let entrance =
        File::open(&path).map_err(FabricError::system(format!("open {}", path.display())))?;
    thread::scope(|scope| {
        let visit = scope.spawn(move || {
            setns(entrance, CloneFlags::CLONE_NEWNET)
                .map_err(FabricError::system(format!("enter {}", path.display())))?;
            Ok(work())
        });
        visit.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether a namespace of this name exists.
pub(crate) fn exists(namespace: &str) -> bool {
    Path::new(FOLDER).join(namespace).exists()
}

/// The namespaces of all fabrics for whose name and owner `whose` returns true.
pub(crate) fn find(mut whose: impl FnMut(&str, Option<u32>) -> bool) -> Vec<String> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|namespace| {
            layout::whose(namespace).is_some_and(|(name, owner)| whose(name, owner))
        })
        .collect()
}

/// Ends every process inside, then deletes the namespaces.
pub(crate) fn remove(namespaces: &[String]) -> Result<(), FabricError> {
    if namespaces.is_empty() {
        return Ok(());
    }
    for pid in inhabitants(namespaces) {
        // An error means that the process has ended.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let lines: String = namespaces.iter().map(|name| format!("netns delete {name}\n")).collect();
    match tools::ip_all(&lines) {
        // Another process may remove the same namespaces, which is as good.
        Err(e) if namespaces.iter().any(|name| Path::new(FOLDER).join(name).exists()) => Err(e),
        _ => Ok(()),
    }
}

/// The processes in any of these namespaces, without this process.
pub(crate) fn inhabitants(namespaces: &[String]) -> Vec<i32> {
    let ours = Path::new(FOLDER);
    let inodes: BTreeSet<u64> = namespaces
        .iter()
        .filter_map(|name| fs::metadata(ours.join(name)).ok())
        .map(|metadata| metadata.ino())
        .collect();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|p| p.file_name().to_string_lossy().parse().ok());
    pids.filter(|pid| *pid != Pid::this().as_raw())
        .filter(|pid| {
            fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|at| inodes.contains(&at.ino()))
        })
        .collect()
}

/// Sets sysctls of a namespace.
pub(crate) fn set(namespace: &str, sysctls: &[(&str, &str)]) -> Result<(), FabricError> {
    inside(namespace, || {
        sysctls.iter().try_for_each(|(key, value)| {
            fs::write(Path::new("/proc/sys/net").join(key), value)
                .map_err(FabricError::system(format!("set {key} to {value} in {namespace}")))
        })
    })?
}

/// Sets the sysctls that exist in a namespace.
pub(crate) fn set_if_there(namespace: &str, sysctls: &[(&str, &str)]) -> Result<(), FabricError> {
    let there = |key: &&str| Path::new("/proc/sys/net").join(key).exists();
    let present: Vec<_> =
        inside(namespace, || sysctls.iter().copied().filter(|(key, _)| there(key)).collect())?;
    set(namespace, &present)
}
