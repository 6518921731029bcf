//! The primitives of the Noise handshake for snow: X25519 (RFC 7748), ChaCha20-Poly1305 (RFC 8439)
//! and SHA-256 (FIPS 180-4) of aws-lc-rs.
//!
//! Packets need this library anyway. Snow's default primitives would be another twenty crates.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey};
use aws_lc_rs::digest::{Context, SHA256};
use snow::Error;
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroizing;

use crate::key_text::LEN;

/// Bytes of a tag.
const TAG_LEN: usize = 16;
/// Bytes of a nonce, of which the last 8 are the counter.
const NONCE_LEN: usize = 12;

/// A key pair of X25519. Until it is set, it is that of the private key 0.
pub(crate) struct X25519 {
    private: Zeroizing<[u8; LEN]>,
    public: [u8; LEN],
}

impl X25519 {
    /// Creates the key pair of a private key.
    pub(crate) fn new(private: &[u8; LEN]) -> Self {
        let mut public = [0; LEN];
        let computed = key(private).compute_public_key();
        public.copy_from_slice(computed.expect("every private key has a public one").as_ref());
        X25519 { private: Zeroizing::new(*private), public }
    }
}

/// Returns the library's form of a private key.
fn key(private: &[u8; LEN]) -> PrivateKey {
    PrivateKey::from_private_key(&agreement::X25519, private).expect("any 32 bytes are a key")
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        LEN
    }

    fn priv_len(&self) -> usize {
        LEN
    }

    fn set(&mut self, privkey: &[u8]) {
        *self = X25519::new(privkey.first_chunk().expect("a key has 32 bytes"));
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        let mut private = Zeroizing::new([0; LEN]);
        rng.try_fill_bytes(&mut *private)?;
        *self = X25519::new(&private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.private
    }

    /// Fails for a point of small order, whose shared secret is known to all.
    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let peer = pubkey.first_chunk::<LEN>().ok_or(Error::Dh)?;
        let peer = UnparsedPublicKey::new(&agreement::X25519, peer);
        agreement::agree(&key(&self.private), peer, Error::Dh, |secret| {
            out.get_mut(..LEN).ok_or(Error::Dh)?.copy_from_slice(secret);
            Ok(())
        })
    }
}

/// ChaCha20-Poly1305. `None`: it has no key yet.
#[derive(Default)]
pub(crate) struct ChaChaPoly(Option<LessSafeKey>);

impl ChaChaPoly {
    fn key(&self) -> &LessSafeKey {
        self.0.as_ref().expect("snow sets the key before it uses the cipher")
    }
}

/// The nonce of a message (Noise, section 12.3): 4 zero bytes and the counter, little-endian.
fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - 8..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; LEN]) {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key has 32 bytes");
        self.0 = Some(LessSafeKey::new(key));
    }

    fn encrypt(&self, counter: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (text, rest) = out.split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        let aad = Aad::from(authtext);
        let tag = self.key().seal_in_place_separate_tag(nonce(counter), aad, text);
        rest[..TAG_LEN].copy_from_slice(tag.expect("a handshake is short").as_ref());
        plaintext.len() + TAG_LEN
    }

    fn decrypt(
        &self,
        counter: u64,
        authtext: &[u8],
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let (text, tag) = ciphertext.split_last_chunk::<TAG_LEN>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..text.len()).ok_or(Error::Decrypt)?;
        self.key()
            .open_separate_gather(nonce(counter), Aad::from(authtext), text, tag, out)
            .map_err(|_| Error::Decrypt)?;
        Ok(text.len())
    }
}

/// SHA-256 of the input since the last result.
pub(crate) struct Sha256(Context);

impl Sha256 {
    pub(crate) fn new() -> Self {
        Sha256(Context::new(&SHA256))
    }
}

impl Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        *self = Sha256::new();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let digest = std::mem::replace(self, Sha256::new()).0.finish();
        out[..digest.as_ref().len()].copy_from_slice(digest.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use snow::params::{CipherChoice, DHChoice, HashChoice};
    use snow::resolvers::{CryptoResolver, DefaultResolver};

    use super::*;

    fn bytes<const N: usize>(seed: u8) -> [u8; N] {
        std::array::from_fn(|at| (at as u8).wrapping_mul(37).wrapping_add(seed))
    }

    #[test]
    fn key_pairs_and_secrets_are_those_of_snow() {
        let mut other = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("a dependency");
        for seed in 0..20 {
            let own = X25519::new(&bytes(seed));
            other.set(&bytes::<LEN>(seed));
            assert_eq!((own.pubkey(), own.privkey()), (other.pubkey(), other.privkey()));
            let peer = X25519::new(&bytes(seed + 100));
            let (mut ours, mut theirs) = ([0; LEN], [0; LEN]);
            own.dh(peer.pubkey(), &mut ours).expect("a point of the curve");
            other.dh(peer.pubkey(), &mut theirs).expect("a point of the curve");
            assert_eq!(ours, theirs);
        }
        assert!(X25519::new(&bytes(1)).dh(&[0; LEN], &mut [0; LEN]).is_err());
    }

    #[test]
    fn messages_and_tags_are_those_of_snow() {
        let choice = CipherChoice::ChaChaPoly;
        let mut other = DefaultResolver.resolve_cipher(&choice).expect("a dependency");
        let mut own = ChaChaPoly::default();
        own.set(&bytes(7));
        other.set(&bytes(7));
        for (counter, len) in [(0, 0), (1, 1), (u64::MAX, 64), (258, 300)] {
            let text = vec![len as u8; len];
            let (mut ours, mut theirs) = (vec![0; len + TAG_LEN], vec![0; len + TAG_LEN]);
            assert_eq!(own.encrypt(counter, b"head", &text, &mut ours), ours.len());
            assert_eq!(other.encrypt(counter, b"head", &text, &mut theirs), theirs.len());
            assert_eq!(ours, theirs);
            let mut read = vec![0; len];
            assert_eq!(own.decrypt(counter, b"head", &theirs, &mut read).ok(), Some(len));
            assert_eq!(read, text);
            assert!(own.decrypt(counter, b"heap", &theirs, &mut read).is_err());
            assert!(own.decrypt(counter, b"head", &theirs[1..], &mut read).is_err());
        }
        assert!(own.decrypt(0, b"", &[0; TAG_LEN - 1], &mut []).is_err());
    }

    #[test]
    fn digests_are_those_of_snow() {
        let mut other = DefaultResolver.resolve_hash(&HashChoice::SHA256).expect("a dependency");
        let mut own = Sha256::new();
        let (mut ours, mut theirs) = ([0; 40], [0; 40]);
        for data in [&b""[..], b"abc", &[5; 200]] {
            for hash in [&mut own as &mut dyn Hash, &mut *other] {
                hash.input(b"forgotten");
                hash.reset();
                hash.input(data);
                hash.input(data);
            }
            own.result(&mut ours);
            other.result(&mut theirs);
            assert_eq!(ours, theirs);
        }
        own.hmac(&bytes::<32>(3), b"data", &mut ours);
        other.hmac(&bytes::<32>(3), b"data", &mut theirs);
        assert_eq!(ours, theirs);
    }
}
