//! The inputs and the result of a handshake.

use crate::key::Key;
use crate::schedule::Secret;
use crate::static_key::{PrivateKey, PublicKey};

/// The attempt and the cookie that a message is bound to. A message is valid for no other attempt
/// and no other cookie. A replay to a responder that forgot the attempt or restarted is therefore
/// refused, like a message with a wrong key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The initiator's nonce of the attempt.
    pub nonce: u64,
    /// The responder's cookie for the attempt.
    pub cookie: u64,
}

/// The keys that both sides know before the handshake.
#[derive(Clone, Copy)]
pub(crate) enum Known<'a> {
    Shared(&'a Key),
    Static { own: &'a PrivateKey, peer: &'a PublicKey },
}

/// The secrets from which the keys of both directions are derived. Wiped on drop.
pub struct Secrets {
    pub(crate) sends: Secret,
    pub(crate) receives: Secret,
}
