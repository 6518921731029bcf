//! The exchange over a link: in clear or, if both hosts have keys, under those.
//!
//! Keyed, who connects asks for a cookie first, and what it says then is good with that cookie only: a request that somebody has
//! recorded begins nothing when it comes again. The request is the first message of the handshake in `docs/keys.md`, what the program answers is the
//! second, and that the queue pair is ready is said under the keys that follow from both.

#[cfg(test)]
mod tests;

use std::io;
use std::time::SystemTime;

use braid::{Agreed, Security};
use braid_keys::{
    Binding, Date, InitiatorHandshake, KeyId, Listener, ResponderHandshake, Session, Terms,
};
use braid_wire::{QpId, RailId, Token};

use super::message::Message;
use crate::messages::Link;

/// The beginning of the first message of an end that has a key. A nonce follows.
const KEYED: [u8; 4] = *b"BrCk";
/// In place of an answer: who asks is denied.
const DENIED: &[u8] = &[];
/// No queue pair is meant: envelopes go over a link of their own.
const NOBODY: (QpId, Token) = (QpId::new(0), Token(0));
/// Of the one packet that is sealed.
const NUMBER: u64 = 0;

/// What who has asked needs for the answer.
pub(super) enum Pending {
    Clear,
    Keyed(Box<InitiatorHandshake>),
}

/// What who was asked needs to answer.
pub(super) enum Reply {
    Clear,
    Keyed(Box<ResponderHandshake>, Agreed),
}

/// What both need for all that follows.
pub(super) enum Speech {
    Clear,
    Keyed(Box<Session>),
}

/// Asks, under a key if there is one.
///
/// # Errors
/// The link's, or `EACCES`: the listener has a key that is not allowed.
pub(super) fn ask(
    link: &Link,
    security: Option<&Security>,
    request: &Message,
) -> io::Result<Pending> {
    let Some(security) = security else {
        link.send(&request.encode())?;
        return Ok(Pending::Clear);
    };
    let nonce = number()?;
    link.send(&[&KEYED[..], &nonce.to_be_bytes()].concat())?;
    let [cookie, key] = numbers(&link.recv()?).ok_or(io::ErrorKind::InvalidData)?;
    let (binding, key) = (Binding { nonce, cookie }, KeyId(key));
    let listener = Listener { binding, key, today: Date::from(SystemTime::now()) };
    let (credentials, terms) = (&security.credentials, Terms::from(security));
    let (asking, denied) = credentials.initiate(listener, seed()?, terms, &request.encode());
    link.send(asking.message())?;
    match denied {
        None => Ok(Pending::Keyed(Box::new(asking))),
        Some(why) => {
            tracing::warn!(%why, "the listener is not one that may be connected to");
            Err(denial())
        }
    }
}

impl Pending {
    /// Reads the answer.
    ///
    /// # Errors
    /// The link's, `EACCES`: this host's key is denied; or `InvalidData`: it is nobody's who has the key.
    pub(super) fn answer(self, link: &Link) -> io::Result<(Message, Speech)> {
        let part = link.recv()?;
        let Pending::Keyed(mut asking) = self else {
            return Ok((Message::decode(&part)?, Speech::Clear));
        };
        if part == DENIED {
            tracing::warn!("the listener denies this host's key");
            return Err(denial());
        }
        let answer = asking.read(&part).ok_or(io::ErrorKind::InvalidData)?;
        let message = Message::decode(&answer.offer)?;
        let session = Session::new(answer.secrets, answer.agreed, NOBODY);
        Ok((message, Speech::Keyed(Box::new(session))))
    }
}

/// Reads what somebody asks.
///
/// # Errors
/// The link's, `InvalidData`: it is no end of ours; or `EACCES`: it has another key, or one and this end has none, or has none
/// where one is required.
pub(super) fn hear(link: &Link, security: Option<&Security>) -> io::Result<(Message, Reply)> {
    let first = link.recv()?;
    let nonce = first.strip_prefix(&KEYED).map(numbers);
    match (security, nonce) {
        (Some(security), Some(Some([nonce]))) => hear_keyed(link, security, nonce),
        (_, Some(None)) => Err(io::ErrorKind::InvalidData.into()),
        (None, Some(Some(_))) => {
            tracing::warn!("who connects has a key, and BRAID_KEY_FILE is not set here");
            Err(denial())
        }
        (Some(security), None) if security.required && Message::is_begun_by(&first) => {
            tracing::warn!("who connects has no key, and BRAID_SECURITY requires one here");
            Err(denial())
        }
        (_, None) => Ok((Message::decode(&first)?, Reply::Clear)),
    }
}

fn hear_keyed(link: &Link, security: &Security, nonce: u64) -> io::Result<(Message, Reply)> {
    let binding = Binding { nonce, cookie: number()? };
    let key = security.credentials.key_id(binding);
    link.send(&[binding.cookie.to_be_bytes(), key.0.to_be_bytes()].concat())?;
    let today = Date::from(SystemTime::now());
    let asked = security.credentials.read(binding, today, seed()?, &link.recv()?);
    let asked = asked.map_err(|why| deny(link, &why))?;
    let agreed = asked.settle(&Terms::from(security)).map_err(|why| deny(link, &why))?;
    let message = Message::decode(asked.offer())?;
    Ok((message, Reply::Keyed(Box::new(asked), agreed)))
}

/// Tells who asks no more than that it is denied, and the log why.
fn deny(link: &Link, why: &dyn std::error::Error) -> io::Error {
    tracing::warn!(%why, "who connects is denied");
    // It is gone, or hears it.
    let _ = link.send(DENIED);
    denial()
}

impl Reply {
    /// Answers.
    ///
    /// # Errors
    /// The link's.
    pub(super) fn give(self, link: &Link, answer: &Message) -> io::Result<Speech> {
        let Reply::Keyed(asked, agreed) = self else {
            link.send(&answer.encode())?;
            return Ok(Speech::Clear);
        };
        let (part, secrets) = asked.answer(agreed, &answer.encode());
        link.send(&part)?;
        Ok(Speech::Keyed(Box::new(Session::new(secrets, agreed, NOBODY))))
    }
}

impl Speech {
    /// Says the one thing that is left to say.
    ///
    /// # Errors
    /// The link's.
    pub(super) fn say(self, link: &Link, message: &Message) -> io::Result<()> {
        let Speech::Keyed(mut session) = self else { return link.send(&message.encode()) };
        let mut part = Vec::new();
        session.seal(RailId::FIRST, &mut part, |out| out.extend_from_slice(&message.encode()));
        link.send(&part)
    }

    /// Hears it.
    ///
    /// # Errors
    /// The link's, or `InvalidData`: it is nobody's who has the key.
    pub(super) fn hear(self, link: &Link) -> io::Result<Message> {
        let mut part = link.recv()?;
        let Speech::Keyed(mut session) = self else { return Message::decode(&part) };
        let opened = session.open(RailId::FIRST, NUMBER, &mut part);
        Message::decode(opened.map_err(|_| io::ErrorKind::InvalidData)?)
    }
}

/// One end does not take the other's key.
fn denial() -> io::Error {
    io::Error::from_raw_os_error(libc::EACCES)
}

fn seed() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn number() -> io::Result<u64> {
    Ok(getrandom::u64()?)
}

/// The numbers that these bytes are, all of them.
fn numbers<const COUNT: usize>(bytes: &[u8]) -> Option<[u64; COUNT]> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let numbers: [[u8; 8]; COUNT] = chunks.try_into().ok()?;
    rest.is_empty().then(|| numbers.map(u64::from_be_bytes))
}
