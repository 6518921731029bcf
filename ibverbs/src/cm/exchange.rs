//! How both ends say over TCP what they say: in clear, or, where their hosts have keys, under those.
//!
//! Keyed, who connects asks for a cookie first, and what it says then is good with that cookie only: a request that somebody has
//! recorded begins nothing when it comes again. The request is the first message of the handshake in `docs/keys.md`, what the program answers is the
//! second, and that the queue pair is ready is said under the keys that follow from both.

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::SystemTime;

use braid::{Agreed, Security};
use braid_keys::{Asked, Asking, Binding, Date, KeyId, Listener, Session, Terms};
use braid_wire::{QpId, RailId, Token};

use super::message::Message;

/// What who has a key begins with.
const KEYED: [u8; 4] = *b"BrCk";
/// Bytes of one message at most, with all that a handshake adds.
const MOST: usize = 1024;
/// In place of an answer: who asks is denied.
const DENIED: &[u8] = &[];
/// No queue pair is meant: envelopes go over a connection of their own.
const NOBODY: (QpId, Token) = (QpId::new(0), Token(0));
/// Of the one packet that is sealed.
const NUMBER: u64 = 0;

/// What who has asked needs for the answer.
pub(super) enum Pending {
    Clear,
    Keyed(Box<Asking>),
}

/// What who was asked needs to answer.
pub(super) enum Reply {
    Clear,
    Keyed(Box<Asked>, Agreed),
}

/// What both need for all that follows.
pub(super) enum Speech {
    Clear,
    Keyed(Box<Session>),
}

/// Asks, under a key if there is one.
///
/// # Errors
/// The connection's, or `EACCES`: the listener has a key that is not allowed.
pub(super) fn ask(
    mut stream: &TcpStream,
    security: Option<&Security>,
    request: &Message,
) -> io::Result<Pending> {
    let Some(security) = security else {
        request.write(&mut stream)?;
        return Ok(Pending::Clear);
    };
    let nonce = number()?;
    stream.write_all(&[&KEYED[..], &nonce.to_be_bytes()].concat())?;
    let (cookie, key) = (read_number(stream)?, KeyId(read_number(stream)?));
    let listener =
        Listener { binding: Binding { nonce, cookie }, key, today: Date::from(SystemTime::now()) };
    let (credentials, terms) = (&security.credentials, Terms::from(security));
    let (asking, denied) = credentials.ask(listener, seed()?, terms, &request.encode());
    write_part(stream, asking.message())?;
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
    /// The connection's, `EACCES`: this host's key is denied; or `InvalidData`: it is nobody's who has the key.
    pub(super) fn answer(self, mut stream: &TcpStream) -> io::Result<(Message, Speech)> {
        let Pending::Keyed(mut asking) = self else {
            return Ok((Message::read(&mut stream)?, Speech::Clear));
        };
        let part = read_part(stream)?;
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
/// The connection's, `InvalidData`: it is no end of ours; or `EACCES`: it has another key, or one and this end has none, or has none
/// where one is required.
pub(super) fn hear(
    mut stream: &TcpStream,
    security: Option<&Security>,
) -> io::Result<(Message, Reply)> {
    let mut first = [0; KEYED.len()];
    stream.read_exact(&mut first)?;
    match (security, first == KEYED) {
        (Some(security), true) => hear_keyed(stream, security),
        (None, true) => {
            tracing::warn!("who connects has a key, and BRAID_KEY_FILE is not set here");
            Err(denial())
        }
        (Some(security), false) if security.required => {
            tracing::warn!("who connects has no key, and BRAID_SECURITY requires one here");
            Err(denial())
        }
        (_, false) => Ok((Message::read(&mut first.chain(stream))?, Reply::Clear)),
    }
}

fn hear_keyed(mut stream: &TcpStream, security: &Security) -> io::Result<(Message, Reply)> {
    let binding = Binding { nonce: read_number(stream)?, cookie: number()? };
    let key = security.credentials.key_id(binding);
    stream.write_all(&[binding.cookie.to_be_bytes(), key.0.to_be_bytes()].concat())?;
    let asked = security.credentials.read(
        binding,
        Date::from(SystemTime::now()),
        seed()?,
        &read_part(stream)?,
    );
    let asked = asked.map_err(|why| deny(stream, &why))?;
    let agreed = asked.settle(&Terms::from(security)).map_err(|why| deny(stream, &why))?;
    let message = Message::decode(asked.offer())?;
    Ok((message, Reply::Keyed(Box::new(asked), agreed)))
}

/// Tells who asks no more than that it is denied, and the log why.
fn deny(stream: &TcpStream, why: &dyn std::error::Error) -> io::Error {
    tracing::warn!(%why, "who connects is denied");
    // It is gone, or hears it.
    let _ = write_part(stream, DENIED);
    denial()
}

impl Reply {
    /// Answers.
    ///
    /// # Errors
    /// The connection's.
    pub(super) fn give(self, mut stream: &TcpStream, answer: &Message) -> io::Result<Speech> {
        let Reply::Keyed(asked, agreed) = self else {
            answer.write(&mut stream)?;
            return Ok(Speech::Clear);
        };
        let (part, secrets) = asked.answer(agreed, &answer.encode());
        write_part(stream, &part)?;
        Ok(Speech::Keyed(Box::new(Session::new(secrets, agreed, NOBODY))))
    }
}

impl Speech {
    /// Says the one thing that is left to say.
    ///
    /// # Errors
    /// The connection's.
    pub(super) fn say(self, mut stream: &TcpStream, message: &Message) -> io::Result<()> {
        let Speech::Keyed(mut session) = self else { return message.write(&mut stream) };
        let mut part = Vec::new();
        session.seal(RailId::FIRST, &mut part, |out| out.extend_from_slice(&message.encode()));
        write_part(stream, &part)
    }

    /// Hears it.
    ///
    /// # Errors
    /// The connection's, or `InvalidData`: it is nobody's who has the key.
    pub(super) fn hear(self, mut stream: &TcpStream) -> io::Result<Message> {
        let Speech::Keyed(mut session) = self else { return Message::read(&mut stream) };
        let mut part = read_part(stream)?;
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

fn read_number(mut stream: &TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// Its length in two bytes, then itself.
fn write_part(mut stream: &TcpStream, part: &[u8]) -> io::Result<()> {
    let len = u16::try_from(part.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes(), part].concat())
}

fn read_part(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let len = usize::from(u16::from_be_bytes(len));
    if len > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut part = vec![0; len];
    stream.read_exact(&mut part)?;
    Ok(part)
}
