//! X25519 (RFC 7748), as the crate snow implements it.

use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;

use crate::key_text::LEN;

/// Returns the public key of a private key (RFC 7748).
pub(crate) fn public_key(private: &[u8; LEN]) -> [u8; LEN] {
    let mut public = [0; LEN];
    public.copy_from_slice(x25519(private).pubkey());
    public
}

/// Returns the shared secret of a private key and a public one. `None`: the public key is a point
/// of small order.
pub(crate) fn shared_secret(private: &[u8; LEN], public: &[u8; LEN]) -> Option<[u8; LEN]> {
    let mut shared = [0; LEN];
    let made = x25519(private).dh(public, &mut shared);
    (made.is_ok() && shared != [0; LEN]).then_some(shared)
}

fn x25519(private: &[u8; LEN]) -> Box<dyn Dh> {
    let dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
    let mut dh = dh.expect("snow is built with Curve25519");
    dh.set(private);
    dh
}
