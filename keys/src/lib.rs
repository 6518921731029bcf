//! Keyed connections, sans-IO: who does not have the key neither reads nor writes.
//!
//! [`Credentials`] are a pre-shared key, or a private key and a list of the public keys of others. A Noise handshake ([`Asking`],
//! [`Asked`]) inside connection set-up makes of them, and of two key pairs that are used once, the secrets of one connection; a
//! [`Session`] protects its packets with them. Randomness and the date come in as arguments. The design is in `docs/keys.md`.
#![forbid(unsafe_code)]

mod allow_list;
mod cipher;
mod claim;
mod credentials;
mod date;
mod handshake;
mod key;
mod key_id;
mod key_text;
mod replay;
mod schedule;
mod session;
mod static_key;
mod terms;

pub use allow_list::{AllowList, AllowListError, AllowedKey};
pub use cipher::{Cipher, UnknownCipher};
pub use credentials::{Credentials, Denied, Listener, StaticKeys};
pub use date::{Date, NoDate};
pub use handshake::{Answer, Asked, Asking, Binding, Secrets};
pub use key::{Key, KeyError, SecretKey};
pub use key_id::KeyId;
pub use key_text::KeyText;
pub use session::{Refused, Session};
pub use static_key::{PrivateKey, PublicKey};
pub use terms::{Agreed, KEY_PACKETS_LOG2, Protection, Terms, TermsError};
