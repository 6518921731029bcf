//! Keyed connections, sans-IO: only owners of a key can read and write packets.
//!
//! [`Credentials`] are a pre-shared key, or a private key and a list of allowed public keys. A
//! Noise handshake ([`InitiatorHandshake`], [`ResponderHandshake`]) inside connection set-up
//! derives the secrets of one connection from them and from two ephemeral key pairs. A [`Session`]
//! protects the packets of the connection. Randomness and the date are arguments. `docs/keys.md`
//! explains the design.
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
pub use handshake::{Binding, HandshakeReply, InitiatorHandshake, ResponderHandshake, Secrets};
pub use key::{Key, KeyError, SecretKey};
pub use key_id::KeyId;
pub use key_text::KeyText;
pub use session::{Refused, Session};
pub use static_key::{PrivateKey, PublicKey};
pub use terms::{Agreed, KEY_PACKETS_LOG2, Protection, Terms, TermsError};
