//! The security configuration of an engine: keys, ciphers and modes.

pub use braid_keys::{
    Agreed, AllowListError, AllowedKey, Cipher, Credentials, Date, KeyError, KeyText, Protection,
    PublicKey, StaticKeys, UnknownCipher,
};

/// The allowed keys of [`StaticKeys`]. [`read_allowed_keys`] reads a list from a file.
///
/// ```
/// use braid::{AllowList, PrivateKey};
///
/// # fn main() -> Result<(), braid::AllowListError> {
/// # let (one, two) = (PrivateKey::new([1; 32]).public(), PrivateKey::new([2; 32]).public());
/// let text = format!("# rack 4\n{one} # node-17\n{two} until 2027-01-31 # node-18\n");
/// let list = AllowList::parse(&text)?;
/// assert_eq!(list.keys().len(), 2);
/// assert_eq!(&*list.keys()[0].name, "node-17");
/// assert!(list.keys()[1].until.is_some());
/// # Ok(())
/// # }
/// ```
pub use braid_keys::AllowList;

/// A pre-shared key. [`make_key`](crate::make_key) creates a file with a random key, and
/// [`read_key`] reads it.
///
/// ```
/// use braid::{Key, SecretKey, Security};
///
/// # fn main() -> Result<(), braid::KeyError> {
/// # let random = [7; 32];
/// let key = Key::new(random); // 32 bytes of the system's random numbers
/// assert_eq!(SecretKey::parse(&key.to_text())?, SecretKey::Shared(key.clone()));
/// assert_eq!(format!("{key:?}"), "Key(..)");
/// let security = Security::new(key);
/// assert!(security.required);
/// # Ok(())
/// # }
/// ```
pub use braid_keys::Key;

/// The private key of one host. [`make_private_key`](crate::make_private_key) creates a file with a
/// random key, and [`read_key`] reads it.
///
/// ```
/// use braid::{AllowList, PrivateKey, Security, StaticKeys};
///
/// # fn main() -> Result<(), braid::AllowListError> {
/// # let (random, their_random) = ([7; 32], [8; 32]);
/// let own = PrivateKey::new(random); // 32 bytes of the system's random numbers
/// let theirs = PrivateKey::new(their_random).public(); // the peer has sent it
/// let allowed = AllowList::parse(&format!("{theirs} # node-17\n"))?;
/// println!("for the list of the peer: {}", own.public());
/// let security = Security::new(StaticKeys::new(own, allowed));
/// # Ok(())
/// # }
/// ```
pub use braid_keys::PrivateKey;

/// The content of a key file, of either kind.
///
/// ```no_run
/// use braid::{SecretKey, Security, SecurityError, StaticKeys, read_allowed_keys, read_key};
///
/// # fn main() -> Result<(), SecurityError> {
/// let security = match read_key("/etc/braid/key")? {
///     SecretKey::Shared(key) => Security::new(key),
///     SecretKey::Private(own) => {
///         Security::new(StaticKeys::new(own, read_allowed_keys("/etc/braid/allowed")?))
///     }
/// };
/// # Ok(())
/// # }
/// ```
pub use braid_keys::SecretKey;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use braid_keys::Terms;

use crate::key_file::{KeyFileError, read_allowed_keys, read_key};

/// The protection of an engine's connections, over UDP and on any number of rails. See
/// `docs/keys.md`.
///
/// An engine with a pre-shared key connects only to engines with the same key. An engine with a
/// private key connects only to engines whose public keys it allows and that allow its own.
///
/// ```
/// use std::thread;
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, Key, Protection, QpOptions, Security};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let random = [7; 32];
/// let mut security = Security::new(Key::new(random)); // or of `braid::read_key`
/// security.protection = Protection::Encrypt; // the default: see the fields
/// let bind = "127.0.0.1:0".parse()?;
/// let config = EngineConfig { bind, security: Some(security), ..Default::default() };
///
/// let server = Engine::new(config.clone())?;
/// let (pd, cq) = (server.alloc_pd(), server.create_cq(16)?);
/// let (accepted, listener) = (pd.create_qp(QpOptions::new(&cq, &cq))?, server.listen(1)?);
///
/// let client = Engine::new(config)?;
/// let cq = client.create_cq(16)?;
/// let qp = client.alloc_pd().create_qp(QpOptions::new(&cq, &cq))?;
/// thread::scope(|scope| {
///     scope.spawn(|| {
///         let request = listener.accept(PATIENCE).expect("the client comes");
///         request.accept(&accepted, b"").expect("the queue pair is new");
///     });
///     qp.connect(server.local_addr(), b"", PATIENCE)
/// })?;
/// let agreed = qp.security().expect("it is keyed");
/// assert_eq!(agreed.protection, Protection::Encrypt);
/// println!("encrypted with {}", agreed.cipher);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Security {
    /// The pre-shared key, or the private key and the allowed public keys. [`Security::new`] takes
    /// it, so it has no default.
    pub credentials: Credentials,
    /// The least protection of packets. A connection uses the stronger of what both ends ask for.
    /// Default: [`Protection::Encrypt`].
    pub protection: Protection,
    /// The allowed ciphers, at least one. The accepting end picks its first one that the other end
    /// allows too. Default: [`Cipher::ALL`].
    pub ciphers: Vec<Cipher>,
    /// Whether a listener rejects peers without a key. Otherwise such connections are unprotected.
    /// Default: `true`.
    pub required: bool,
    /// The binary logarithm of the number of packets for which a key is used, 8 to 22. A connection
    /// uses the smaller value of both ends. Default: 22.
    pub key_packets_log2: u8,
}

