//! The pre-shared key, and how it stands in a file.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

const LEN: usize = 32;
/// What stands before the digits.
const NAME: &str = "braid-psk";
const REMARK: &str =
    "# A key of Braid. Whoever has it can connect to whoever else has it; keep it secret.\n";

/// 256 bits that both ends of a connection have, and nobody else. Wiped when dropped; `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; LEN]);

/// Why a text holds no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no line with one.
    #[error("it has no line `{NAME} DIGITS`; `braid-perf keygen FILE` makes a key file")]
    Missing,
    /// There is more than one.
    #[error("it has more than one key; take one")]
    Several,
    /// A line that means nothing.
    #[error("line {line} is neither a key nor a remark (`#`)")]
    Line {
        /// Its number, from 1.
        line: usize,
    },
    /// Not 64 hexadecimal digits.
    #[error("the key has {digits} characters; it takes 64 hexadecimal digits (256 bits)")]
    Digits {
        /// How many characters stand there.
        digits: usize,
    },
}

impl Key {
    /// Takes 32 bytes, which have to be random.
    pub fn new(bytes: [u8; LEN]) -> Self {
        Key(bytes)
    }

    /// Reads the text of a key file: one line `braid-psk DIGITS` with 64 hexadecimal digits, empty lines, and lines that
    /// begin with `#`.
    ///
    /// # Errors
    /// See [`KeyError`]; no error repeats what stands in the text.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut key = None;
        for (line, words) in (1..).zip(text.lines().map(str::trim)) {
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            let digits =
                words.strip_prefix(NAME).filter(|rest| rest.starts_with(char::is_whitespace));
            let digits = digits.ok_or(KeyError::Line { line })?.trim();
            if key.replace(Key::from_digits(digits)?).is_some() {
                return Err(KeyError::Several);
            }
        }
        key.ok_or(KeyError::Missing)
    }

    /// What a key file says.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text =
            Zeroizing::new(String::with_capacity(REMARK.len() + NAME.len() + 2 * LEN + 2));
        text.push_str(REMARK);
        text.push_str(NAME);
        text.push(' ');
        for nibble in self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
            text.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
        }
        text.push('\n');
        text
    }

    pub(crate) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    fn from_digits(digits: &str) -> Result<Self, KeyError> {
        let wrong = KeyError::Digits { digits: digits.chars().count() };
        let mut key = Key([0; LEN]);
        if digits.len() != 2 * LEN {
            return Err(wrong);
        }
        for (byte, pair) in key.0.iter_mut().zip(digits.as_bytes().chunks(2)) {
            for digit in pair {
                let value = char::from(*digit).to_digit(16).ok_or(wrong)?;
                *byte = *byte << 4 | value as u8;
            }
        }
        Ok(key)
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
        let key = Key::new(std::array::from_fn(|at| at as u8 * 7));
        assert_eq!(Key::parse(&key.to_text()), Ok(key));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let digits = "0".repeat(64);
        let line = format!("{NAME} {digits}\n");
        assert!(Key::parse(&line).is_ok());
        for (text, error) in [
            (String::new(), KeyError::Missing),
            ("# nothing\n\n".to_owned(), KeyError::Missing),
            (line.repeat(2), KeyError::Several),
            (format!("\n{digits}\n"), KeyError::Line { line: 2 }),
            (format!("{NAME}{digits}\n"), KeyError::Line { line: 1 }),
            (format!("{NAME} 00\n"), KeyError::Digits { digits: 2 }),
            (format!("{NAME} {digits}00\n"), KeyError::Digits { digits: 66 }),
            (format!("{NAME} {}x\n", &digits[1..]), KeyError::Digits { digits: 64 }),
            (format!("{NAME} {}\u{e9}\n", &digits[2..]), KeyError::Digits { digits: 63 }),
        ] {
            assert_eq!(Key::parse(&text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn debug_and_errors_show_nothing_of_it() {
        let digits = "ab".repeat(31);
        let error = Key::parse(&format!("{NAME} {digits}")).unwrap_err();
        assert!(!error.to_string().contains("abab"), "{error}");
        assert_eq!(format!("{:?}", Key::new([0xAB; LEN])), "Key(..)");
    }
}
