//! AF_XDP in a build without it.

#[path = "xdp/error.rs"]
mod error;

pub use self::error::XdpSetupError;

/// Reports that this program was built without AF_XDP.
///
/// # Errors
/// Always [`XdpSetupError::NotBuilt`].
pub fn check_xdp() -> Result<usize, XdpSetupError> {
    Err(XdpSetupError::NotBuilt)
}
