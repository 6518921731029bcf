//! The handshake of one connection attempt: Noise (revision 34), with one message in each
//! direction. The pattern is NNpsk0 for a pre-shared key and KK for static keys.
//!
//! Both messages are encrypted. Only an owner of the pre-shared key or of one of the two private
//! keys can create them. The secrets also depend on two ephemeral key pairs. An attacker who later
//! learns a key cannot decrypt earlier packets, with one exception: the initiator's offer and
//! private data, which are sent before the responder contributes its ephemeral key. With static
//! keys, the owner of the responder's key can read them.

use std::sync::Arc;

use crate::claim::Claim;
use crate::exchange::{Binding, Known, Secrets};
use crate::noise::{Wiped, read, secrets, start, write};
use crate::terms::TERMS_LEN;
use crate::{Agreed, Terms, TermsError};

/// The responder's reply.
pub struct HandshakeReply {
    /// The negotiated terms.
    pub agreed: Agreed,
    /// The encoded offer.
    pub offer: Vec<u8>,
    /// The secrets of the connection.
    pub secrets: Secrets,
    /// The name of the responder in the list of allowed keys, or `None` with a pre-shared key.
    pub peer: Option<Arc<str>>,
}

/// The initiator's side of a handshake.
pub struct InitiatorHandshake {
    binding: Binding,
    /// `None` if no reply is possible.
    state: Option<Wiped>,
    terms: Terms,
    message: Vec<u8>,
    peer: Option<Arc<str>>,
}

/// The responder's side of a handshake, after it has read the first message.
pub struct ResponderHandshake {
    state: Wiped,
    terms: [u8; TERMS_LEN],
    offer: Vec<u8>,
    peer: Option<Arc<str>>,
}

impl InitiatorHandshake {
    /// Starts a handshake with an offer.
    pub(crate) fn new(
        known: Known<'_>,
        claim: Claim,
        binding: Binding,
        seed: [u8; 32],
        terms: Terms,
        offer: &[u8],
    ) -> Self {
        let mut state = start(known, binding, seed, true);
        let message = claim.with(&write(&mut state, terms.encode(), offer));
        InitiatorHandshake { binding, state: Some(state), terms, message, peer: None }
    }

    /// Creates the message for a listener whose key is not allowed.
    pub(crate) fn unknown_listener(binding: Binding, terms: Terms) -> Self {
        let message = Claim::UnknownListener.with(&[]);
        InitiatorHandshake { binding, state: None, terms, message, peer: None }
    }

    /// Sets the name of the responder.
    pub(crate) fn to(self, name: Arc<str>) -> Self {
        InitiatorHandshake { peer: Some(name), ..self }
    }

    /// Returns the attempt and cookie that the message is bound to.
    pub fn binding(&self) -> Binding {
        self.binding
    }

    /// Returns the message to the responder, which is the same for each retransmission.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Reads a reply. Returns `None` if the reply does not come from the expected responder or does
    /// not answer this message. The state is then unchanged. Also returns `None` after a valid
    /// reply.
    pub fn read(&mut self, answer: &[u8]) -> Option<HandshakeReply> {
        let state = self.state.as_mut()?;
        let (terms, offer) = read(state, answer)?;
        let agreed = self.terms.accept(terms).ok()?;
        Some(HandshakeReply {
            agreed,
            offer,
            secrets: secrets(state, true),
            peer: self.peer.clone(),
        })
    }
}

impl ResponderHandshake {
    /// Reads a first message. Returns `None` if its sender has another key or made it for another
    /// attempt.
    pub(crate) fn read(
        known: Known<'_>,
        binding: Binding,
        seed: [u8; 32],
        message: &[u8],
    ) -> Option<Self> {
        let mut state = start(known, binding, seed, false);
        let (terms, offer) = read(&mut state, message)?;
        Some(ResponderHandshake { state, terms, offer, peer: None })
    }

    /// Sets the name of the initiator.
    pub(crate) fn of(self, name: Arc<str>) -> Self {
        ResponderHandshake { peer: Some(name), ..self }
    }

    /// Returns the name of the initiator in the list of allowed keys, or `None` with a pre-shared
    /// key.
    pub fn peer(&self) -> Option<Arc<str>> {
        self.peer.clone()
    }

