//! Questions to the kernel about routes and neighbours (rtnetlink(7)).

use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::frame::{MAC_LEN, Mac};

/// Bytes of a message's header, and of `struct rtmsg` and `struct ndmsg` behind it.
const HEADER: usize = 16;
const BODY: usize = 12;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const GET_ROUTE: u16 = 26;
const GET_NEIGHBOUR: u16 = 30;
const INET: u8 = libc::AF_INET as u8;

// Attributes of routes.
const DST: u16 = 1;
const SRC: u16 = 2;
const OIF: u16 = 4;
const GATEWAY: u16 = 5;
const MULTIPATH: u16 = 9;
const VIA: u16 = 18;
const ENCAP: u16 = 22;
const NEXT_HOP_ID: u16 = 30;
/// The route, not what it amounts to for one packet.
const FIB_MATCH: u32 = 0x2000;
/// The kind of route that leads to other hosts.
const UNICAST: u8 = 1;

// Attributes of neighbours.
const NEIGHBOUR_ADDRESS: u16 = 1;
const LINK_LAYER_ADDRESS: u16 = 2;
/// States in which the kernel sends to a neighbour's address, and that in which it would check it then.
const USABLE: u16 =
    libc::NUD_REACHABLE | libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE | libc::NUD_PERMANENT;

/// A neighbour whose address is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Neighbour {
    pub(super) mac: Mac,
    /// It has not been heard of for a while: the kernel checks it when it sends there next.
    pub(super) is_stale: bool,
}

/// A socket to ask by.
pub(super) struct RtNetlink {
    socket: Socket,
    sequence: u32,
}

impl RtNetlink {
    pub(super) fn open() -> io::Result<RtNetlink> {
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(protocol))?;
        // The answer is there when the request has been taken.
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(RtNetlink { socket, sequence: 0 })
    }

    /// The neighbour that packets from `from` to `to` go to by the interface; `None`: they go elsewhere, by several ways, or it
    /// is not known.
    pub(super) fn next_hop(
        &mut self,
        interface: u32,
        (from, to): (Ipv4Addr, Ipv4Addr),
    ) -> io::Result<Option<Neighbour>> {
        let mut body = [0; BODY];
        body[..3].copy_from_slice(&[INET, 32, 32]);
        body[8..].copy_from_slice(&FIB_MATCH.to_ne_bytes());
        let attributes = [(DST, to.octets()), (SRC, from.octets())];
        let route = self.ask(GET_ROUTE, body, &attributes)?;
        match route.and_then(|route| gateway(&route, interface, to)) {
            Some(hop) => self.neighbour(interface, hop),
            None => Ok(None),
        }
    }

    fn neighbour(&mut self, interface: u32, ip: Ipv4Addr) -> io::Result<Option<Neighbour>> {
        let mut body = [0; BODY];
        body[0] = INET;
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        let found = self.ask(GET_NEIGHBOUR, body, &[(NEIGHBOUR_ADDRESS, ip.octets())])?;
        Ok(found.and_then(|found| neighbour(&found)))
    }

    /// The body and the attributes of the answer; `None`: there is no such thing.
    fn ask(
        &mut self,
        kind: u16,
        body: [u8; BODY],
        attributes: &[(u16, [u8; 4])],
    ) -> io::Result<Option<Vec<u8>>> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = request(kind, self.sequence, body, attributes);
        self.socket.send(&message)?;
        let mut answer = vec![0; 8192];
        loop {
            let len = (&self.socket).read(&mut answer)?;
            let Some((kind, sequence, rest)) = message_of(&answer[..len]) else {
                return Err(io::Error::other("an answer of rtnetlink is cut short"));
            };
            match kind {
                // Of an earlier question.
                _ if sequence != self.sequence => {}
                ERROR => return Ok(None),
                _ => return Ok(Some(rest.to_vec())),
            }
        }
    }
}

fn request(kind: u16, sequence: u32, body: [u8; BODY], attributes: &[(u16, [u8; 4])]) -> Vec<u8> {
    let len = HEADER + BODY + 8 * attributes.len();
    let mut message = Vec::with_capacity(len);
    message.extend((len as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    // The kernel fills in who asks.
    message.extend([0; 4]);
    message.extend(body);
    for (kind, value) in attributes {
        message.extend(8u16.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
    }
    message
}

/// A message's kind and sequence number, and what follows its header.
fn message_of(bytes: &[u8]) -> Option<(u16, u32, &[u8])> {
    let len = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let sequence = u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?);
    Some((kind, sequence, bytes.get(HEADER..len)?))
}

/// Whom a route leads to, if it is one that leads there by this interface alone.
fn gateway(route: &[u8], interface: u32, to: Ipv4Addr) -> Option<Ipv4Addr> {
    let is_unicast = *route.get(7)? == UNICAST;
    let has = |kind| attribute(route, kind).is_some();
    let is_plain = ![MULTIPATH, VIA, ENCAP, NEXT_HOP_ID].into_iter().any(has);
    if !is_unicast || !is_plain || attribute(route, OIF)? != interface.to_ne_bytes() {
        return None;
    }
    let Some(gateway) = attribute(route, GATEWAY) else { return Some(to) };
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(gateway).ok()?))
}

