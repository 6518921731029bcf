//! Lists of allowed public keys in the format of their files.

use std::sync::Arc;

use crate::crypto::HAS_CRYPTO;
use crate::date::{Date, NoDate};
use crate::key_text::{self, WrongDigits};
use crate::{PrivateKey, PublicKey};

/// Maximum number of keys, because each set-up goes through all of them.
const MOST: usize = 1024;
/// Maximum length of a name in characters.
const LONGEST_NAME: usize = 64;

/// Public keys with names: at least one and at most 1024, each once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowList(Arc<[AllowedKey]>);

/// A key of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedKey {
    /// The key.
    pub key: PublicKey,
    /// The name on its line, or its first eight digits.
    pub name: Arc<str>,
    /// The last day, in UTC, on which the key is allowed, or `None` for no limit.
    pub until: Option<Date>,
}

/// The reason why a text is not a valid list of allowed keys. No error repeats the text, because it
/// might be a private key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllowListError {
    /// The program is built without the feature for keys.
    #[error("this program is built without keys; build it with the feature `keys` of braid-rdma")]
    Absent,
    /// The list is empty.
    #[error(
        "the list has no line `braid-public DIGITS`; `braid-perf keygen --static FILE` prints such lines"
    )]
    Empty,
    /// The list has more than 1024 keys.
    #[error("the list has more than {MOST} keys; remove some")]
    Long,
    /// The line has no valid format.
    #[error(
        "line {line} is invalid; use `braid-public DIGITS [until YYYY-MM-DD] [# NAME]` or a comment (`#`)"
    )]
    Line {
        /// The line number, from 1.
        line: usize,
    },
    /// The list contains a private key, which others can read.
    #[error("line {line} is a private key; generate a new pair and list its public key instead")]
    Private {
        /// The line number, from 1.
        line: usize,
    },
    /// The key does not have 64 hexadecimal digits.
    #[error("the key on line {line} has {digits} characters; use 64 hexadecimal digits (256 bits)")]
    Digits {
        /// The line number, from 1.
        line: usize,
        /// Number of characters.
        digits: usize,
    },
    /// The key is a point of small order, so that anyone can connect with it.
    #[error(
        "the key on line {line} is not a valid public key; copy it from `braid-perf keygen --static FILE`"
    )]
    Weak {
        /// The line number, from 1.
        line: usize,
    },
    /// The date is invalid.
    #[error("line {line} has `until` without a valid date; use YYYY-MM-DD")]
    Date {
        /// The line number, from 1.
        line: usize,
    },
    /// The name is too long or could corrupt a log.
    #[error(
        "the name on line {line} has control characters or more than {LONGEST_NAME} characters"
    )]
    Name {
        /// The line number, from 1.
        line: usize,
    },
    /// The list contains the key twice, so it is unclear which line applies.
    #[error("the key on line {line} is listed twice; list it once")]
    Twice {
        /// The line number, from 1.
        line: usize,
    },
}

impl AllowList {
    /// Parses lines `braid-public DIGITS [until YYYY-MM-DD] [# NAME]`, empty lines, and comment
    /// lines that start with `#`.
    ///
    /// # Errors
    /// See [`AllowListError`].
    pub fn parse(text: &str) -> Result<Self, AllowListError> {
        if !HAS_CRYPTO {
            return Err(AllowListError::Absent);
        }
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, words)| !words.is_empty() && !words.starts_with('#'));
        if lines.clone().count() > MOST {
            return Err(AllowListError::Long);
        }
        let mut keys: Vec<AllowedKey> = Vec::new();
        for (line, words) in lines {
            let allowed = AllowedKey::parse(line, words)?;
            if keys.iter().any(|known| known.key == allowed.key) {
                return Err(AllowListError::Twice { line });
            }
            keys.push(allowed);
        }
        if keys.is_empty() { Err(AllowListError::Empty) } else { Ok(AllowList(keys.into())) }
    }

    /// Returns the keys in the order of their lines.
    pub fn keys(&self) -> &[AllowedKey] {
        &self.0
    }
}

