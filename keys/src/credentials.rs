//! What an end proves itself by, and by what it knows the other: one key for all, or keys of their own.

use std::sync::Arc;

use crate::claim::Claim;
use crate::handshake::Known;
use crate::key_id::Initiators;
use crate::{
    AllowList, AllowedKey, Asked, Asking, Binding, Date, Key, KeyId, PrivateKey, PublicKey, Terms,
};

/// What an end has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credentials {
    /// A key that all have who may connect to each other.
    Shared(Key),
    /// A key of its own, and the public keys of the others.
    Static(StaticKeys),
}

/// A private key, and the public keys of those that it connects to and takes connections of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticKeys {
    private: PrivateKey,
    public: PublicKey,
    allowed: AllowList,
}

/// Of which listener a cookie has come, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// What a message to it is good for.
    pub binding: Binding,
    /// Which static key it says to have.
    pub key: KeyId,
    /// What allowed keys are measured by.
    pub today: Date,
}

/// Why two ends do not connect. What the other end is told says less: see `docs/keys.md`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// It has another pre-shared key.
    #[error("its pre-shared key is another one")]
    OtherKey,
    /// One has a pre-shared key, the other one of its own.
    #[error("one side has a pre-shared key and the other one of its own")]
    Form,
    /// No line of the list has its key.
    #[error("its key is not on the list of allowed keys")]
    NotListed,
    /// Its line says so.
    #[error("the key of `{name}` was allowed until {until}")]
    Expired {
        /// What the list calls it.
        name: Arc<str>,
        /// Its last day.
        until: Date,
    },
    /// It says to have a key, and has not, or repeats what somebody else has said.
    #[error("it says to be `{name}` and does not have the key")]
    Impostor {
        /// What the list calls the owner of the key.
        name: Arc<str>,
    },
    /// The other end has denied it.
    #[error("this side's key is not on its list of allowed keys, or not any more")]
    UnknownHere,
}

impl From<Key> for Credentials {
    fn from(key: Key) -> Self {
        Credentials::Shared(key)
    }
}

impl From<StaticKeys> for Credentials {
    fn from(keys: StaticKeys) -> Self {
        Credentials::Static(keys)
    }
}

impl StaticKeys {
    /// Of a key that nobody else has. Its own public key may be on the list.
    pub fn new(private: PrivateKey, allowed: AllowList) -> Self {
        StaticKeys { public: private.public(), private, allowed }
    }

    fn listener(&self, listener: Listener) -> Result<&AllowedKey, Denied> {
        let Listener { binding, key, today } = listener;
        let mut keys = self.allowed.keys().iter();
        let known = keys.find(|allowed| KeyId::of_listener(&allowed.key, binding) == key);
        valid(known, today)
    }

    /// Goes through the whole list whatever it finds: how long it takes says nothing.
    fn initiator(&self, binding: Binding, id: KeyId, today: Date) -> Result<&AllowedKey, Denied> {
        let initiators = Initiators::of(&self.public, binding);
        let keys = self.allowed.keys().iter();
        let known =
            keys.fold(
                None,
                |known, allowed| {
                    if initiators.id(&allowed.key) == id { Some(allowed) } else { known }
                },
            );
        valid(known, today)
    }

    fn known<'a>(&'a self, peer: &'a PublicKey) -> Known<'a> {
        Known::Static { own: &self.private, peer }
    }

    fn read(
        &self,
        (binding, today): (Binding, Date),
        id: KeyId,
        seed: [u8; 32],
        message: &[u8],
    ) -> Result<Asked, Denied> {
        let allowed = self.initiator(binding, id, today);
        // What is denied is read too, as of somebody whom nobody can be: otherwise the time that an answer takes would tell
        // which public keys are allowed.
        let peer = allowed.as_ref().map_or(&self.public, |allowed| &allowed.key);
        let asked = Asked::read(self.known(peer), binding, seed, message);
        let name = allowed?.name.clone();
        match asked {
            Some(asked) => Ok(asked.of(name)),
            None => Err(Denied::Impostor { name }),
        }
    }
}

fn valid(known: Option<&AllowedKey>, today: Date) -> Result<&AllowedKey, Denied> {
    let allowed = known.ok_or(Denied::NotListed)?;
    match allowed.until {
        Some(until) if !allowed.is_allowed(today) => {
            Err(Denied::Expired { name: allowed.name.clone(), until })
        }
        _ => Ok(allowed),
    }
}