fn neighbour(found: &[u8]) -> Option<Neighbour> {
    let state = u16::from_ne_bytes(found.get(8..10)?.try_into().ok()?);
    let mac = attribute(found, LINK_LAYER_ADDRESS)?.get(..MAC_LEN)?.try_into().ok()?;
    (state & USABLE != 0).then_some(Neighbour { mac, is_stale: state & libc::NUD_STALE != 0 })
}

/// The value of an attribute behind a body.
fn attribute(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = answer.get(BODY..)?;
    loop {
        let len = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let value = rest.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

    fn with(body: [u8; BODY], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut answer = body.to_vec();
        for (kind, value) in attributes {
            answer.extend((value.len() as u16 + 4).to_ne_bytes());
            answer.extend(kind.to_ne_bytes());
            answer.extend(*value);
            answer.resize(answer.len().next_multiple_of(4), 0);
        }
        answer
    }

    fn route(kind: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [0; BODY];
        body[7] = kind;
        with(body, attributes)
    }

    #[test]
    fn a_route_leads_to_its_gateway_or_to_the_host_itself() {
        let oif = 7u32.to_ne_bytes();
        let direct = route(UNICAST, &[(DST, &[10, 9, 0, 0]), (OIF, &oif)]);
        assert_eq!(gateway(&direct, 7, TO), Some(TO));
        let by_gateway = route(UNICAST, &[(OIF, &oif), (GATEWAY, &[10, 1, 1, 1])]);
        assert_eq!(gateway(&by_gateway, 7, TO), Some(Ipv4Addr::new(10, 1, 1, 1)));
        assert_eq!(gateway(&by_gateway, 8, TO), None, "by another interface");
        assert_eq!(gateway(&route(2, &[(OIF, &oif)]), 7, TO), None, "to this host");
        for kind in [MULTIPATH, VIA, ENCAP, NEXT_HOP_ID] {
            let special = route(UNICAST, &[(OIF, &oif), (kind, &[0; 8])]);
            assert_eq!(gateway(&special, 7, TO), None, "attribute {kind}");
        }
    }

    #[test]
    fn a_neighbour_is_known_in_some_states_only() {
        let in_state = |state: u16| {
            let mut body = [0; BODY];
            body[8..10].copy_from_slice(&state.to_ne_bytes());
            neighbour(&with(body, &[(NEIGHBOUR_ADDRESS, &[10, 9, 0, 2]), (2, &[1, 2, 3, 4, 5, 6])]))
        };
        let mac = [1, 2, 3, 4, 5, 6];
        for state in [libc::NUD_REACHABLE, libc::NUD_DELAY, libc::NUD_PROBE, libc::NUD_PERMANENT] {
            assert_eq!(in_state(state), Some(Neighbour { mac, is_stale: false }));
        }
        assert_eq!(in_state(libc::NUD_STALE), Some(Neighbour { mac, is_stale: true }));
        for state in [libc::NUD_INCOMPLETE, libc::NUD_FAILED, libc::NUD_NONE] {
            assert_eq!(in_state(state), None);
        }
    }

    #[test]
    fn an_answer_that_is_cut_short_says_nothing() {
        let whole = route(UNICAST, &[(DST, &[10, 9, 0, 0]), (OIF, &7u32.to_ne_bytes())]);
        for len in 0..whole.len() {
            assert_eq!(gateway(&whole[..len], 7, TO), None, "{len} bytes");
        }
        assert_eq!(attribute(&with([0; BODY], &[]), OIF), None);
        // An attribute without a length must not be looked at for ever.
        assert_eq!(attribute(&[0; BODY + 8], OIF), None);
    }

    #[test]
    fn the_kernel_knows_no_neighbour_behind_the_loopback() {
        let mut tables = RtNetlink::open().expect("a socket");
        let ends = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
        for _ in 0..2 {
            assert_eq!(tables.next_hop(1, ends).expect("an answer"), None);
        }
    }
}
