//! Stand-ins for the libraries of a build without the feature `crypto`.
//!
//! In such a build nobody can read a key, and engines refuse one, so none of these functions is
//! reached. They have the names and types of the libraries, so that the rest of the crate is the
//! same in both builds.

pub(crate) mod aead;
pub(crate) mod hkdf;
pub(crate) mod hmac;
pub(crate) mod never;
pub(crate) mod time;

/// Whether the crate is built with the feature `crypto`.
pub const HAS_CRYPTO: bool = false;
