//! The key exchange of one attempt to connect: Noise (revision 34), one message each way, pattern NNpsk0 for a pre-shared key
//! and KK for static ones.
//!
//! Both messages are encrypted, and who has neither the pre-shared key nor one of the two private keys can make neither. The
//! secrets follow from two key pairs that are used once as well: who gets hold of a key later reads nothing of what was sent
//! before, but the initiator's offer and private data, which go out before the responder has added anything. With static keys,
//! they are read by who has the responder's.

use std::sync::Arc;

use braid_wire::VERSION;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use crate::claim::Claim;
use crate::schedule::Secret;
use crate::terms::TERMS_LEN;
use crate::{Agreed, Key, PrivateKey, PublicKey, Terms, TermsError};

const SHARED: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
const STATIC: &str = "Noise_KK_25519_ChaChaPoly_SHA256";
/// Bytes that a message has beside its payload: a public key and a tag.
const OVERHEAD: usize = 32 + 16;

/// What a message is good for: it does not fit any other attempt, nor the same one with another cookie. So whoever repeats it
/// later, to a responder that has forgotten the attempt or has been started anew, is refused as one with another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The initiator's nonce, of the attempt.
    pub nonce: u64,
    /// The cookie that the responder has given for it.
    pub cookie: u64,
}

/// What the keys of a connection's two directions follow from. Wiped when dropped.
pub struct Secrets {
    pub(crate) sends: Secret,
    pub(crate) receives: Secret,
}

/// What the responder has answered.
pub struct Answer {
    /// What both have settled.
    pub agreed: Agreed,
    /// The bytes of its offer.
    pub offer: Vec<u8>,
    /// The connection's.
    pub secrets: Secrets,
    /// What the list of allowed keys calls the responder; `None`: keys are not static.
    pub peer: Option<Arc<str>>,
}

/// The initiator's side, from the first message to the answer.
pub struct Asking {
    binding: Binding,
    /// `None`: no answer can come.
    state: Option<Wiped>,
    terms: Terms,
    message: Vec<u8>,
    peer: Option<Arc<str>>,
}

/// A handshake whose copy of the pre-shared key does not outlive it: snow does not wipe it.
struct Wiped(HandshakeState);

impl Drop for Wiped {
    fn drop(&mut self) {
        // Without such a key it is one that nobody uses.
        let _ = self.0.set_psk(0, &[0; 32]);
    }
}

/// What both ends know of each other before they begin.
#[derive(Clone, Copy)]
pub(crate) enum Known<'a> {
    Shared(&'a Key),
    Static { own: &'a PrivateKey, peer: &'a PublicKey },
}

/// The responder's side, once it has read the first message.
pub struct Asked {
    state: Wiped,
    terms: [u8; TERMS_LEN],
    offer: Vec<u8>,
    peer: Option<Arc<str>>,
}

impl Asking {
    /// Begins, with what is offered.
    pub(crate) fn new(
        known: Known<'_>,
        claim: Claim,
        binding: Binding,
        seed: [u8; 32],
        terms: Terms,
        offer: &[u8],
    ) -> Self {
        let mut state = start(known, binding, seed, |builder| builder.build_initiator());
        let message = claim.with(&write(&mut state, terms.encode(), offer));
        Asking { binding, state: Some(state), terms, message, peer: None }
    }

    /// Tells a listener that its key is not known.
    pub(crate) fn unknown_listener(binding: Binding, terms: Terms) -> Self {
        let message = Claim::UnknownListener.with(&[]);
        Asking { binding, state: None, terms, message, peer: None }
    }

    /// The responder is called so.
    pub(crate) fn to(self, name: Arc<str>) -> Self {
        Asking { peer: Some(name), ..self }
    }

    /// What its message is good for.
    pub fn binding(&self) -> Binding {
        self.binding
    }

    /// What the responder is to read; the same each time that it is sent.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Reads an answer. `None`: it is not one of the responder whom it was made for, to this message, and leaves everything as it was; or
    /// an answer has been read before.
    pub fn read(&mut self, answer: &[u8]) -> Option<Answer> {
        let state = self.state.as_mut()?;
        let (terms, offer) = read(state, answer)?;
        let agreed = self.terms.accept(terms).ok()?;
        Some(Answer { agreed, offer, secrets: secrets(state, true), peer: self.peer.clone() })
    }
}

impl Asked {
    /// Reads a first message. `None`: its sender has another key, or made it for something else.
    pub(crate) fn read(
        known: Known<'_>,
        binding: Binding,
        seed: [u8; 32],
        message: &[u8],
    ) -> Option<Self> {
        let mut state = start(known, binding, seed, |builder| builder.build_responder());
        let (terms, offer) = read(&mut state, message)?;
        Some(Asked { state, terms, offer, peer: None })
    }

