//! Keys as text: the kind of the key and 64 hexadecimal digits.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroizing;

/// Length of any key in bytes.
pub(crate) const LEN: usize = 32;

/// The number of characters in place of 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrongDigits(pub(crate) usize);

/// The text of a key file with its key. Wiped on drop. `Debug` does not show it. The `str` is the
/// contents of the file.
pub struct KeyText(Zeroizing<String>);

impl KeyText {
    /// Creates an empty text of at most `room` bytes, which never moves, so that no partial copy is
    /// left in memory.
    pub(crate) fn with_room(room: usize) -> Self {
        KeyText(Zeroizing::new(String::with_capacity(room)))
    }

    pub(crate) fn push_str(&mut self, text: &str) {
        debug_assert!(self.0.len() + text.len() <= self.0.capacity(), "it has room for all of it");
        self.0.push_str(text);
    }

    /// Appends a line with `kind` and the digits.
    pub(crate) fn push_key(&mut self, kind: &str, key: &[u8; LEN]) {
        debug_assert!(self.0.len() + room(kind) < self.0.capacity(), "it has room for all of it");
        append(&mut self.0, kind, key);
        self.0.push('\n');
    }
}

impl Deref for KeyText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(..)")
    }
}

/// Returns the trimmed text after `kind`, or `None` if the line is of another kind.
pub(crate) fn after<'a>(kind: &str, line: &'a str) -> Option<&'a str> {
    let rest = line.strip_prefix(kind)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// Parses the digits. The error does not contain them.
pub(crate) fn from_digits(digits: &str) -> Result<Zeroizing<[u8; LEN]>, WrongDigits> {
    let wrong = WrongDigits(digits.chars().count());
    let mut key = Zeroizing::new([0; LEN]);
    if digits.len() != 2 * LEN {
        return Err(wrong);
    }
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
        for digit in pair {
            let value = char::from(*digit).to_digit(16).ok_or(wrong)?;
            *byte = *byte << 4 | value as u8;
        }
    }
    Ok(key)
}

/// Appends `kind` and the digits. If `text` has a spare capacity of [`room`] bytes, it does not
/// move, so that no copy is left in memory.
pub(crate) fn append(text: &mut String, kind: &str, key: &[u8; LEN]) {
    text.push_str(kind);
    text.push(' ');
    for nibble in key.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
        text.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
    }
}

/// Returns the number of bytes that [`append`] adds.
pub(crate) const fn room(kind: &str) -> usize {
    kind.len() + 1 + 2 * LEN
}
