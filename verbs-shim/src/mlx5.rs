//! The only function used from Mellanox's driver library.

use std::sync::OnceLock;

use crate::abi::{CType, ibv_qp};
use crate::error::check;
use crate::{Qp, VerbsError, library};

const FILE: &str = "libmlx5.so.1";
const CALL: &str = "mlx5dv_modify_qp_udp_sport";

/// `mlx5dv_modify_qp_udp_sport`.
type ModifySport = unsafe extern "C" fn(*mut ibv_qp, u16) -> i32;

static MODIFY_SPORT: OnceLock<ModifySport> = OnceLock::new();

impl Qp {
    /// Sets the UDP source port of an RC or UC queue pair in RTS on an mlx5 device.
    ///
    /// Untested for want of such a NIC. `docs/real-nics.md` is to describe a test.
    ///
    /// # Errors
    /// [`VerbsError::Missing`] if the library or the function is missing, [`VerbsError::Refused`]
    /// if the device is not an mlx5 or does not support it.
    pub fn set_udp_source_port(&self, port: u16) -> Result<(), VerbsError> {
        let modify = modify_sport()?;
        // SAFETY: the queue pair is alive, and the function checks its device.
        let code = unsafe { modify(self.raw(), port) };
        check(code).map_err(|e| self.pd().context().refused(CALL, format!("source port {port}"), e))
    }
}

fn modify_sport() -> Result<ModifySport, VerbsError> {
    if let Some(&found) = MODIFY_SPORT.get() {
        return Ok(found);
    }
    find(FILE).map(|found| *MODIFY_SPORT.get_or_init(|| found))
}

fn find(file: &str) -> Result<ModifySport, VerbsError> {
    let missing = |remedy| VerbsError::Missing { function: CALL, library: FILE, remedy };
    let handle = library::open(file).map_err(|_| missing("install `ibverbs-providers`".into()))?;
    // SAFETY: the handle is of an open library, and the name ends in a nul.
    let address = unsafe { libc::dlsym(handle, c"mlx5dv_modify_qp_udp_sport".as_ptr()) };
    // SAFETY: null, or the address of this function, whose prototype is in `mlx5dv.h`.
    unsafe { std::mem::transmute::<*mut libc::c_void, Option<ModifySport>>(address) }
        .ok_or_else(|| missing("install rdma-core 31 or later".into()))
}

/// The function's name and C declaration, for the drift test.
pub const MODIFY_SPORT_IN_C: crate::abi::Function =
    crate::abi::Function { name: CALL, declare: <ModifySport as CType>::declare };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_function_is_named() {
        let text = find("libmlx5-that-is-not-there.so").expect_err("no file").to_string();
        assert!(text.contains(" has no mlx5dv_modify_qp_udp_sport: "), "{text}");
        assert!(text.contains("ibverbs-providers"), "{text}");
        let text = find("libc.so.6").expect_err("libc is another library").to_string();
        assert!(text.contains("rdma-core 31"), "{text}");
    }
}