    /// The initiator is called so.
    pub(crate) fn of(self, name: Arc<str>) -> Self {
        Asked { peer: Some(name), ..self }
    }

    /// What the list of allowed keys calls the initiator; `None`: keys are not static.
    pub fn peer(&self) -> Option<Arc<str>> {
        self.peer.clone()
    }

    /// The bytes of the initiator's offer.
    pub fn offer(&self) -> &[u8] {
        &self.offer
    }

    /// What a responder that wants `terms` settles with it.
    ///
    /// # Errors
    /// See [`TermsError`].
    pub fn settle(&self, terms: &Terms) -> Result<Agreed, TermsError> {
        terms.settle(self.terms)
    }

    /// The answer, with what is settled and what is offered.
    ///
    /// # Panics
    /// If the offer has more than 65,000 bytes.
    pub fn answer(mut self, agreed: Agreed, offer: &[u8]) -> (Vec<u8>, Secrets) {
        let message = write(&mut self.state, agreed.encode(), offer);
        let secrets = secrets(&mut self.state, false);
        (message, secrets)
    }
}

fn start(
    known: Known<'_>,
    binding: Binding,
    seed: [u8; 32],
    build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, Error>,
) -> Wiped {
    let pattern = match known {
        Known::Shared(_) => SHARED,
        Known::Static { .. } => STATIC,
    };
    let params: NoiseParams = pattern.parse().expect("a pattern that snow knows");
    let mut prologue = b"braid".to_vec();
    prologue.push(VERSION);
    prologue.extend_from_slice(&binding.nonce.to_be_bytes());
    prologue.extend_from_slice(&binding.cookie.to_be_bytes());
    let resolver = Box::new(Resolver { seed: Zeroizing::new(seed) });
    let builder = Builder::with_resolver(params, resolver);
    let ready = builder.prologue(&prologue).and_then(|builder| match known {
        Known::Shared(key) => builder.psk(0, key.bytes()),
        Known::Static { own, peer } => {
            builder.local_private_key(own.bytes())?.remote_public_key(peer.bytes())
        }
    });
    Wiped(ready.and_then(build).expect("the pattern has what it needs"))
}

fn write(state: &mut Wiped, terms: [u8; TERMS_LEN], offer: &[u8]) -> Vec<u8> {
    let mut payload = Zeroizing::new(terms.to_vec());
    payload.extend_from_slice(offer);
    let mut message = vec![0; payload.len() + OVERHEAD];
    let len = state.0.write_message(&payload, &mut message);
    message.truncate(len.expect("it is this side's turn, and the message has room"));
    message
}

fn read(state: &mut Wiped, message: &[u8]) -> Option<([u8; TERMS_LEN], Vec<u8>)> {
    let mut payload = vec![0; message.len()];
    let len = state.0.read_message(message, &mut payload).ok()?;
    payload.truncate(len);
    let (terms, offer) = payload.split_first_chunk::<TERMS_LEN>()?;
    Some((*terms, offer.to_vec()))
}

fn secrets(state: &mut Wiped, is_initiator: bool) -> Secrets {
    let (mut first, mut second) = state.0.dangerously_get_raw_split();
    let (from_initiator, from_responder) = (Zeroizing::new(first), Zeroizing::new(second));
    first.zeroize();
    second.zeroize();
    match is_initiator {
        true => Secrets { sends: from_initiator, receives: from_responder },
        false => Secrets { sends: from_responder, receives: from_initiator },
    }
}

/// The library's own ciphers, and randomness that was given.
struct Resolver {
    seed: Zeroizing<[u8; 32]>,
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Given { seed: Some(self.seed.clone()) }))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// 32 random bytes, for one key pair.
struct Given {
    seed: Option<Zeroizing<[u8; 32]>>,
}

impl Random for Given {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        let seed = self.seed.take().filter(|seed| seed.len() == dest.len()).ok_or(Error::Rng)?;
        dest.copy_from_slice(&*seed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: Binding = Binding { nonce: 77, cookie: 78 };

    fn key(byte: u8) -> Key {
        Key::new([byte; 32])
    }

    fn begin(seed: [u8; 32]) -> Asking {
        let (known, terms) = (&key(1), Terms::default());
        Asking::new(Known::Shared(known), Claim::Shared, BINDING, seed, terms, b"an offer")
    }

    fn asking() -> Asking {
        begin([2; 32])
    }

    fn asked_by(key: &Key, binding: Binding, message: &[u8]) -> Option<Asked> {
        let (Claim::Shared, message) = Claim::split(message)? else { return None };
        Asked::read(Known::Shared(key), binding, [3; 32], message)
    }

    fn asked(message: &[u8]) -> Option<Asked> {
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
        let Answer { offer, secrets, .. } = asking.read(&message).unwrap();
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
