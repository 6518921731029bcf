//! Pre-shared keys and key files, which contain a pre-shared key or a private key.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::PrivateKey;
use crate::crypto::HAS_CRYPTO;
use crate::key_text::{self, KeyText, LEN, WrongDigits};

/// The word before the digits.
const KIND: &str = "braid-psk";
const REMARK: &str =
    "# A pre-shared key of Braid. Its owners can connect to each other; keep it secret.\n";

/// A 256-bit key that only the two ends of a connection have. Wiped on drop. `Debug` does not show
/// it.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; LEN]);

/// The contents of a key file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecretKey {
    /// A pre-shared key: a line `braid-psk DIGITS`.
    Shared(Key),
    /// A private key: a line `braid-private DIGITS`.
    Private(PrivateKey),
}

/// The reason why a text is not a valid key file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The program is built without the feature for keys.
    #[error("this program is built without keys; build it with the feature `keys` of braid-rdma")]
    Absent,
    /// There is no key.
    #[error(
        "there is no line `braid-psk DIGITS` or `braid-private DIGITS`; `braid-perf keygen FILE` makes a key file"
    )]
    Missing,
    /// There are several keys.
    #[error("there is more than one key; keep one")]
    Several,
    /// The line has no valid format.
    #[error("line {line} is neither a key nor a comment (`#`)")]
    Line {
        /// The line number, from 1.
        line: usize,
    },
    /// The key does not have 64 hexadecimal digits.
    #[error("the key has {digits} characters; use 64 hexadecimal digits (256 bits)")]
    Digits {
        /// Number of characters.
        digits: usize,
    },
}

impl From<WrongDigits> for KeyError {
    fn from(WrongDigits(digits): WrongDigits) -> Self {
        KeyError::Digits { digits }
    }
}

impl SecretKey {
    /// Parses a key file: one line `braid-psk DIGITS` or `braid-private DIGITS` with 64 hexadecimal
    /// digits, empty lines, and comment lines that start with `#`.
    ///
    /// # Errors
    /// See [`KeyError`]. No error repeats the text.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if !HAS_CRYPTO {
            return Err(KeyError::Absent);
        }
        let mut key = None;
        for (line, words) in (1..).zip(text.lines().map(str::trim)) {
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            let found = if let Some(digits) = key_text::after(KIND, words) {
                SecretKey::Shared(Key(*key_text::from_digits(digits)?))
            } else if let Some(digits) = key_text::after(PrivateKey::KIND, words) {
                SecretKey::Private(PrivateKey::new(*key_text::from_digits(digits)?))
            } else {
                return Err(KeyError::Line { line });
            };
            if key.replace(found).is_some() {
                return Err(KeyError::Several);
            }
        }
        key.ok_or(KeyError::Missing)
    }
}

impl Key {
    /// Creates a key from 32 random bytes.
    pub fn new(bytes: [u8; LEN]) -> Self {
        Key(bytes)
    }

    /// Returns the text of a key file.
    pub fn to_text(&self) -> KeyText {
        let mut text = KeyText::with_room(REMARK.len() + key_text::room(KIND) + 1);
        text.push_str(REMARK);
        text.push_key(KIND, &self.0);
        text
    }

    pub(crate) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_from_its_text() {
        let bytes = std::array::from_fn(|at| at as u8 * 7);
        let key = Key::new(bytes);
        assert_eq!(SecretKey::parse(&key.to_text()), Ok(SecretKey::Shared(key)));
        let key = PrivateKey::new(bytes);
        assert_eq!(SecretKey::parse(&key.to_text()), Ok(SecretKey::Private(key)));
    }

    #[test]
    fn the_text_of_a_key_does_not_move_and_is_not_shown() {
        let key = Key::new([0xAB; LEN]);
        let text = key.to_text();
        assert!(
            text.ends_with(&format!("braid-psk {}\n", "ab".repeat(LEN))),
            "one line for the key"
        );
        assert_eq!(format!("{text:?}"), "KeyText(..)");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let digits = "0".repeat(64);
        for kind in [KIND, PrivateKey::KIND] {
            let line = format!("{kind} {digits}\n");
            assert!(SecretKey::parse(&line).is_ok());
            for (text, error) in [
                (String::new(), KeyError::Missing),
                ("# nothing\n\n".to_owned(), KeyError::Missing),
                (line.repeat(2), KeyError::Several),
                (format!("{line}{KIND} {digits}\n"), KeyError::Several),
                (format!("\n{digits}\n"), KeyError::Line { line: 2 }),
                (format!("{kind}{digits}\n"), KeyError::Line { line: 1 }),
                (format!("{kind}\n"), KeyError::Digits { digits: 0 }),
                (format!("{kind} 00\n"), KeyError::Digits { digits: 2 }),
                (format!("{kind} {digits}00\n"), KeyError::Digits { digits: 66 }),
                (format!("{kind} {}x\n", &digits[1..]), KeyError::Digits { digits: 64 }),
                (format!("{kind} {}\u{e9}\n", &digits[2..]), KeyError::Digits { digits: 63 }),
            ] {
                assert_eq!(SecretKey::parse(&text), Err(error), "{text:?}");
            }
        }
    }

    #[test]
    fn debug_and_errors_show_nothing_of_it() {
        let digits = "ab".repeat(31);
        let error = SecretKey::parse(&format!("{KIND} {digits}")).unwrap_err();
        assert!(!error.to_string().contains("abab"), "{error}");
        assert_eq!(format!("{:?}", Key::new([0xAB; LEN])), "Key(..)");
        assert_eq!(format!("{:?}", PrivateKey::new([0xAB; LEN])), "PrivateKey(..)");
    }
}
