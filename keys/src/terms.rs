//! The terms that the two ends negotiate in the handshake.

use std::ops::RangeInclusive;

use crate::Cipher;

/// The protection of packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Protection {
    /// Others can read packets, but neither change nor add one.
    Authenticate = 1,
    /// Header and payload are encrypted as well.
    Encrypt = 2,
}

/// The terms that one end accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The minimum protection. The stronger one of both ends applies.
    pub protection: Protection,
    /// The accepted ciphers in order of preference. The responder's order decides.
    pub ciphers: Vec<Cipher>,
    /// A key protects at most 2 to the power of this packets, 8 to 22. The smaller value of both
    /// ends applies.
    pub key_packets_log2: u8,
}

/// The negotiated terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// The protection of packets.
    pub protection: Protection,
    /// The cipher.
    pub cipher: Cipher,
    /// See [`Terms::key_packets_log2`].
    pub key_packets_log2: u8,
}

/// The reason why the two ends cannot agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TermsError {
    /// Both have the key, but no cipher in common.
    #[error("the two sides have no cipher in common; allow one cipher on both sides")]
    Cipher,
    /// The peer's terms are invalid.
    #[error("the peer's terms are invalid")]
    Malformed,
}

/// Length of the terms on the wire, in bytes.
pub(crate) const TERMS_LEN: usize = 4;
/// Half of the limit of RFC 9001, section 6.6: 2^23 packets of up to 2^16 bytes per key of AES-GCM,
/// the smallest limit of the three ciphers.
pub(crate) const MOST_KEY_PACKETS_LOG2: u8 = 22;
/// The receiver keeps the keys of all packets that may be late or lost in a row. Shorter key lives
/// would require too many keys.
pub(crate) const LEAST_KEY_PACKETS_LOG2: u8 = 8;
/// The valid values of [`Terms::key_packets_log2`]. Others are clamped.
pub const KEY_PACKETS_LOG2: RangeInclusive<u8> = LEAST_KEY_PACKETS_LOG2..=MOST_KEY_PACKETS_LOG2;

impl Default for Terms {
    /// Encryption with any cipher.
    fn default() -> Self {
        Terms {
            protection: Protection::Encrypt,
            ciphers: Cipher::ALL.to_vec(),
            key_packets_log2: MOST_KEY_PACKETS_LOG2,
        }
    }
}

impl Terms {
    pub(crate) fn encode(&self) -> [u8; TERMS_LEN] {
        let ciphers = self.ciphers.iter().fold(0, |all, cipher| all | *cipher as u8);
        [self.protection as u8, ciphers, clamped(self.key_packets_log2), 0]
    }

    /// Returns the terms that a responder with these terms agrees on.
    pub(crate) fn settle(&self, theirs: [u8; TERMS_LEN]) -> Result<Agreed, TermsError> {
        let [protection, ciphers, log2, _] = theirs;
        let protection = protection_of(protection)?.max(self.protection);
        let taken = |cipher: &&Cipher| ciphers & **cipher as u8 != 0;
        let cipher = self.ciphers.iter().find(taken).ok_or(TermsError::Cipher)?;
        if log2 < LEAST_KEY_PACKETS_LOG2 {
            return Err(TermsError::Malformed);
        }
        let key_packets_log2 = log2.min(clamped(self.key_packets_log2));
        Ok(Agreed { protection, cipher: *cipher, key_packets_log2 })
    }

    /// Checks the responder's reply, which must not be weaker than the initiator's terms.
    pub(crate) fn accept(&self, answer: [u8; TERMS_LEN]) -> Result<Agreed, TermsError> {
        let [protection, cipher, key_packets_log2, _] = answer;
        let protection = protection_of(protection)?;
        let asked = self.ciphers.iter().find(|asked| **asked as u8 == cipher);
        let longest = clamped(self.key_packets_log2);
        let fits = (LEAST_KEY_PACKETS_LOG2..=longest).contains(&key_packets_log2);
        match asked {
            Some(cipher) if protection >= self.protection && fits => {
                Ok(Agreed { protection, cipher: *cipher, key_packets_log2 })
            }
            _ => Err(TermsError::Malformed),
        }
    }
}

impl Agreed {
    pub(crate) fn encode(&self) -> [u8; TERMS_LEN] {
        [self.protection as u8, self.cipher as u8, self.key_packets_log2, 0]
    }
}

fn clamped(log2: u8) -> u8 {
    log2.clamp(LEAST_KEY_PACKETS_LOG2, MOST_KEY_PACKETS_LOG2)
}

fn protection_of(byte: u8) -> Result<Protection, TermsError> {
    use Protection::*;
    let known = [Authenticate, Encrypt].into_iter().find(|known| *known as u8 == byte);
    known.ok_or(TermsError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(protection: Protection, ciphers: &[Cipher], key_packets_log2: u8) -> Terms {
        Terms { protection, ciphers: ciphers.to_vec(), key_packets_log2 }
    }

    #[test]
    fn the_stronger_of_both_holds() {
        use Protection::*;
        let all = Cipher::ALL;
        for (asks, answers, both) in [
            (Authenticate, Authenticate, Authenticate),
            (Authenticate, Encrypt, Encrypt),
            (Encrypt, Authenticate, Encrypt),
        ] {
            let (asks, answers) = (terms(asks, &all, 22), terms(answers, &all[1..], 9));
            let agreed = answers.settle(asks.encode()).unwrap();
            let expected = (both, Cipher::Aes128Gcm, 9);
            assert_eq!((agreed.protection, agreed.cipher, agreed.key_packets_log2), expected);
            assert_eq!(asks.accept(agreed.encode()), Ok(agreed));
        }
    }

    #[test]
    fn no_cipher_in_common_is_said_so() {
        let asks = terms(Protection::Encrypt, &[Cipher::ChaCha20Poly1305], 22);
        let answers = terms(Protection::Encrypt, &[Cipher::Aes256Gcm], 22);
        assert_eq!(answers.settle(asks.encode()), Err(TermsError::Cipher));
    }

    #[test]
    fn an_answer_is_never_less_than_what_was_asked_for() {
        let asks = terms(Protection::Encrypt, &[Cipher::Aes256Gcm], 12);
        assert!(asks.accept([2, 1, 12, 0]).is_ok());
        for answer in [
            [1, 1, 12, 0],
            [2, 2, 12, 0],
            [2, 3, 12, 0],
            [2, 1, 13, 0],
            [2, 1, 7, 0],
            [0; 4],
            [3, 1, 12, 0],
        ] {
            assert_eq!(asks.accept(answer), Err(TermsError::Malformed), "{answer:?}");
        }
    }
}
