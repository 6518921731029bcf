//! Permissions.

use braid::Access;
use pyo3::prelude::*;

use crate::errors::error;

/// Reads an access of `braid.Access`.
pub(crate) fn access_of(py: Python<'_>, bits: i64) -> PyResult<Access> {
    let all =
        [Access::LOCAL_WRITE, Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC];
    if !(0..1 << all.len()).contains(&bits) {
        let text = format!("{bits} is no access; combine members of braid.Access by |");
        return Err(error(py, "SettingError", text));
    }
    let chosen = all.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    Ok(chosen.fold(Access::NONE, |access, (_, one)| access | *one))
}
