//! The key schedule of one direction.
//!
//! The secret of an epoch yields a key, the IV of its nonces and the secret of the next epoch. The
//! derivation uses HKDF (RFC 5869), as QUIC does (RFC 9001, sections 5.1 and 6.1). A secret does
//! not reveal earlier ones.

use zeroize::{Zeroize, Zeroizing};

use crate::cipher::{Cipher, CipherKey};
use crate::crypto::aead::NONCE_LEN;
use crate::crypto::hkdf::{HKDF_SHA256, KeyType, Prk};

/// The secret of an epoch of one direction.
pub(crate) type Secret = Zeroizing<[u8; 32]>;

/// The chain of epochs of one direction.
pub(crate) struct Schedule {
    cipher: Cipher,
    /// The secret of the epoch that [`Schedule::advance`] returns next.
    secret: Secret,
}

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

impl Schedule {
    pub(crate) fn new(cipher: Cipher, secret: Secret) -> Self {
        Schedule { cipher, secret }
    }

    /// Returns the key of the next epoch, starting with epoch 0.
    pub(crate) fn advance(&mut self) -> CipherKey {
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..self.cipher.key_len()];
        let mut iv = [0; NONCE_LEN];
        let mut next = Zeroizing::new([0; 32]);
        expand(&self.secret, b"braid key", key);
        expand(&self.secret, b"braid iv", &mut iv);
        expand(&self.secret, b"braid next", &mut *next);
        self.secret = next;
        let made = CipherKey::new(self.cipher, key, iv);
        iv.zeroize();
        made
    }
}

/// Runs HKDF-Expand with SHA-256.
pub(crate) fn expand(secret: &Secret, label: &[u8], out: &mut [u8]) {
    let label = [label];
    let prk = Prk::new_less_safe(HKDF_SHA256, &secret[..]);
    let made = prk.expand(&label, Len(out.len())).and_then(|okm| okm.fill(out));
    made.expect("HKDF gives up to 255 times 32 bytes");
}
