//! Ids of static keys that only owners of the keys can verify.
//!
//! The pattern KK requires that each side knows the other's public key before it reads a message.
//! An id is a MAC under the listener's public key over the attempt and, in a CONNECT, over the
//! initiator's public key. It differs for each attempt and reveals nothing to others. Whoever knows
//! the keys can verify a guess.

use crate::crypto::hmac::{Context, HMAC_SHA256, Key as MacKey};
use crate::{Binding, PublicKey};

/// The id of a static key in one attempt. 0 stands for no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyId(pub u64);

impl KeyId {
    /// No static key.
    pub const NONE: KeyId = KeyId(0);

    /// Returns the id that a listener with this key sends with its cookie.
    pub(crate) fn of_listener(listener: &PublicKey, binding: Binding) -> Self {
        finish(begin(&mac(listener), b"braid listener", binding))
    }
}

/// Computes the ids that initiators send to a listener.
pub(crate) struct Initiators {
    attempt: Context,
}

impl Initiators {
    pub(crate) fn of(listener: &PublicKey, binding: Binding) -> Self {
        Initiators { attempt: begin(&mac(listener), b"braid initiator", binding) }
    }

    pub(crate) fn id(&self, initiator: &PublicKey) -> KeyId {
        let mut context = self.attempt.clone();
        context.update(initiator.bytes());
        finish(context)
    }
}

fn mac(listener: &PublicKey) -> MacKey {
    MacKey::new(HMAC_SHA256, listener.bytes())
}

fn begin(key: &MacKey, label: &[u8], Binding { nonce, cookie }: Binding) -> Context {
    let mut context = Context::with_key(key);
    context.update(label);
    context.update(&nonce.to_be_bytes());
    context.update(&cookie.to_be_bytes());
    context
}

/// Returns the id, which is never 0.
fn finish(context: Context) -> KeyId {
    let tag = context.sign();
    let first = tag.as_ref().first_chunk().expect("SHA-256 gives 32 bytes");
    KeyId(u64::from_be_bytes(*first).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrivateKey;

    #[test]
    fn an_id_is_of_one_attempt_and_one_pair_of_keys() {
        let key = |byte| PrivateKey::new([byte; 32]).public();
        let (a, b) = (key(1), key(2));
        let binding = Binding { nonce: 1, cookie: 2 };
        let id = Initiators::of(&a, binding).id(&b);
        assert_eq!(id, Initiators::of(&a, binding).id(&b));
        assert_ne!(id, Initiators::of(&b, binding).id(&a));
        assert_ne!(id, Initiators::of(&a, binding).id(&a));
        for other in [Binding { nonce: 2, ..binding }, Binding { cookie: 1, ..binding }] {
            assert_ne!(id, Initiators::of(&a, other).id(&b));
            assert_ne!(KeyId::of_listener(&a, binding), KeyId::of_listener(&a, other));
        }
        assert_ne!(KeyId::of_listener(&a, binding), KeyId::of_listener(&b, binding));
    }
}