impl Security {
    /// Requires encryption by any cipher.
    pub fn new(credentials: impl Into<Credentials>) -> Self {
        let Terms { protection, ciphers, key_packets_log2 } = Terms::default();
        let credentials = credentials.into();
        Security { credentials, protection, ciphers, required: true, key_packets_log2 }
    }

    /// The configuration from a user's settings: the key file, the file of allowed public keys if
    /// the key is private, and the mode. The default mode is [`SecurityMode::Required`] with any
    /// cipher. `None`: connections are not keyed.
    ///
    /// # Errors
    /// There is no key, or it cannot be used.
    pub fn from_files(
        key_file: Option<&Path>,
        allowed_keys: Option<&Path>,
        purpose: Option<KeyPurpose>,
    ) -> Result<Option<Self>, SecurityError> {
        let key = key_file.map(read_key).transpose()?;
        let allowed = allowed_keys.map(read_allowed_keys).transpose()?;
        Security::with(key, allowed, purpose)
    }

    /// The configuration from a user's settings whose files were read, see
    /// [`Security::from_files`].
    ///
    /// # Errors
    /// There is no key, a list of allowed keys has no private key, or a private key has no list.
    pub fn with(
        key: Option<SecretKey>,
        allowed: Option<AllowList>,
        purpose: Option<KeyPurpose>,
    ) -> Result<Option<Self>, SecurityError> {
        use Protection::{Authenticate, Encrypt};
        let credentials = credentials(key, allowed)?;
        let (mode, ciphers) = purpose.map(|it| (it.mode, it.ciphers)).unzip();
        let (protection, required) = match (&credentials, mode) {
            (_, Some(SecurityMode::Off)) | (None, None) => return Ok(None),
            (_, Some(SecurityMode::Auth)) => (Authenticate, false),
            (_, Some(SecurityMode::Encrypt)) => (Encrypt, false),
            (_, Some(SecurityMode::Required) | None) => (Encrypt, true),
        };
        let mode = mode.unwrap_or(SecurityMode::Required);
        let credentials = credentials.ok_or(SecurityError::NoKey { mode })?;
        let security = Security { protection, required, ..Security::new(credentials) };
        Ok(Some(match ciphers.flatten() {
            Some(ciphers) => Security { ciphers, ..security },
            None => security,
        }))
    }
}

/// The input of a handshake.
impl From<&Security> for Terms {
    fn from(security: &Security) -> Self {
        let Security { protection, key_packets_log2, .. } = *security;
        Terms { protection, ciphers: security.ciphers.clone(), key_packets_log2 }
    }
}

fn credentials(
    key: Option<SecretKey>,
    allowed: Option<AllowList>,
) -> Result<Option<Credentials>, SecurityError> {
    match (key, allowed) {
        (None, None) => Ok(None),
        (Some(SecretKey::Shared(key)), None) => Ok(Some(key.into())),
        (Some(SecretKey::Private(own)), Some(allowed)) => {
            Ok(Some(StaticKeys::new(own, allowed).into()))
        }
        (Some(SecretKey::Private(_)), None) => Err(SecurityError::NoAllowedKeys),
        (None | Some(SecretKey::Shared(_)), Some(_)) => Err(SecurityError::NoPrivateKey),
    }
}

/// The mode of security, as users name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SecurityMode {
    /// Connections are not keyed.
    Off,
    /// Packets are authenticated. A listener also accepts connections without a key.
    Auth,
    /// Packets are encrypted. A listener also accepts connections without a key.
    Encrypt,
    /// Packets are encrypted, and a listener rejects connections without a key.
    Required,
}

/// A mode and the allowed ciphers, as users write them: `MODE` or `MODE:CIPHER,..`, such as `auth`
/// or `required:aes-128-gcm,chacha20-poly1305`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeyPurpose {
    /// The mode.
    pub mode: SecurityMode,
    /// The allowed ciphers in order of preference, at least one. `None`: [`Cipher::ALL`].
    pub ciphers: Option<Vec<Cipher>>,
}

