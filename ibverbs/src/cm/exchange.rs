//! The exchange of messages over a link: in clear or, if both hosts have keys, protected by them.
//!
//! With keys, the connecting end asks for a cookie first, and its request is valid with that cookie
//! only. So a recorded request has no effect when somebody sends it again. The request is the first
//! message of the handshake in `docs/keys.md`, and the answer of the program is the second. The
//! message that the queue pair is ready is sealed by the session keys that follow from both.

#[cfg(test)]
mod tests;

use std::io;
use std::time::SystemTime;

use braid::{Agreed, Security};
use braid_keys::{
    Binding, Date, InitiatorHandshake, KeyId, Listener, ResponderHandshake, Session, Terms,
};
use braid_wire::{QpId, RailId, Token};

use super::message::CmMessage;
use crate::messages::Link;

/// The beginning of the first message of an end that has a key, before a nonce.
const KEYED: [u8; 4] = *b"BrCk";
/// The answer to an end that is denied.
const DENIED: &[u8] = &[];
/// The queue pair in the binding of envelopes. They travel over a link of their own, so none is
/// meant.
const NO_QUEUE_PAIR: (QpId, Token) = (QpId::new(0), Token(0));
/// The number of the only sealed packet.
const NUMBER: u64 = 0;

/// The state of the asking end until the answer arrives.
pub(super) enum PendingRequest {
    Clear,
    Keyed(Box<InitiatorHandshake>),
}

/// The state of the asked end until it answers.
pub(super) enum PendingAnswer {
    Clear,
    Keyed(Box<ResponderHandshake>, Agreed),
}

/// The state of both ends after the answer.
pub(super) enum Protection {
    Clear,
    Keyed(Box<Session>),
}

/// Sends the request, protected if this host has a key.
///
/// # Errors
/// Those of the link. `EACCES`: the key of the listener is not allowed.
pub(super) fn send_request(
    link: &Link,
    security: Option<&Security>,
    request: &CmMessage,
) -> io::Result<PendingRequest> {
    let Some(security) = security else {
        link.send(&request.encode())?;
        return Ok(PendingRequest::Clear);
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
        None => Ok(PendingRequest::Keyed(Box::new(asking))),
        Some(why) => {
            tracing::warn!(%why, "the listener's key is not allowed");
            Err(denial())
        }
    }
}

impl PendingRequest {
    /// Waits for the answer.
    ///
    /// # Errors
    /// Those of the link. `EACCES`: the listener denies the key of this host. `InvalidData`: the
    /// answer does not come from the owner of the key.
    pub(super) fn answer(self, link: &Link) -> io::Result<(CmMessage, Protection)> {
        let part = link.recv()?;
        let PendingRequest::Keyed(mut asking) = self else {
            return Ok((CmMessage::decode(&part)?, Protection::Clear));
        };
        if part == DENIED {
            tracing::warn!("the listener denies this host's key");
            return Err(denial());
        }
        let answer = asking.read(&part).ok_or(io::ErrorKind::InvalidData)?;
        let message = CmMessage::decode(&answer.offer)?;
        let session = Session::new(answer.secrets, answer.agreed, NO_QUEUE_PAIR);
        Ok((message, Protection::Keyed(Box::new(session))))
    }
}

/// Receives a request.
///
/// # Errors
/// Those of the link. `InvalidData`: the other end does not speak this protocol. `EACCES`: the two
/// ends have keys that do not fit, only the connecting end has a key, or it has none and this end
/// requires one.
pub(super) fn recv_request(
    link: &Link,
    security: Option<&Security>,
) -> io::Result<(CmMessage, PendingAnswer)> {
    let first = link.recv()?;
    let nonce = first.strip_prefix(&KEYED).map(numbers);
    match (security, nonce) {
        (Some(security), Some(Some([nonce]))) => recv_keyed_request(link, security, nonce),
        (_, Some(None)) => Err(io::ErrorKind::InvalidData.into()),
        (None, Some(Some(_))) => {
            tracing::warn!("the connecting end has a key; set BRAID_KEY_FILE here");
            Err(denial())
        }
        (Some(security), None) if security.required && CmMessage::is_begun_by(&first) => {
            tracing::warn!("the connecting end has no key, which BRAID_SECURITY requires");
            Err(denial())
        }
        (_, None) => Ok((CmMessage::decode(&first)?, PendingAnswer::Clear)),
    }
}

fn recv_keyed_request(
    link: &Link,
    security: &Security,
    nonce: u64,
) -> io::Result<(CmMessage, PendingAnswer)> {
    let binding = Binding { nonce, cookie: number()? };
    let key = security.credentials.key_id(binding);
    link.send(&[binding.cookie.to_be_bytes(), key.0.to_be_bytes()].concat())?;
    let today = Date::from(SystemTime::now());
    let asked = security.credentials.read(binding, today, seed()?, &link.recv()?);
    let asked = asked.map_err(|why| deny(link, &why))?;
    let agreed = asked.settle(&Terms::from(security)).map_err(|why| deny(link, &why))?;
    let message = CmMessage::decode(asked.offer())?;
    Ok((message, PendingAnswer::Keyed(Box::new(asked), agreed)))
}

/// Denies a request. The other end learns nothing else, and the log gets the reason.
fn deny(link: &Link, why: &dyn std::error::Error) -> io::Error {
    tracing::warn!(%why, "the connecting end is denied");
    // The other end receives this, or is gone.
    let _ = link.send(DENIED);
    denial()
}

impl PendingAnswer {
    /// Sends the answer.
    ///
    /// # Errors
    /// Those of the link.
    pub(super) fn send(self, link: &Link, answer: &CmMessage) -> io::Result<Protection> {
        let PendingAnswer::Keyed(asked, agreed) = self else {
            link.send(&answer.encode())?;
            return Ok(Protection::Clear);
        };
        let (part, secrets) = asked.answer(agreed, &answer.encode());
        link.send(&part)?;
        Ok(Protection::Keyed(Box::new(Session::new(secrets, agreed, NO_QUEUE_PAIR))))
    }
}

impl Protection {
    /// Sends the last message.
    ///
    /// # Errors
    /// Those of the link.
    pub(super) fn send(self, link: &Link, message: &CmMessage) -> io::Result<()> {
        let Protection::Keyed(mut session) = self else { return link.send(&message.encode()) };
        let mut part = Vec::new();
        session.seal(RailId::FIRST, &mut part, |out| out.extend_from_slice(&message.encode()));
        link.send(&part)
    }

    /// Receives the last message.
    ///
    /// # Errors
    /// Those of the link. `InvalidData`: the message does not come from the owner of the key.
    pub(super) fn recv(self, link: &Link) -> io::Result<CmMessage> {
        let mut part = link.recv()?;
        let Protection::Keyed(mut session) = self else { return CmMessage::decode(&part) };
        let opened = session.open(RailId::FIRST, NUMBER, &mut part);
        CmMessage::decode(opened.map_err(|_| io::ErrorKind::InvalidData)?)
    }
}

/// The error of an end that does not accept the other's key.
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

/// The numbers that these bytes consist of.
fn numbers<const COUNT: usize>(bytes: &[u8]) -> Option<[u64; COUNT]> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let numbers: [[u8; 8]; COUNT] = chunks.try_into().ok()?;
    rest.is_empty().then(|| numbers.map(u64::from_be_bytes))
}
