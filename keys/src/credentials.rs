//! The credentials of an endpoint: a pre-shared key, or a static key and a list of allowed keys.

use std::sync::Arc;

use crate::claim::Claim;
use crate::exchange::Known;
use crate::key_id::Initiators;
use crate::{
    AllowList, AllowedKey, Binding, Date, InitiatorHandshake, Key, KeyId, PrivateKey, PublicKey,
    ResponderHandshake, Terms,
};

/// The credentials of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credentials {
    /// A pre-shared key of all hosts that may connect to each other.
    Shared(Key),
    /// A static key and the public keys of other hosts.
    Static(StaticKeys),
}

/// A private key, and the public keys of the hosts that may connect in either direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticKeys {
    private: PrivateKey,
    public: PublicKey,
    allowed: AllowList,
}

/// The listener that issued a cookie, and the date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// The attempt and cookie that a message is bound to.
    pub binding: Binding,
    /// The id of the listener's static key.
    pub key: KeyId,
    /// The date on which keys must be allowed.
    pub today: Date,
}

/// The reason why a handshake failed. The peer is told less: see `docs/keys.md`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The peer has another pre-shared key.
    #[error("its pre-shared key differs; give both sides the same key")]
    OtherKey,
    /// One side has a pre-shared key, the other a static key.
    #[error(
        "one side has a pre-shared key and the other a static key; use the same kind on both sides"
    )]
    Form,
    /// The list does not contain the peer's key.
    #[error("its key is not on the list of allowed keys")]
    NotListed,
    /// The key has expired.
    #[error("the key of `{name}` was allowed until {until}")]
    Expired {
        /// The name in the list.
        name: Arc<str>,
        /// The last day on which the key was allowed.
        until: Date,
    },
    /// The peer claims a key that it does not have, or replays a message of the owner.
    #[error("it claims to be `{name}` and does not have the key")]
    Impostor {
        /// The name of the key's owner in the list.
        name: Arc<str>,
    },
    /// The peer does not allow this side's key.
    #[error("its list of allowed keys does not contain this side's key")]
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
    /// Creates credentials from a private key of this host. The list may contain its own public
    /// key.
    pub fn new(private: PrivateKey, allowed: AllowList) -> Self {
        StaticKeys { public: private.public(), private, allowed }
    }

    fn listener(&self, listener: Listener) -> Result<&AllowedKey, Denied> {
        let Listener { binding, key, today } = listener;
        let mut keys = self.allowed.keys().iter();
        let known = keys.find(|allowed| KeyId::of_listener(&allowed.key, binding) == key);
        valid(known, today)
    }

    /// Finds the initiator's key in the list. Always goes through the whole list, so that the time
    /// reveals nothing.
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
    ) -> Result<ResponderHandshake, Denied> {
        let allowed = self.initiator(binding, id, today);
        // Reads a denied message as well, with a dummy key, so that the timing does not reveal the
        // list of allowed keys.
        let peer = allowed.as_ref().map_or(&self.public, |allowed| &allowed.key);
        let asked = ResponderHandshake::read(self.known(peer), binding, seed, message);
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
    /// Returns the key id that a listener sends with its cookie.
    pub fn key_id(&self, binding: Binding) -> KeyId {
        match self {
            Credentials::Shared(_) => KeyId::NONE,
            Credentials::Static(keys) => KeyId::of_listener(&keys.public, binding),
        }
    }

    /// Starts a handshake with an offer. `seed` must be random and is used once. If the listener's
    /// key is denied, the message says only that, and the reason is returned with it.
    ///
    /// # Panics
    /// If the offer has more than 65,000 bytes. Set-up packets are much shorter.
    pub fn initiate(
        &self,
        listener: Listener,
        seed: [u8; 32],
        terms: Terms,
        offer: &[u8],
    ) -> (InitiatorHandshake, Option<Denied>) {
        let binding = listener.binding;
        match self {
            Credentials::Shared(key) => {
                let known = Known::Shared(key);
                (InitiatorHandshake::new(known, Claim::Shared, binding, seed, terms, offer), None)
            }
            Credentials::Static(keys) => match keys.listener(listener) {
                Err(denied) => (InitiatorHandshake::unknown_listener(binding, terms), Some(denied)),
                Ok(peer) => {
                    let claim = Claim::Static(Initiators::of(&peer.key, binding).id(&keys.public));
                    let known = keys.known(&peer.key);
                    let asking = InitiatorHandshake::new(known, claim, binding, seed, terms, offer);
                    (asking.to(peer.name.clone()), None)
                }
            },
        }
    }

    /// Reads the first message of an initiator. `seed` must be random and is used once.
    ///
    /// # Errors
    /// If the sender does not have an allowed key, or if the message was made for another attempt.
    pub fn read(
        &self,
        binding: Binding,
        today: Date,
        seed: [u8; 32],
        message: &[u8],
    ) -> Result<ResponderHandshake, Denied> {
        match (self, Claim::split(message)) {
            (Credentials::Shared(key), Some((Claim::Shared, message))) => {
                ResponderHandshake::read(Known::Shared(key), binding, seed, message)
                    .ok_or(Denied::OtherKey)
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

    /// Creates credentials with the private key of `own` that allow these keys.
    fn keys(own: u8, allowed: &[(u8, &str)]) -> Credentials {
        let line = |(byte, rest): &(u8, &str)| format!("{} {rest}\n", private(*byte).public());
        let text: String = allowed.iter().map(line).collect();
        StaticKeys::new(private(own), AllowList::parse(&text).unwrap()).into()
    }

    fn ask(
        from: &Credentials,
        to: &Credentials,
        today: Date,
    ) -> (InitiatorHandshake, Option<Denied>) {
        let listener = Listener { binding: BINDING, key: to.key_id(BINDING), today };
        from.initiate(listener, [2; 32], Terms::default(), b"an offer")
    }

    fn read(by: &Credentials, message: &[u8]) -> Result<ResponderHandshake, Denied> {
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
            // The id belongs to another key.
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
        // The id of one key with the private key of another, which is allowed, too.
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
        // The listener has no key.
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
