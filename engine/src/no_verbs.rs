//! RDMA devices in a build without them: there is none.

#[path = "verbs/options.rs"]
mod options;
#[path = "verbs/setup_error.rs"]
mod setup_error;

use braid_transport::{Access, PdId};

pub(crate) use self::NoDevice as Device;
pub use self::options::{VerbsOptions, VerbsService};
pub use self::setup_error::VerbsSetupError;

/// An error of libibverbs. There is none in a build without the feature `verbs`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VerbsError {}

/// A device, of which there is none.
pub(crate) enum NoDevice {}

impl NoDevice {
    /// Registers memory with the device.
    ///
    /// # Safety
    /// No requirement, because there is no device.
    pub(crate) unsafe fn register(
        &self,
        _: PdId,
        _: *mut u8,
        _: usize,
        _: Access,
    ) -> Result<Mr, VerbsError> {
        match *self {}
    }
}

/// Memory that is registered with a device, of which there is none.
pub(crate) enum Mr {}

impl Mr {
    pub(crate) fn lkey(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn rkey(&self) -> u32 {
        match *self {}
    }
}
