//! The prefix of a handshake message in a CONNECT: the keys by which its sender identifies itself.

use crate::KeyId;

/// The keys that an initiator claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// The initiator has a pre-shared key.
    Shared,
    /// The initiator has this static key and allows the listener's key.
    Static(KeyId),
    /// The initiator has a static key and does not allow the listener's key, or the listener has
    /// none. No message follows.
    UnknownListener,
}

const SHARED: u8 = 1;
const STATIC: u8 = 2;
const UNKNOWN_LISTENER: u8 = 3;

impl Claim {
    /// Prepends the claim to a handshake message.
    pub(crate) fn with(self, handshake: &[u8]) -> Vec<u8> {
        let mut message = match self {
            Claim::Shared => vec![SHARED],
            Claim::Static(_) => vec![STATIC],
            Claim::UnknownListener => vec![UNKNOWN_LISTENER],
        };
        if let Claim::Static(KeyId(id)) = self {
            message.extend_from_slice(&id.to_be_bytes());
        }
        message.extend_from_slice(handshake);
        message
    }

    /// Splits a message into the claim and the handshake message. Returns `None` if there is no
    /// valid claim.
    pub(crate) fn split(message: &[u8]) -> Option<(Self, &[u8])> {
        let (form, rest) = message.split_first()?;
        match *form {
            SHARED => Some((Claim::Shared, rest)),
            STATIC => {
                let (id, rest) = rest.split_first_chunk()?;
                Some((Claim::Static(KeyId(u64::from_be_bytes(*id))), rest))
            }
            UNKNOWN_LISTENER => rest.is_empty().then_some((Claim::UnknownListener, rest)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_comes_back_and_others_are_none() {
        for claim in [Claim::Shared, Claim::Static(KeyId(7 << 40))] {
            assert_eq!(Claim::split(&claim.with(b"message")), Some((claim, &b"message"[..])));
        }
        let unknown = Claim::UnknownListener;
        assert_eq!(Claim::split(&unknown.with(b"")), Some((unknown, &b""[..])));
        for message in [&b""[..], &[0], &[4, 1], &[STATIC; 8], &[UNKNOWN_LISTENER, 0]] {
            assert_eq!(Claim::split(message), None, "{message:?}");
        }
    }
}