impl AllowedKey {
    /// Returns whether the key is allowed on this day.
    pub fn is_allowed(&self, today: Date) -> bool {
        self.until.is_none_or(|until| today <= until)
    }

    fn parse(line: usize, words: &str) -> Result<Self, AllowListError> {
        if key_text::after(PrivateKey::KIND, words).is_some() {
            return Err(AllowListError::Private { line });
        }
        let (words, name) = words.split_once('#').unwrap_or((words, ""));
        let rest = key_text::after(PublicKey::KIND, words.trim());
        let rest = rest.ok_or(AllowListError::Line { line })?;
        let (digits, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let key = key_text::from_digits(digits);
        let key = key.map_err(|WrongDigits(digits)| AllowListError::Digits { line, digits })?;
        let key = PublicKey::new(*key).ok_or(AllowListError::Weak { line })?;
        let name = match name.trim() {
            "" => &digits[..8],
            name if name.chars().count() > LONGEST_NAME || name.contains(char::is_control) => {
                return Err(AllowListError::Name { line });
            }
            name => name,
        };
        Ok(AllowedKey { key, name: name.into(), until: until(line, rest.trim())? })
    }
}

fn until(line: usize, words: &str) -> Result<Option<Date>, AllowListError> {
    if words.is_empty() {
        return Ok(None);
    }
    let day = key_text::after("until", words).ok_or(AllowListError::Line { line })?;
    day.parse().map(Some).map_err(|NoDate| AllowListError::Date { line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(byte: u8) -> PublicKey {
        PrivateKey::new([byte; 32]).public()
    }

    #[test]
    fn lines_say_key_name_and_last_day() {
        let (a, b, c) = (public(1), public(2), public(3));
        let text = format!("# hosts\n{a}\n\n  {b}  # node 17 \n{c} until 2027-01-31 # node-18\n");
        let list = AllowList::parse(&text).unwrap();
        let [first, second, third] = list.keys() else { panic!("{list:?}") };
        assert_eq!((first.key, first.until), (a, None));
        assert_eq!(*first.name, a.to_string()["braid-public ".len()..][..8]);
        assert_eq!((second.key, &*second.name), (b, "node 17"));
        assert_eq!((third.key, &*third.name), (c, "node-18"));
        let date = |text: &str| text.parse::<Date>().unwrap();
        assert!(third.is_allowed(date("2027-01-31")) && !third.is_allowed(date("2027-02-01")));
        assert!(second.is_allowed(date("9999-12-31")));
    }

    #[test]
    fn what_is_no_list_is_refused_by_its_line() {
        use AllowListError::*;
        let (a, digits) = (public(1), "0".repeat(64));
        for (text, error) in [
            (String::new(), Empty),
            ("# nobody\n".to_owned(), Empty),
            (format!("{a}\nnode 17"), Line { line: 2 }),
            (format!("\n{a} forever"), Line { line: 2 }),
            (format!("{a} until"), Date { line: 1 }),
            (format!("{a} until tomorrow # node"), Date { line: 1 }),
            (format!("{a} until 2027-02-29"), Date { line: 1 }),
            (format!("{a} # a\n{a} # b"), Twice { line: 2 }),
            (format!("braid-private {digits}"), Private { line: 1 }),
            (format!("braid-psk {digits}"), Line { line: 1 }),
            (format!("braid-public {digits}"), Weak { line: 1 }),
            ("braid-public".to_owned(), Digits { line: 1, digits: 0 }),
            (format!("braid-public {digits}0"), Digits { line: 1, digits: 65 }),
            (format!("{a} # a\u{7}"), Name { line: 1 }),
            (format!("{a} # {}", "a".repeat(65)), Name { line: 1 }),
        ] {
            assert_eq!(AllowList::parse(&text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn a_list_is_as_long_as_every_set_up_can_go_through() {
        let mut text = format!("{}\n", public(1)).repeat(MOST);
        assert_eq!(AllowList::parse(&text), Err(AllowListError::Twice { line: 2 }));
        text.push_str("braid-public\n");
        assert_eq!(AllowList::parse(&text), Err(AllowListError::Long));
    }
}