impl Credentials {
    /// What a listener says with its cookie.
    pub fn key_id(&self, binding: Binding) -> KeyId {
        match self {
            Credentials::Shared(_) => KeyId::NONE,
            Credentials::Static(keys) => KeyId::of_listener(&keys.public, binding),
        }
    }

    /// Begins an exchange, with what is offered. `seed` has to be random, and is used once. If the listener's key is denied, its
    /// message says so and nothing else, and the reason comes with it.
    ///
    /// # Panics
    /// If the offer has more than 65,000 bytes: set-up packets are much shorter.
    pub fn ask(
        &self,
        listener: Listener,
        seed: [u8; 32],
        terms: Terms,
        offer: &[u8],
    ) -> (Asking, Option<Denied>) {
        let binding = listener.binding;
        match self {
            Credentials::Shared(key) => {
                let known = Known::Shared(key);
                (Asking::new(known, Claim::Shared, binding, seed, terms, offer), None)
            }
            Credentials::Static(keys) => match keys.listener(listener) {
                Err(denied) => (Asking::unknown_listener(binding, terms), Some(denied)),
                Ok(peer) => {
                    let claim = Claim::Static(Initiators::of(&peer.key, binding).id(&keys.public));
                    let known = keys.known(&peer.key);
                    let asking = Asking::new(known, claim, binding, seed, terms, offer);
                    (asking.to(peer.name.clone()), None)
                }
            },
        }
    }

