//! What the two ends settle in the handshake.

use std::ops::RangeInclusive;

use crate::Cipher;

/// What a packet is protected against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Protection {
    /// Nobody else can change or add one; all can be read.
    Authenticate = 1,
    /// Nobody else can read one either: its header and payload are encrypted.
    Encrypt = 2,
}

/// What one end wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The least that it takes; the stronger of both ends' holds.
    pub protection: Protection,
    /// The ciphers that it takes, those that it would rather take first; the responder's order decides.
    pub ciphers: Vec<Cipher>,
    /// A key is used for at most 2 to the power of this packets, 8 to 22; the smaller of both ends' holds.
    pub key_packets_log2: u8,
}

/// What both have settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// What packets are protected against.
    pub protection: Protection,
    /// By which cipher.
    pub cipher: Cipher,
    /// See [`Terms::key_packets_log2`].
    pub key_packets_log2: u8,
}

/// Why there is nothing that both ends take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TermsError {
    /// Both have the key, and no cipher in common.
    #[error("there is no cipher that both sides take")]
    Cipher,
    /// What the other end says is not what it may say.
    #[error("the peer's terms are none")]
    Malformed,
}

/// Bytes of terms on the wire.
pub(crate) const TERMS_LEN: usize = 4;
/// RFC 9001, section 6.6, allows 2^23 packets of up to 2^16 bytes for a key of AES-GCM, the least of the three ciphers; half
/// of that.
pub(crate) const MOST_KEY_PACKETS_LOG2: u8 = 22;
/// The receiver keeps the keys of all packets that may be late or lost in a row: with shorter lives
/// they would be too many.
pub(crate) const LEAST_KEY_PACKETS_LOG2: u8 = 8;
/// Values that [`Terms::key_packets_log2`] may have; others are taken for the nearest.
pub const KEY_PACKETS_LOG2: RangeInclusive<u8> = LEAST_KEY_PACKETS_LOG2..=MOST_KEY_PACKETS_LOG2;

impl Default for Terms {
    /// Encrypt, by any cipher.
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

    /// What a responder with these makes of the initiator's.
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

    /// What an initiator with these makes of the responder's answer: it may not be less than what was asked for.
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
