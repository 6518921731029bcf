//! Whose static key it is, told to those only who know the key.
//!
//! KK needs that each end knows the other's public key before it reads a message. An id is a MAC under the listener's public
//! key over the attempt and, in a CONNECT, the initiator's public key: it is another one in each attempt, tells nothing
//! to somebody who does not know the keys, and lets somebody who knows them check a guess.

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key as MacKey};

use crate::{Binding, PublicKey};

/// Says of which key an attempt is. 0: of none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyId(pub u64);

impl KeyId {
    /// There is no static key.
    pub const NONE: KeyId = KeyId(0);

    /// What a listener with this key tells whoever asks for a cookie.
    pub(crate) fn of_listener(listener: &PublicKey, binding: Binding) -> Self {
        finish(begin(&mac(listener), b"braid listener", binding))
    }
}

/// Makes the ids that initiators give a listener with this key.
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

/// Never 0.
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
