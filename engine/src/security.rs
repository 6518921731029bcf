//! What an engine is told of keys.

pub use braid_keys::{Agreed, Cipher, Key, KeyError, Protection, UnknownCipher};

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use braid_keys::Terms;

use crate::key_file::{KeyFileError, read_key};

/// How the connections of an engine are protected. Over UDP, on any number of rails; see `docs/keys.md`.
///
/// An engine that has a key connects to those only who have the same.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Security {
    /// What both ends of a connection have.
    pub key: Key,
    /// The least that packets are protected against; the stronger of what both ends want holds.
    pub protection: Protection,
    /// The ciphers that may be used, at least one; the accepting end takes the first of its own that the other has too.
    pub ciphers: Vec<Cipher>,
    /// Whether a listener turns away who has no key. Otherwise such connections are as unprotected as without this.
    pub required: bool,
    /// A key is used for at most 2 to the power of this packets, 8 to 22; the smaller of what both ends want holds.
    pub key_packets_log2: u8,
}

impl Security {
    /// Encrypted, by any cipher, and nothing else is taken.
    pub fn new(key: Key) -> Self {
        let Terms { protection, ciphers, key_packets_log2 } = Terms::default();
        Security { key, protection, ciphers, required: true, key_packets_log2 }
    }

    /// What users say: the file of the key, and what it is for, which is [`SecurityMode::Required`] unless they say otherwise.
    /// `None`: connections are not keyed.
    ///
    /// # Errors
    /// There is no key, or it cannot be used.
    pub fn from_file(
        key_file: Option<&Path>,
        mode: Option<SecurityMode>,
    ) -> Result<Option<Self>, SecurityError> {
        let key = key_file.map(read_key).transpose()?;
        Security::with(key, mode)
    }

    /// As [`Security::from_file`].
    ///
    /// # Errors
    /// There is no key.
    pub fn with(
        key: Option<Key>,
        mode: Option<SecurityMode>,
    ) -> Result<Option<Self>, SecurityError> {
        use Protection::{Authenticate, Encrypt};
        let (protection, required) = match (&key, mode) {
            (_, Some(SecurityMode::Off)) | (None, None) => return Ok(None),
            (_, Some(SecurityMode::Auth)) => (Authenticate, false),
            (_, Some(SecurityMode::Encrypt)) => (Encrypt, false),
            (_, Some(SecurityMode::Required) | None) => (Encrypt, true),
        };
        let mode = mode.unwrap_or(SecurityMode::Required);
        let key = key.ok_or(SecurityError::NoKey { mode })?;
        Ok(Some(Security { protection, required, ..Security::new(key) }))
    }

    /// What goes into a handshake.
    pub(crate) fn terms(&self) -> Terms {
        let Security { protection, key_packets_log2, .. } = *self;
        Terms { protection, ciphers: self.ciphers.clone(), key_packets_log2 }
    }
}

/// What a key is for, as users name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecurityMode {
    /// Nothing: connections are not keyed.
    Off,
    /// Packets are authenticated. A listener takes connections without a key, too.
    Auth,
    /// They are encrypted as well. A listener takes connections without a key, too.
    Encrypt,
    /// As [`SecurityMode::Encrypt`], and a listener turns away who has no key.
    Required,
}

/// Why connections cannot be keyed as it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// A mode that needs one.
    #[error("security `{mode}` needs a key file; `braid-perf keygen FILE` makes one")]
    NoKey {
        /// The mode.
        mode: SecurityMode,
    },
    /// Its file.
    #[error(transparent)]
    File(#[from] KeyFileError),
}

/// A name that no mode has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}` is no security; accepted: off, auth, encrypt, required")]
pub struct UnknownSecurity {
    /// The name.
    pub name: String,
}

impl SecurityMode {
    const ALL: [(SecurityMode, &'static str); 4] = [
        (SecurityMode::Off, "off"),
        (SecurityMode::Auth, "auth"),
        (SecurityMode::Encrypt, "encrypt"),
        (SecurityMode::Required, "required"),
    ];
}

impl fmt::Display for SecurityMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = SecurityMode::ALL[*self as usize];
        f.write_str(name)
    }
}

impl FromStr for SecurityMode {
    type Err = UnknownSecurity;

    fn from_str(name: &str) -> Result<Self, UnknownSecurity> {
        let known = SecurityMode::ALL.into_iter().find(|(_, known)| *known == name);
        known.map(|(mode, _)| mode).ok_or_else(|| UnknownSecurity { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_say_what_is_taken_and_what_is_required() {
        let key = || Some(Key::new([1; 32]));
        let of = |name: &str| {
            let mode: SecurityMode = name.parse().unwrap();
            assert_eq!(mode.to_string(), name);
            let security = Security::with(key(), Some(mode)).unwrap();
            security.map(|security| (security.protection, security.required))
        };
        assert_eq!(of("off"), None);
        assert_eq!(of("auth"), Some((Protection::Authenticate, false)));
        assert_eq!(of("encrypt"), Some((Protection::Encrypt, false)));
        assert_eq!(of("required"), Some((Protection::Encrypt, true)));
        assert!("on".parse::<SecurityMode>().is_err());
        let unsaid = Security::with(key(), None).unwrap().unwrap();
        assert!(unsaid.required && unsaid.protection == Protection::Encrypt);
        assert_eq!(Security::with(None, None).unwrap(), None);
        assert!(Security::with(None, Some(SecurityMode::Auth)).is_err());
    }
}
