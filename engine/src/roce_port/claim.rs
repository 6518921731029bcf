//! Destinations of the datagrams of a port, each of which belongs to one process, and the packets
//! by which processes claim them.

/// Destinations that belong to one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Claim {
    /// The queue pair of this number.
    Qp(u32),
    /// Management datagrams for connections whose numbers have these high 8 bits.
    Tag(u8),
    /// Management datagrams that ask for connections to this service.
    Service(u64),
}

/// Claims in a packet, at most.
pub(super) const MAX_CLAIMS: usize = 1024;
/// Bytes of the longest packet.
pub(super) const MAX_REQUEST: usize = 2 + MAX_CLAIMS * CLAIM_LEN;
/// The version of these packets and of the inboxes. Processes of one port have the same.
const VERSION: u8 = 1;
const CLAIM_LEN: usize = 9;

const JOIN: u8 = 1;
const CLAIM: u8 = 2;
const KEEP: u8 = 3;
const RELEASE: u8 = 4;

/// A packet to the process that reads the port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// Joins. The sending end of the inbox comes with it.
    Join,
    /// Takes destinations, all or none. The answer is a [`Reply`].
    Claim(Vec<Claim>),
    /// As `Claim`, of a process that had them when the former reader ended.
    Keep(Vec<Claim>),
    /// Gives destinations back. No answer.
    Release(Vec<Claim>),
}

/// The answer to a request, one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Reply {
    /// The port's socket comes with the answer to [`Request::Join`].
    Yes = 1,
    /// Another process has one of the destinations.
    No = 2,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, claims) = match self {
            Request::Join => (JOIN, &[][..]),
            Request::Claim(claims) => (CLAIM, &claims[..]),
            Request::Keep(claims) => (KEEP, &claims[..]),
            Request::Release(claims) => (RELEASE, &claims[..]),
        };
        let mut bytes = vec![kind, VERSION];
        for claim in claims {
            let (kind, value) = match *claim {
                Claim::Qp(number) => (1, number.into()),
                Claim::Tag(tag) => (2, tag.into()),
                Claim::Service(service) => (3, service),
            };
            bytes.push(kind);
            bytes.extend_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// Decodes a request. `None`: it is malformed, or of another version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let ([kind, VERSION], claims) = bytes.split_first_chunk()? else { return None };
        let claims = claims.chunks(CLAIM_LEN).map(decode).collect::<Option<Vec<_>>>()?;
        match *kind {
            JOIN if claims.is_empty() => Some(Request::Join),
            CLAIM => Some(Request::Claim(claims)),
            KEEP => Some(Request::Keep(claims)),
            RELEASE => Some(Request::Release(claims)),
            _ => None,
        }
    }
}

fn decode(bytes: &[u8]) -> Option<Claim> {
    let (kind, value) = bytes.split_first()?;
    let value = u64::from_be_bytes(value.try_into().ok()?);
    match kind {
        1 => Some(Claim::Qp(u32::try_from(value).ok()?)),
        2 => Some(Claim::Tag(u8::try_from(value).ok()?)),
        3 => Some(Claim::Service(value)),
        _ => None,
    }
}

impl Reply {
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        [Reply::Yes, Reply::No].into_iter().find(|reply| bytes == [*reply as u8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_encoding_and_others_are_refused() {
        let claims = vec![Claim::Qp(0xFF_FFFF), Claim::Tag(255), Claim::Service(u64::MAX)];
        let kept = Request::Keep(claims.clone());
        let all = [Request::Join, Request::Claim(claims.clone()), kept, Request::Release(claims)];
        for request in all {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes), Some(request));
            for len in [0, 1, bytes.len() - 1] {
                let cut = Request::decode(&bytes[..len]);
                assert!(cut.is_none() || len == bytes.len(), "{cut:?}");
            }
        }
        for bad in [[9, VERSION], [JOIN, VERSION + 1]] {
            assert_eq!(Request::decode(&bad), None);
        }
        let mut large = Request::Claim(vec![Claim::Tag(1)]).encode();
        large[4] = 1;
        assert_eq!(Request::decode(&large), None, "a tag has 8 bits");
    }
}
