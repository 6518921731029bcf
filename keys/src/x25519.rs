//! X25519 (RFC 7748) for private keys of files.

use snow::types::Dh;

use crate::key_text::LEN;
use crate::primitives::X25519;

/// Returns the public key of a private key (RFC 7748).
pub(crate) fn public_key(private: &[u8; LEN]) -> [u8; LEN] {
    let mut public = [0; LEN];
    public.copy_from_slice(X25519::new(private).pubkey());
    public
}

/// Returns the shared secret of a private key and a public one. `None`: the public key is a point
/// of small order.
pub(crate) fn shared_secret(private: &[u8; LEN], public: &[u8; LEN]) -> Option<[u8; LEN]> {
    let mut shared = [0; LEN];
    X25519::new(private).dh(public, &mut shared).is_ok().then_some(shared)
}