    /// Reads the message that somebody has begun with. `seed` as of [`Credentials::ask`].
    ///
    /// # Errors
    /// Its sender does not have the key, or one of those that are allowed on this day, or made it for something else.
    pub fn read(
        &self,
        binding: Binding,
        today: Date,
        seed: [u8; 32],
        message: &[u8],
    ) -> Result<Asked, Denied> {
        match (self, Claim::split(message)) {
            (Credentials::Shared(key), Some((Claim::Shared, message))) => {
                Asked::read(Known::Shared(key), binding, seed, message).ok_or(Denied::OtherKey)
            }
            (Credentials::Static(keys), Some((Claim::Static(id), message))) => {
                keys.read((binding, today), id, seed, message)
            }
            (Credentials::Static(_), Some((Claim::UnknownListener, _))) => Err(Denied::UnknownHere),
            (_, Some(_)) => Err(Denied::Form),
            (Credentials::Shared(_), None) => Err(Denied::OtherKey),
            (Credentials::Static(_), None) => Err(Denied::NotListed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: Binding = Binding { nonce: 77, cookie: 78 };

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    fn private(byte: u8) -> PrivateKey {
        PrivateKey::new([byte; 32])
    }

    /// With the private key of `own`, which allows the keys of these.
    fn keys(own: u8, allowed: &[(u8, &str)]) -> Credentials {
        let line = |(byte, rest): &(u8, &str)| format!("{} {rest}\n", private(*byte).public());
        let text: String = allowed.iter().map(line).collect();
        StaticKeys::new(private(own), AllowList::parse(&text).unwrap()).into()
    }

    fn ask(from: &Credentials, to: &Credentials, today: Date) -> (Asking, Option<Denied>) {
        let listener = Listener { binding: BINDING, key: to.key_id(BINDING), today };
        from.ask(listener, [2; 32], Terms::default(), b"an offer")
    }

    fn read(by: &Credentials, message: &[u8]) -> Result<Asked, Denied> {
        by.read(BINDING, day("2027-01-01"), [3; 32], message)
    }

    #[test]
    fn both_ends_know_each_other_by_name_and_have_the_same_secrets() {
        let (a, b) = (keys(1, &[(3, ""), (2, "# b")]), keys(2, &[(1, "# a")]));
        let (mut asking, denied) = ask(&a, &b, day("2027-01-01"));
        assert_eq!(denied, None);
        let asked = read(&b, asking.message()).unwrap();
        assert_eq!((asked.peer().as_deref(), asked.offer()), (Some("a"), &b"an offer"[..]));
        let agreed = asked.settle(&Terms::default()).unwrap();
        let (message, theirs) = asked.answer(agreed, b"another");
        let answer = asking.read(&message).unwrap();
        assert_eq!((answer.peer.as_deref(), &*answer.offer), (Some("b"), &b"another"[..]));
        assert_eq!(answer.secrets.sends, theirs.receives);
        assert_eq!(answer.secrets.receives, theirs.sends);
    }

    #[test]
    fn hosts_that_share_a_key_connect_as_well() {
        let a = keys(1, &[(1, "# this one")]);
        let (asking, _) = ask(&a, &a, Date::FIRST);
        let message = asking.message().to_vec();
        assert!(read(&a, &message).is_ok());
    }

    #[test]
    fn who_is_not_allowed_is_denied_for_what_it_is() {
        let a = keys(1, &[(2, "")]);
        let today = day("2027-01-01");
        let (asking, _) = ask(&a, &keys(2, &[(1, "")]), today);
        let message = asking.message();
        for (by, expected) in [
            (keys(2, &[(9, "")]), Denied::NotListed),
            (
                keys(2, &[(1, "until 2026-12-31 # a")]),
                Denied::Expired { name: "a".into(), until: day("2026-12-31") },
            ),
            // The id is for the owner of another key.
            (keys(3, &[(1, "")]), Denied::NotListed),
            (Key::new([1; 32]).into(), Denied::Form),
        ] {
            assert_eq!(read(&by, message).err(), Some(expected));
        }
        assert!(read(&keys(2, &[(1, "until 2027-01-01")]), message).is_ok());
        let shared = Credentials::from(Key::new([1; 32]));
        let (asking, _) = ask(&shared, &a, today);
        assert_eq!(read(&a, asking.message()).err(), Some(Denied::Form));
    }

    #[test]
    fn who_knows_public_keys_alone_is_an_impostor() {
        let (a, b) = (keys(1, &[(2, "")]), keys(2, &[(1, "# a")]));
        // The id of one, with the private key of another, who is allowed too.
        let (own, _) = ask(&a, &b, Date::FIRST);
        let (theirs, _) = ask(&keys(4, &[(2, "")]), &b, Date::FIRST);
        let message = [&own.message()[..9], &theirs.message()[9..]].concat();
        assert_eq!(read(&b, &message).err(), Some(Denied::Impostor { name: "a".into() }));
    }

    #[test]
    fn a_listener_that_is_not_allowed_is_told_so_and_reads_nothing() {
        let b = keys(2, &[(1, "")]);
        let today = day("2027-01-01");
        let expired = Denied::Expired { name: "b".into(), until: day("2026-12-31") };
        for (a, expected) in [
            (keys(1, &[(3, "")]), Denied::NotListed),
            (keys(1, &[(2, "until 2026-12-31 # b")]), expired),
        ] {
            let (mut asking, denied) = ask(&a, &b, today);
            assert_eq!(denied, Some(expected));
            assert_eq!(read(&b, asking.message()).err(), Some(Denied::UnknownHere));
            assert!(asking.read(&[0; 64]).is_none(), "nothing was asked");
        }
        // It has none.
        let shared = Credentials::from(Key::new([1; 32]));
        let (asking, denied) = ask(&keys(1, &[(2, "")]), &shared, today);
        assert_eq!(denied, Some(Denied::NotListed));
        assert_eq!(read(&shared, asking.message()).err(), Some(Denied::Form));
    }

    #[test]
    fn what_was_edited_cut_reflected_or_made_for_another_attempt_reads_nothing() {
        let (a, b) = (keys(1, &[(2, "")]), keys(2, &[(1, ""), (2, "")]));
        let (mut asking, _) = ask(&a, &b, Date::FIRST);
        let message = asking.message().to_vec();
        assert!(!message.windows(5).any(|bytes| bytes == b"offer"));
        for at in 0..message.len() {
            let mut edited = message.clone();
            edited[at] ^= 0x10;
            assert!(read(&b, &edited).is_err(), "byte {at}");
            assert!(read(&b, &message[..at]).is_err(), "cut to {at}");
        }
        let Binding { nonce, cookie } = BINDING;
        for other in [Binding { nonce, cookie: 0 }, Binding { nonce: 0, cookie }] {
            let read = b.read(other, Date::FIRST, [3; 32], &message);
            assert_eq!(read.err(), Some(Denied::NotListed), "{other:?}");
        }
        assert!(read(&a, &message).is_err(), "its own message, reflected");
        assert!(asking.read(&message).is_none(), "its own message, reflected");
        let asked = read(&b, &message).unwrap();
        let agreed = asked.settle(&Terms::default()).unwrap();
        let (answer, _) = asked.answer(agreed, b"another");
        for at in 0..answer.len() {
            let mut edited = answer.clone();
            edited[at] ^= 0x10;
            assert!(asking.read(&edited).is_none(), "byte {at}");
        }
        assert!(asking.read(&answer).is_some());
    }
}
