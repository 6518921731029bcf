//! The ciphers, and a key of a cipher.

use std::fmt;
use std::str::FromStr;

use braid_wire::RailId;

use crate::crypto::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
    UnboundKey,
};

/// Length of the tag of all ciphers, in bytes.
pub(crate) const TAG_LEN: usize = 16;

/// An AEAD (RFC 5116) that protects packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-256-GCM (NIST SP 800-38D).
    Aes256Gcm = 1,
    /// AES-128-GCM.
    Aes128Gcm = 2,
    /// ChaCha20-Poly1305 (RFC 8439), for CPUs without AES instructions.
    ChaCha20Poly1305 = 4,
}

/// An unknown cipher name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown cipher {name:?}; use aes-256-gcm, aes-128-gcm or chacha20-poly1305")]
pub struct UnknownCipher {
    /// The name.
    pub name: String,
}

impl Cipher {
    /// All ciphers in order of preference.
    pub const ALL: [Cipher; 3] = [Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes256Gcm => "aes-256-gcm",
            Cipher::Aes128Gcm => "aes-128-gcm",
            Cipher::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// Returns the length of a key in bytes.
    pub(crate) fn key_len(self) -> usize {
        self.algorithm().key_len()
    }

    /// Returns the number of forged packets after which a connection opens no more packets. These
    /// are the integrity limits of RFC 9001, section 6.6, for one key. Here they apply to all keys
    /// of a direction together.
    pub(crate) const fn most_forgeries(self) -> u64 {
        match self {
            Cipher::Aes256Gcm | Cipher::Aes128Gcm => 1 << 52,
            Cipher::ChaCha20Poly1305 => 1 << 36,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Cipher {
    type Err = UnknownCipher;

    fn from_str(name: &str) -> Result<Self, UnknownCipher> {
        let known = Cipher::ALL.into_iter().find(|cipher| cipher.name() == name);
        known.ok_or_else(|| UnknownCipher { name: name.to_owned() })
    }
}

/// A key and the IV of its nonces. The library wipes the key on drop.
pub(crate) struct CipherKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl CipherKey {
    /// Creates a key.
    ///
    /// # Panics
    /// If the length of `key` is wrong. The key schedule derives keys of the right length.
    pub(crate) fn new(cipher: Cipher, key: &[u8], iv: [u8; NONCE_LEN]) -> Self {
        let key = UnboundKey::new(cipher.algorithm(), key);
        CipherKey {
            key: LessSafeKey::new(key.expect("the schedule makes keys of this length")),
            iv,
        }
    }

    /// Returns the nonce: the 4-byte rail and the 8-byte packet number, XORed with the IV. This
    /// follows multipath QUIC (draft-ietf-quic-multipath, "Nonce Calculation"), and RFC 9001,
    /// section 5.3, for the first path.
    fn nonce(&self, (rail, number): (RailId, u64)) -> Nonce {
        let mut nonce = self.iv;
        let rail = (rail.get() as u32).to_be_bytes();
        for (byte, bits) in nonce.iter_mut().zip(rail.into_iter().chain(number.to_be_bytes())) {
            *byte ^= bits;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts `text` in place and returns the tag of `text` and `additional`. `place` is the rail
    /// and the number of the packet.
    ///
    /// # Panics
    /// If `text` is longer than 2^36 bytes.
    pub(crate) fn seal(
        &self,
        place: (RailId, u64),
        additional: &[u8],
        text: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let sealed =
            self.key.seal_in_place_separate_tag(self.nonce(place), Aad::from(additional), text);
        let tag = sealed.expect("a packet is shorter than what an AEAD takes");
        tag.as_ref().try_into().expect("the tag of all of these has 16 bytes")
    }

    /// Encrypts `text` in place, and after it `extra` into the beginning of `room`, whose last
    /// bytes take the tag. Otherwise like [`CipherKey::seal`].
    ///
    /// # Panics
    /// If `room` is not [`TAG_LEN`] bytes longer than `extra`, or both texts together are longer
    /// than 2^36 bytes.
    pub(crate) fn seal_scattered(
        &self,
        place: (RailId, u64),
        additional: &[u8],
        (text, extra): (&mut [u8], &[u8]),
        room: &mut [u8],
    ) {
        let (nonce, additional) = (self.nonce(place), Aad::from(additional));
        let sealed = self.key.seal_in_place_scatter(nonce, additional, text, extra, room);
        sealed.expect("a packet is shorter than what an AEAD takes, and has room for its tag");
    }

    /// Decrypts the text before the tag at the end of `sealed` in place. Returns `None` if the tag
    /// does not match. The contents of `sealed` are then undefined.
    pub(crate) fn open<'a>(
        &self,
        place: (RailId, u64),
        additional: &[u8],
        sealed: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        self.key.open_in_place(self.nonce(place), Aad::from(additional), sealed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// Key, nonce, additional data, plaintext, ciphertext and tag.
    type Vector = (Cipher, [&'static str; 6]);

    const VECTORS: [Vector; 5] = [
        // McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 4 and 16 (also in
        // NIST CAVS).
        (
            Cipher::Aes128Gcm,
            [
                "feffe9928665731c6d6a8f9467308308",
                "cafebabefacedbaddecaf888",
                "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                 1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
                "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
                 21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
                "5bc94fbc3221a5db94fae95ae7121a47",
            ],
        ),
        (
            Cipher::Aes256Gcm,
            [
                "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
                "cafebabefacedbaddecaf888",
                "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                 1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
                "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
                 8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
                "76fc6ece0f4e1768cddf8853bb2d551b",
            ],
        ),
        // Test cases 1 and 13: only a tag, as for authenticated packets.
        (
            Cipher::Aes128Gcm,
            [
                "00000000000000000000000000000000",
                "000000000000000000000000",
                "",
                "",
                "",
                "58e2fccefa7e3061367f1d57a4e7455a",
            ],
        ),
        (
            Cipher::Aes256Gcm,
            [
                "0000000000000000000000000000000000000000000000000000000000000000",
                "000000000000000000000000",
                "",
                "",
                "",
                "530f8afbc74536b9a963b4f1c4cb738b",
            ],
        ),
        // RFC 8439, section 2.8.2.
        (
            Cipher::ChaCha20Poly1305,
            [
                "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
                "070000004041424344454647",
                "50515253c0c1c2c3c4c5c6c7",
                "4c616469657320616e642047656e746c656d656e206f662074686520636c6173
                 73206f66202739393a204966204920636f756c64206f6666657220796f75206f
                 6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73
                 637265656e20776f756c642062652069742e",
                "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
                 3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
                 92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
                 3ff4def08e4b7a9de576d26586cec64b6116",
                "1ae10b594f09e26a7e902ecbd0600691",
            ],
        ),
    ];

    /// Splits a published nonce into IV, rail and number, so that all parts matter.
    fn split(nonce: &[u8]) -> ([u8; NONCE_LEN], (RailId, u64)) {
        let mut iv: [u8; NONCE_LEN] = nonce.try_into().unwrap();
        let number = u64::from_be_bytes(iv[4..].try_into().unwrap());
        iv[4..].fill(0);
        let rail = RailId::new(5);
        iv[3] ^= 5;
        (iv, (rail, number))
    }

    #[test]
    fn the_published_vectors_hold() {
        for (cipher, vector) in VECTORS {
            let [key, nonce, additional, plain, sealed, tag] = vector.map(bytes);
            let (iv, place) = split(&nonce);
            let key = CipherKey::new(cipher, &key, iv);
            let mut text = plain.clone();
            assert_eq!(key.seal(place, &additional, &mut text).to_vec(), tag, "{cipher}");
            assert_eq!(text, sealed, "{cipher}");
            text.extend_from_slice(&tag);
            let opened = key.open(place, &additional, &mut text).expect("what was sealed opens");
            assert_eq!(opened, &plain[..], "{cipher}");
        }
    }

    #[test]
    fn ciphers_are_found_by_their_names() {
        for cipher in Cipher::ALL {
            assert_eq!(cipher.name().parse(), Ok(cipher));
        }
        assert!("des".parse::<Cipher>().unwrap_err().to_string().contains("aes-128-gcm"));
    }
}