impl From<SecurityMode> for KeyPurpose {
    fn from(mode: SecurityMode) -> Self {
        KeyPurpose { mode, ciphers: None }
    }
}

impl fmt::Display for KeyPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mode)?;
        for (at, cipher) in self.ciphers.iter().flatten().enumerate() {
            write!(f, "{}{cipher}", if at == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for KeyPurpose {
    type Err = UnknownSecurity;

    fn from_str(text: &str) -> Result<Self, UnknownSecurity> {
        let Some((mode, ciphers)) = text.split_once(':') else {
            return Ok(parse_mode(text)?.into());
        };
        let ciphers = ciphers.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Ok(KeyPurpose { mode: parse_mode(mode)?, ciphers: Some(ciphers) })
    }
}

/// The reason why connections cannot be keyed as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// The mode needs a key.
    #[error("security `{mode}` needs a key file; `braid-perf keygen FILE` makes one")]
    NoKey {
        /// The mode.
        mode: SecurityMode,
    },
    /// A private key has no list of allowed keys, so no peer could connect.
    #[error(
        "the key file holds a private key; name the file of the public keys that are allowed as \
         well"
    )]
    NoAllowedKeys,
    /// A list of allowed keys has no private key.
    #[error(
        "a list of allowed keys goes with a key file that holds a private key; \
         `braid-perf keygen --static FILE` makes one"
    )]
    NoPrivateKey,
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] KeyFileError),
}

/// A name of no mode or cipher.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownSecurity {
    /// The mode is unknown.
    #[error(
        "`{name}` is not a security mode; accepted: off, auth, encrypt, required, each with \
         an optional `:CIPHER,..`"
    )]
    Mode {
        /// The name.
        name: String,
    },
    /// The cipher is unknown.
    #[error(transparent)]
    Cipher(#[from] UnknownCipher),
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

fn parse_mode(name: &str) -> Result<SecurityMode, UnknownSecurity> {
    let known = SecurityMode::ALL.into_iter().find(|(_, known)| *known == name);
    known.map(|(mode, _)| mode).ok_or_else(|| UnknownSecurity::Mode { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_say_what_is_taken_and_what_is_required() {
        let key = || Some(SecretKey::Shared(Key::new([1; 32])));
        let of = |name: &str| {
            let purpose: KeyPurpose = name.parse().unwrap();
            assert_eq!(purpose.to_string(), name);
            let security = Security::with(key(), None, Some(purpose)).unwrap();
            security.map(|security| (security.protection, security.required))
        };
        assert_eq!(of("off"), None);
        assert_eq!(of("auth"), Some((Protection::Authenticate, false)));
        assert_eq!(of("encrypt"), Some((Protection::Encrypt, false)));
        assert_eq!(of("required"), Some((Protection::Encrypt, true)));
        assert!("on".parse::<KeyPurpose>().is_err());
        let unsaid = Security::with(key(), None, None).unwrap().unwrap();
        assert!(unsaid.required && unsaid.protection == Protection::Encrypt);
        assert_eq!(Security::with(None, None, None).unwrap(), None);
        assert!(Security::with(None, None, Some(SecurityMode::Auth.into())).is_err());
    }

    #[test]
    fn ciphers_are_those_that_are_named() {
        let text = "auth:chacha20-poly1305,aes-128-gcm";
        let purpose: KeyPurpose = text.parse().unwrap();
        assert_eq!(purpose.to_string(), text);
        let key = SecretKey::Shared(Key::new([1; 32]));
        let security = Security::with(Some(key), None, Some(purpose)).unwrap().unwrap();
        assert_eq!(security.ciphers, [Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm]);
        for (wrong, known) in
            [("auth:rc4", "aes-256-gcm"), ("auth:", "aes-256-gcm"), ("x:aes-128-gcm", "off")]
        {
            let error = wrong.parse::<KeyPurpose>().expect_err(wrong).to_string();
            assert!(error.contains(known), "{error}");
        }
    }

    #[test]
    fn a_private_key_and_a_list_go_together() {
        let own = PrivateKey::new([1; 32]);
        let list = || AllowList::parse(&own.public().to_string()).ok();
        let private = || Some(SecretKey::Private(own.clone()));
        let shared = || Some(SecretKey::Shared(Key::new([1; 32])));
        let security = Security::with(private(), list(), None).unwrap().unwrap();
        assert_eq!(security, Security::new(StaticKeys::new(own.clone(), list().unwrap())));
        let without = Security::with(private(), None, None);
        assert!(matches!(without, Err(SecurityError::NoAllowedKeys)));
        for key in [None, shared()] {
            let with = Security::with(key, list(), None);
            assert!(matches!(with, Err(SecurityError::NoPrivateKey)));
        }
    }
}
