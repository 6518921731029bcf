//! The Noise protocol framework, as the crate snow implements it.

use braid_wire::VERSION;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use crate::exchange::{Binding, Known, Secrets};
use crate::primitives::{ChaChaPoly, Sha256, X25519};
use crate::terms::TERMS_LEN;

const SHARED: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
const STATIC: &str = "Noise_KK_25519_ChaChaPoly_SHA256";
/// Bytes that a message adds to its payload: a public key and a tag.
const OVERHEAD: usize = 32 + 16;

/// A handshake that wipes its copy of the pre-shared key on drop, because snow does not.
pub(crate) struct Wiped(HandshakeState);

impl Drop for Wiped {
    fn drop(&mut self) {
        // Fails without a pre-shared key, because then there is nothing to wipe.
        let _ = self.0.set_psk(0, &[0; 32]);
    }
}

/// Begins a handshake.
pub(crate) fn start(
    known: Known<'_>,
    binding: Binding,
    seed: [u8; 32],
    is_initiator: bool,
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
    let state = ready.and_then(|builder| match is_initiator {
        true => builder.build_initiator(),
        false => builder.build_responder(),
    });
    Wiped(state.expect("the pattern has what it needs"))
}

/// Writes this side's message, with its terms and its offer.
pub(crate) fn write(state: &mut Wiped, terms: [u8; TERMS_LEN], offer: &[u8]) -> Vec<u8> {
    let mut payload = Zeroizing::new(terms.to_vec());
    payload.extend_from_slice(offer);
    let mut message = vec![0; payload.len() + OVERHEAD];
    let len = state.0.write_message(&payload, &mut message);
    message.truncate(len.expect("it is this side's turn, and the message has room"));
    message
}

/// Reads the other side's message. `None`: it is not valid.
pub(crate) fn read(state: &mut Wiped, message: &[u8]) -> Option<([u8; TERMS_LEN], Vec<u8>)> {
    let mut payload = vec![0; message.len()];
    let len = state.0.read_message(message, &mut payload).ok()?;
    payload.truncate(len);
    let (terms, offer) = payload.split_first_chunk::<TERMS_LEN>()?;
    Some((*terms, offer.to_vec()))
}

/// Returns the secrets after the last message.
pub(crate) fn secrets(state: &mut Wiped, is_initiator: bool) -> Secrets {
    let (mut first, mut second) = state.0.dangerously_get_raw_split();
    let (from_initiator, from_responder) = (Zeroizing::new(first), Zeroizing::new(second));
    first.zeroize();
    second.zeroize();
    match is_initiator {
        true => Secrets { sends: from_initiator, receives: from_responder },
        false => Secrets { sends: from_responder, receives: from_initiator },
    }
}

/// The primitives with a given source of randomness.
struct Resolver {
    seed: Zeroizing<[u8; 32]>,
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Given { seed: Some(self.seed.clone()) }))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::new(X25519::new(&[0; 32]))),
            _ => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::new(Sha256::new()) as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        let is_ours = matches!(choice, CipherChoice::ChaChaPoly);
        is_ours.then(|| Box::new(ChaChaPoly::default()) as Box<dyn Cipher>)
    }
}

/// 32 random bytes for one key pair.
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
