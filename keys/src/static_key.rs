//! Static keys: a private key of one host and the public key that others know (X25519, RFC 7748).

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::key_text::{self, KeyText, LEN};
use crate::x25519;

const REMARK: &str =
    "# A private key of Braid. It identifies its owner to other hosts; keep it secret.\n# ";

/// A 256-bit key of one host. Wiped on drop. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct PrivateKey([u8; LEN]);

/// The public key of a host. It is not secret.
///
/// Invariant: the key is not a point of small order (RFC 7748, section 6.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PublicKey([u8; LEN]);

impl PrivateKey {
    /// The word before the digits.
    pub(crate) const KIND: &str = "braid-private";

    /// Creates a key from 32 random bytes.
    pub fn new(bytes: [u8; LEN]) -> Self {
        PrivateKey(bytes)
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519::public_key(&self.0))
    }

    /// Returns the text of a key file, with the public key in a comment.
    pub fn to_text(&self) -> KeyText {
        let room = REMARK.len() + key_text::room(PublicKey::KIND) + key_text::room(Self::KIND) + 2;
        let mut text = KeyText::with_room(room);
        text.push_str(REMARK);
        text.push_key(PublicKey::KIND, &self.public().0);
        text.push_key(Self::KIND, &self.0);
        text
    }

    pub(crate) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl PublicKey {
    /// The word before the digits.
    pub(crate) const KIND: &str = "braid-public";

    /// Creates a key, or returns `None` for a point of small order, whose shared secrets anyone can
    /// compute.
    pub(crate) fn new(bytes: [u8; LEN]) -> Option<Self> {
        // Any private key reveals small orders: each is a multiple of 8, which all small orders
        // divide.
        x25519::shared_secret(&[1; LEN], &bytes).map(|_| PublicKey(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

/// The format of a list of allowed keys.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        key_text::append(&mut text, Self::KIND, &self.0);
        f.write_str(&text)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(digits: &str) -> [u8; LEN] {
        *key_text::from_digits(digits).unwrap()
    }

    /// RFC 7748, section 6.1.
    #[test]
    fn public_keys_follow_from_private_ones_as_published() {
        for (private, public) in [
            (
                "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
                "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
            ),
            (
                "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
                "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
            ),
        ] {
            let made = PrivateKey::new(bytes(private)).public();
            assert_eq!(made.to_string(), format!("braid-public {public}"));
        }
    }

    #[test]
    fn points_of_small_order_are_no_keys() {
        let mut one = [0; LEN];
        one[0] = 1;
        assert_eq!(PublicKey::new([0; LEN]), None);
        assert_eq!(PublicKey::new(one), None);
        let public = PrivateKey::new([7; LEN]).public();
        assert_eq!(PublicKey::new(*public.bytes()), Some(public));
    }
}
