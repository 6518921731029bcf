//! The libraries of a build with the feature `crypto`.

pub(crate) use ::time;
pub(crate) use aws_lc_rs::{aead, hkdf, hmac};

/// Whether the crate is built with the feature `crypto`.
pub const HAS_CRYPTO: bool = true;