    /// Returns the encoded offer of the initiator.
    pub fn offer(&self) -> &[u8] {
        &self.offer
    }

    /// Negotiates terms with the initiator.
    ///
    /// # Errors
    /// See [`TermsError`].
    pub fn settle(&self, terms: &Terms) -> Result<Agreed, TermsError> {
        terms.settle(self.terms)
    }

    /// Returns the reply with the negotiated terms and an offer, and the secrets of the connection.
    ///
    /// # Panics
    /// If the offer has more than 65,000 bytes.
    pub fn answer(mut self, agreed: Agreed, offer: &[u8]) -> (Vec<u8>, Secrets) {
        let message = write(&mut self.state, agreed.encode(), offer);
        let secrets = secrets(&mut self.state, false);
        (message, secrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    const BINDING: Binding = Binding { nonce: 77, cookie: 78 };

    fn key(byte: u8) -> Key {
        Key::new([byte; 32])
    }

    fn begin(seed: [u8; 32]) -> InitiatorHandshake {
        let (known, terms) = (&key(1), Terms::default());
        InitiatorHandshake::new(
            Known::Shared(known),
            Claim::Shared,
            BINDING,
            seed,
            terms,
            b"an offer",
        )
    }

    fn asking() -> InitiatorHandshake {
        begin([2; 32])
    }

    fn asked_by(key: &Key, binding: Binding, message: &[u8]) -> Option<ResponderHandshake> {
        let (Claim::Shared, message) = Claim::split(message)? else { return None };
        ResponderHandshake::read(Known::Shared(key), binding, [3; 32], message)
    }

    fn asked(message: &[u8]) -> Option<ResponderHandshake> {
        asked_by(&key(1), BINDING, message)
    }

    fn answer(message: &[u8]) -> (Vec<u8>, Secrets) {
        let asked = asked(message).unwrap();
        assert_eq!(asked.offer(), b"an offer");
        let agreed = asked.settle(&Terms::default()).unwrap();
        asked.answer(agreed, b"another")
    }

    #[test]
    fn both_ends_have_the_same_secrets() {
        let mut asking = asking();
        let (message, theirs) = answer(asking.message());
        let HandshakeReply { offer, secrets, .. } = asking.read(&message).unwrap();
        assert_eq!(offer, b"another");
        assert_eq!(secrets.sends, theirs.receives);
        assert_eq!(secrets.receives, theirs.sends);
        assert_ne!(secrets.sends, secrets.receives);
        assert!(asking.read(&message).is_none(), "a second time");
    }

    #[test]
    fn all_depends_on_the_seeds_alone() {
        assert_eq!(asking().message(), asking().message());
        let other = begin([9; 32]);
        assert_ne!(other.message(), asking().message());
    }

    #[test]
    fn another_key_attempt_or_cookie_reads_nothing() {
        let message = asking().message().to_vec();
        assert!(asked_by(&key(2), BINDING, &message).is_none());
        let Binding { nonce, cookie } = BINDING;
        for other in [Binding { nonce, cookie: 0 }, Binding { nonce: 0, cookie }] {
            assert!(asked_by(&key(1), other, &message).is_none(), "{other:?}");
        }
    }

    #[test]
    fn nothing_of_the_offer_is_in_clear() {
        let message = asking().message().to_vec();
        assert!(!message.windows(5).any(|bytes| bytes == b"offer"));
    }

    #[test]
    fn what_was_edited_or_cut_is_refused_and_does_no_harm() {
        let mut asking = asking();
        let message = asking.message().to_vec();
        for at in 0..message.len() {
            let mut edited = message.clone();
            edited[at] ^= 0x10;
            assert!(asked(&edited).is_none(), "byte {at}");
            assert!(asked(&message[..at]).is_none(), "cut to {at}");
        }
        let (answer, theirs) = answer(&message);
        for at in 0..answer.len() {
            let mut edited = answer.clone();
            edited[at] ^= 0x10;
            assert!(asking.read(&edited).is_none(), "byte {at}");
            assert!(asking.read(&answer[..at]).is_none(), "cut to {at}");
        }
        assert!(asking.read(&message).is_none(), "its own message, reflected");
        assert_eq!(asking.read(&answer).unwrap().secrets.sends, theirs.receives);
    }
}
