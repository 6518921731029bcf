//! Keyed connections, sans-IO: only owners of a key can read and write packets.
//!
//! [`Credentials`] are a pre-shared key, or a private key and a list of allowed public keys. A
//! Noise handshake ([`InitiatorHandshake`], [`ResponderHandshake`]) inside connection set-up
//! derives the secrets of one connection from them and from two ephemeral key pairs. A [`Session`]
//! protects the packets of the connection. Randomness and the date are arguments. `docs/keys.md`
//! explains the design.
//!
//! Without the feature `crypto`, which is on by default, the crate has the same types and needs no
//! cryptographic library. It reads no key then ([`KeyError::Absent`]), and makes none.
#![forbid(unsafe_code)]

mod allow_list;
mod cipher;
mod claim;
mod credentials;
#[cfg_attr(not(feature = "crypto"), path = "absent/mod.rs")]
mod crypto;
mod date;
mod exchange;
mod handshake;
mod key;
mod key_id;
mod key_text;
#[cfg_attr(not(feature = "crypto"), path = "absent/noise.rs")]
mod noise;
#[cfg(feature = "crypto")]
mod primitives;
mod replay;
mod schedule;
mod session;
mod static_key;
mod terms;
#[cfg_attr(not(feature = "crypto"), path = "absent/x25519.rs")]
mod x25519;

pub use allow_list::{AllowList, AllowListError, AllowedKey};
pub use cipher::{Cipher, UnknownCipher};
pub use credentials::{Credentials, Denied, Listener, StaticKeys};
pub use crypto::HAS_CRYPTO;
pub use date::{Date, NoDate};
pub use exchange::{Binding, Secrets};
pub use handshake::{HandshakeReply, InitiatorHandshake, ResponderHandshake};
pub use key::{Key, KeyError, SecretKey};
pub use key_id::KeyId;
pub use key_text::KeyText;
pub use session::{Refused, Session};
pub use static_key::{PrivateKey, PublicKey};
pub use terms::{Agreed, KEY_PACKETS_LOG2, Protection, Terms, TermsError};
