//! The datagrams of a link.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | `BrMs` |
//! | 4 | kind |
//! | 5 to 7 | 0 |
//! | 8 to 15 | number of the link |
//! | 16 to 19 | number of this message, 0 if it has none |
//! | 20 to 23 | number of the next message that the sender expects |
//! | 24 to 31 | `Hello`: 0; `Cookie`, `Open`: the cookie |
//! | then | `Open`, `Data`: the message |

const MAGIC: [u8; 4] = *b"BrMs";
/// Bytes before the fields that only some kinds have.
const HEAD: usize = 24;
const COOKIE: usize = 8;
/// Longest message. Its datagram fits the smallest MTU of IPv6, 1280 bytes, on every path.
pub(super) const MAX_MESSAGE: usize = 1200;
/// Longest datagram.
pub(super) const MAX_DATAGRAM: usize = HEAD + COOKIE + MAX_MESSAGE;

const HELLO: u8 = 1;
const COOKIE_KIND: u8 = 2;
const OPEN: u8 = 3;
const DATA: u8 = 4;
const CLOSE: u8 = 5;
const ACK: u8 = 6;
const PROBE: u8 = 7;
const GONE: u8 = 8;

/// The kind of a datagram, with the fields that only this kind has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Body<'a> {
    /// Asks for a cookie. The datagram is as long as the answer.
    Hello,
    Cookie(u64),
    /// The first message of the connecting end.
    Open(u64, &'a [u8]),
    Data(&'a [u8]),
    /// The last message, numbered like the others.
    Close,
    Ack,
    /// Asks for an `Ack`.
    Probe,
    /// The link does not exist here.
    Gone,
}

/// A datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Datagram<'a> {
    pub(super) link: u64,
    pub(super) number: u32,
    pub(super) expected: u32,
    pub(super) body: Body<'a>,
}

impl<'a> Datagram<'a> {
    /// A datagram without a number.
    pub(super) fn new(link: u64, body: Body<'a>) -> Self {
        Datagram { link, number: 0, expected: 0, body }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, cookie, message) = match self.body {
            Body::Hello => (HELLO, Some(0), &[][..]),
            Body::Cookie(cookie) => (COOKIE_KIND, Some(cookie), &[][..]),
            Body::Open(cookie, message) => (OPEN, Some(cookie), message),
            Body::Data(message) => (DATA, None, message),
            Body::Close => (CLOSE, None, &[][..]),
            Body::Ack => (ACK, None, &[][..]),
            Body::Probe => (PROBE, None, &[][..]),
            Body::Gone => (GONE, None, &[][..]),
        };
        let mut bytes = Vec::with_capacity(HEAD + COOKIE + message.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[kind, 0, 0, 0]);
        bytes.extend_from_slice(&self.link.to_be_bytes());
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.expected.to_be_bytes());
        if let Some(cookie) = cookie {
            bytes.extend_from_slice(&cookie.to_be_bytes());
        }
        bytes.extend_from_slice(message);
        bytes
    }

    /// The link of a datagram, from the beginning of it that the network has returned.
    pub(super) fn decode_beginning(bytes: &[u8]) -> Option<u64> {
        let (head, _) = bytes.split_first_chunk::<16>()?;
        let link = head.last_chunk::<8>()?;
        (head[..4] == MAGIC).then(|| u64::from_be_bytes(*link))
    }

    /// Decodes a datagram. `None`: the bytes are no datagram of a link.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let (magic, head) = head.split_first_chunk::<4>()?;
        let (kind, head) = head.split_first_chunk::<4>()?;
        let (link, head) = head.split_first_chunk::<8>()?;
        let (number, expected) = head.split_first_chunk::<4>()?;
        let [kind, 0, 0, 0] = *kind else { return None };
        if *magic != MAGIC || rest.len() > COOKIE + MAX_MESSAGE {
            return None;
        }
        let with_cookie = || {
            let (cookie, message) = rest.split_first_chunk::<COOKIE>()?;
            Some((u64::from_be_bytes(*cookie), message))
        };
        let body = match (kind, rest.len()) {
            (HELLO, COOKIE) => Body::Hello,
            (COOKIE_KIND, COOKIE) => Body::Cookie(with_cookie()?.0),
            (OPEN, _) => with_cookie().map(|(cookie, message)| Body::Open(cookie, message))?,
            (DATA, 0..=MAX_MESSAGE) => Body::Data(rest),
            (CLOSE, 0) => Body::Close,
            (ACK, 0) => Body::Ack,
            (PROBE, 0) => Body::Probe,
            (GONE, 0) => Body::Gone,
            _ => return None,
        };
        Some(Datagram {
            link: u64::from_be_bytes(*link),
            number: u32::from_be_bytes(*number),
            expected: u32::from_be_bytes(expected.try_into().ok()?),
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_decoded_as_they_were_encoded() {
        let message = [7; MAX_MESSAGE];
        for body in [
            Body::Hello,
            Body::Cookie(3),
            Body::Open(4, &message),
            Body::Data(&message),
            Body::Data(&[]),
            Body::Close,
            Body::Ack,
            Body::Probe,
            Body::Gone,
        ] {
            let datagram = Datagram { link: u64::MAX - 1, number: 5, expected: 6, body };
            assert_eq!(Datagram::decode(&datagram.encode()), Some(datagram));
        }
    }

    #[test]
    fn other_bytes_are_no_datagram() {
        for body in [Body::Hello, Body::Cookie(3), Body::Close, Body::Ack, Body::Gone] {
            let bytes = Datagram::new(9, body).encode();
            for len in 0..bytes.len() {
                assert_eq!(Datagram::decode(&bytes[..len]), None, "{body:?} of {len} bytes");
            }
            assert_eq!(Datagram::decode(&[&bytes[..], &[0]].concat()), None, "{body:?}");
        }
        let bytes = Datagram::new(9, Body::Data(b"data")).encode();
        for (at, value) in [(0, 0), (4, 0), (4, 9), (5, 1), (7, 1)] {
            let mut wrong = bytes.clone();
            wrong[at] = value;
            assert_eq!(Datagram::decode(&wrong), None, "{value} at {at}");
        }
        let long = Datagram::new(9, Body::Data(&[0; MAX_MESSAGE + 1])).encode();
        assert_eq!(Datagram::decode(&long), None);
    }

    /// An answer to an unproven source is not longer than the datagram that it answers.
    #[test]
    fn answers_to_an_unproven_source_are_not_longer_than_what_they_answer() {
        let len = |body| Datagram::new(1, body).encode().len();
        assert!(len(Body::Cookie(1)) <= len(Body::Hello));
        assert!(len(Body::Cookie(1)) <= len(Body::Open(1, &[])));
        let shortest = [Body::Hello, Body::Open(1, &[]), Body::Data(&[]), Body::Probe].map(len);
        assert!(shortest.iter().all(|shortest| len(Body::Gone) <= *shortest));
    }
}
