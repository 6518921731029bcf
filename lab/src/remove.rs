//! Removal of fabrics and of the remains of killed processes.

use crate::state::{self, State};
use crate::{FabricError, namespace, plan};

/// Takes a fabric down, with every process that runs on it. Returns false if there was none.
///
/// The call also removes the remains of an interrupted [`Fabric::up`](crate::Fabric::up). The
/// fabric of another living process is [`FabricError::Busy`].
pub fn down(name: &str) -> Result<bool, FabricError> {
    plan::check_name(name)?;
    crate::tools::need()?;
    sweep()?;
    match State::read(name) {
        Ok(Some(state)) => match state.needs() {
            Some(pid) if pid != std::process::id() => {
                return Err(FabricError::Busy { name: name.into(), pid });
            }
            _ => {}
        },
        // A damaged description is no reason to keep the fabric.
        Ok(None) | Err(FabricError::Damaged { .. }) => {}
        Err(other) => return Err(other),
    }
    remove(name)
}

/// Removes every fabric, namespace and emulated network of this process. For signal handlers, after
/// which no [`Fabric`](crate::Fabric) is dropped.
pub fn remove_own() {
    let own = std::process::id();
    for name in state::names() {
        if State::read(&name).is_ok_and(|state| state.is_some_and(|s| s.needs() == Some(own))) {
            // The process ends, so nobody could handle an error.
            let _ = remove(&name);
        }
    }
    let _ = namespace::remove(&namespace::find(|_, owner| owner == Some(own)));
}

/// Removes everything that has this name.
pub(crate) fn remove(name: &str) -> Result<bool, FabricError> {
    let found = namespace::find(|fabric, _| fabric == name);
    let known = state::names().iter().any(|claimed| claimed == name);
    namespace::remove(&found)?;
    // The state goes last, because it keeps the name taken.
    State::remove(name);
    Ok(known || !found.is_empty())
}

/// Removes the fabrics whose process is dead.
pub(crate) fn sweep() -> Result<(), FabricError> {
    for name in state::names() {
        if State::read(&name).is_ok_and(|state| state.is_some_and(|s| !s.is_alive())) {
            remove(&name)?;
        }
    }
    let orphans = namespace::find(|_, owner| owner.is_some_and(|pid| !state::lives(pid)));
    namespace::remove(&orphans)
}
