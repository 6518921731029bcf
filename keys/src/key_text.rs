//! How 256 bits stand in a text: the kind of the key, then 64 hexadecimal digits.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroizing;

/// Bytes of any key.
pub(crate) const LEN: usize = 32;

/// How many characters stand where 64 hexadecimal digits should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrongDigits(pub(crate) usize);

/// The text of a key file, with the key in it. Wiped when dropped; `Debug` shows nothing of it. As a `str` it is what is written
/// to the file.
pub struct KeyText(Zeroizing<String>);

impl KeyText {
    /// An empty text of at most `room` bytes: it never moves, so that no copy of a part is left behind.
    pub(crate) fn with_room(room: usize) -> Self {
        KeyText(Zeroizing::new(String::with_capacity(room)))
    }

    pub(crate) fn push_str(&mut self, text: &str) {
        debug_assert!(self.0.len() + text.len() <= self.0.capacity(), "it has room for all of it");
        self.0.push_str(text);
    }

    /// `kind` and the digits, in a line of their own.
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

/// What follows `kind` in a line, without the space around it. `None`: the line is of another kind.
pub(crate) fn after<'a>(kind: &str, line: &'a str) -> Option<&'a str> {
    let rest = line.strip_prefix(kind)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// Reads the digits. Nothing of them is in the error.
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

/// Appends `kind` and the digits. `text` keeps its place, so that no copy of it is left behind, if it has room for
/// [`room`] bytes.
pub(crate) fn append(text: &mut String, kind: &str, key: &[u8; LEN]) {
    text.push_str(kind);
    text.push(' ');
    for nibble in key.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
        text.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
    }
}

/// Bytes that [`append`] takes.
pub(crate) const fn room(kind: &str) -> usize {
    kind.len() + 1 + 2 * LEN
}
