//! The state of a fabric for later commands, in `/run/braid-fabric-NAME.json`.
//!
//! The file is also the claim to the name: the process that creates the file makes the fabric. A
//! lock on the file keeps two commands from losing each other's troubles.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::plan::check_name;
use crate::trouble::Troubles;
use crate::{FabricError, Plan};

const FOLDER: &str = "/run";
const PREFIX: &str = "braid-fabric-";

/// A fabric's description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) plan: Plan,
    /// The process that owns the fabric; none for a standing fabric.
    pub(crate) owner: Option<u32>,
    /// The process that is still making the fabric.
    pub(crate) builder: Option<u32>,
    pub(crate) troubles: Troubles,
}

impl State {
    /// The process that the fabric depends on.
    pub(crate) fn needs(&self) -> Option<u32> {
        self.builder.or(self.owner)
    }

    /// Whether the process that the fabric depends on, if any, is alive.
    pub(crate) fn is_alive(&self) -> bool {
        self.needs().is_none_or(lives)
    }

    /// Claims the name. Returns false if another process has it.
    pub(crate) fn claim(&self) -> Result<bool, FabricError> {
        let path = path_of(&self.plan.name);
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                let mut file = lock(file, FlockArg::LockExclusive, &path)?;
                write(&mut file, &path, self).map(|()| true)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(FabricError::system(format!("create {}", path.display()))(e)),
        }
    }

    /// Reads the description of a fabric. A plan that could not be built is an error.
    pub(crate) fn read(name: &str) -> Result<Option<Self>, FabricError> {
        check_name(name)?;
        let path = path_of(name);
        match open(&path)? {
            Some(file) => {
                read(&mut *lock(file, FlockArg::LockShared, &path)?, &path, name).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Changes the description of a fabric.
    ///
    /// `change` runs with the lock held. If it fails, the file does not change.
    pub(crate) fn change(
        name: &str,
        change: impl FnOnce(&mut Self) -> Result<(), FabricError>,
    ) -> Result<(), FabricError> {
        let path = path_of(name);
        let file = open(&path)?.ok_or_else(|| FabricError::NotUp { name: name.into() })?;
        let mut file = lock(file, FlockArg::LockExclusive, &path)?;
        let mut state = read(&mut *file, &path, name)?;
        change(&mut state)?;
        write(&mut file, &path, &state)
    }

    /// Frees the name, if it is taken.
    pub(crate) fn remove(name: &str) {
        let _ = std::fs::remove_file(path_of(name));
    }
}

/// The names of all fabrics.
pub(crate) fn names() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(FOLDER) else { return Vec::new() };
    let files = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names =
        files.filter_map(|file| Some(file.strip_prefix(PREFIX)?.strip_suffix(".json")?.to_owned()));
    names.filter(|name| check_name(name).is_ok()).collect()
}

/// Whether a process exists.
pub(crate) fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn path_of(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{PREFIX}{name}.json"))
}

fn open(path: &Path) -> Result<Option<File>, FabricError> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(FabricError::NotRoot),
        Err(e) => Err(FabricError::system(format!("open {}", path.display()))(e)),
    }
}

fn lock(file: File, how: FlockArg, path: &Path) -> Result<Flock<File>, FabricError> {
    Flock::lock(file, how)
        .map_err(|(_, errno)| FabricError::system(format!("lock {}", path.display()))(errno))
}

fn read(file: &mut impl Read, path: &Path, name: &str) -> Result<State, FabricError> {
    let mut text = String::new();
    file.read_to_string(&mut text)
        .map_err(FabricError::system(format!("read {}", path.display())))?;
    parse(&text, name).map_err(|why| FabricError::Damaged { path: path.into(), why })
}

fn parse(text: &str, name: &str) -> Result<State, String> {
    let state: State = serde_json::from_str(text).map_err(|e| e.to_string())?;
    state.plan.check().map_err(|e| e.to_string())?;
    state.troubles.check(&state.plan).map_err(|e| e.to_string())?;
    match state.plan.name == name {
        true => Ok(state),
        false => Err(format!("it describes fabric {}", state.plan.name)),
    }
}

fn write(file: &mut File, path: &Path, state: &State) -> Result<(), FabricError> {
    let text = serde_json::to_vec_pretty(state).expect("a plan of numbers and names is JSON");
    let rewrite = |file: &mut File| {
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(&text)
    };
    rewrite(file).map_err(FabricError::system(format!("write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Rate, Trouble, Where};

    fn state() -> State {
        let mut troubles = Troubles::default();
        troubles.set(Where { spine: 1, leaf: Some(0) }, Trouble::Lossy(1.5));
        troubles.set(Where { spine: 2, leaf: None }, Trouble::Slow(Rate::from_bits(50_000_000)));
        troubles.set(Where { spine: 3, leaf: None }, Trouble::Cut);
        let plan = Plan { delay: vec![Duration::from_micros(500)], ..Plan::default() };
        State { plan, owner: Some(7), builder: None, troubles }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = serde_json::to_string(&state()).expect("JSON");
        assert_eq!(parse(&text, "lab").expect("it is sound"), state());
    }

    #[test]
    fn what_could_not_have_been_written_is_not_believed() {
        let text = serde_json::to_string(&state()).expect("JSON");
        let changed = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            parse(&text.replace(from, to), "lab").expect_err(to)
        };
        assert!(changed("\"leaves\":2", "\"leaves\":99999").contains("--leaves 99999"));
        assert!(changed("\"name\":\"lab\"", "\"name\":\"../etc\"").contains("--name"));
        assert!(changed("\"name\":\"lab\"", "\"name\":\"other\"").contains("fabric other"));
        assert!(changed("1.5", "-1.5").contains("loss -1.5"));
        assert!(changed("{\"spine\":2", "{\"spine\":200").contains("spine 200"));
        changed("\"mtu\":1500", "\"mtu\":1500,\"more\":1");
        parse("", "lab").expect_err("an empty file");
        parse(&text[..text.len() / 2], "lab").expect_err("half a file");
    }

    #[test]
    fn we_live_and_nobody_else_does_by_accident() {
        assert!(lives(std::process::id()));
        assert!(!lives(u32::MAX));
    }
}
