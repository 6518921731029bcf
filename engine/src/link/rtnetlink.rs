//! Queries of the kernel's routes and neighbours (rtnetlink(7)).

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Bytes of an Ethernet address.
pub(in crate::link) const MAC_LEN: usize = 6;
/// An Ethernet address.
pub(in crate::link) type Mac = [u8; MAC_LEN];

/// Bytes of a message's header, and of the `struct rtmsg` or `struct ndmsg` behind it.
const HEADER: usize = 16;
const BODY: usize = 12;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const GET_ROUTE: u16 = 26;
const GET_NEIGHBOUR: u16 = 30;
const INET: u8 = libc::AF_INET as u8;
const INET6: u8 = libc::AF_INET6 as u8;

// Attributes of routes.
const DST: u16 = 1;
const SRC: u16 = 2;
const OIF: u16 = 4;
const GATEWAY: u16 = 5;
const MULTIPATH: u16 = 9;
const VIA: u16 = 18;
const ENCAP: u16 = 22;
const NEXT_HOP_ID: u16 = 30;
/// Asks for the route instead of its result for one packet.
const FIB_MATCH: u32 = 0x2000;
/// The types of a route to other hosts and of one to this host.
const UNICAST: u8 = 1;
const LOCAL: u8 = 2;

// Attributes of neighbours.
const NEIGHBOUR_ADDRESS: u16 = 1;
const LINK_LAYER_ADDRESS: u16 = 2;
/// The states in which the kernel sends to a neighbour's address, and the state in which it checks
/// the address when it sends.
const USABLE: u16 =
    libc::NUD_REACHABLE | libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE | libc::NUD_PERMANENT;

/// A neighbour with a known address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Neighbour {
    pub(super) mac: Mac,
    /// Whether the entry is old: the kernel checks it with the next packet that it sends there.
    pub(super) is_stale: bool,
}

/// A route to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    /// The destination is this host.
    Local,
    /// Packets leave by this interface.
    By(u32),
}

/// A netlink socket for queries.
pub(super) struct RtNetlink {
    socket: Socket,
    sequence: u32,
}

impl RtNetlink {
    pub(super) fn open() -> io::Result<RtNetlink> {
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(protocol))?;
        // The answer is ready when the kernel has taken the request.
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(RtNetlink { socket, sequence: 0 })
    }

    /// The next hop of packets from `from` to `to` by the interface. `None`: the packets take
    /// another interface or several routes, or the neighbour is not known.
    pub(super) fn next_hop(
        &mut self,
        interface: u32,
        (from, to): (Ipv4Addr, Ipv4Addr),
    ) -> io::Result<Option<Neighbour>> {
        let mut body = [0; BODY];
        body[..3].copy_from_slice(&[INET, 32, 32]);
        body[8..].copy_from_slice(&FIB_MATCH.to_ne_bytes());
        let attributes: [(u16, &[u8]); 2] = [(DST, &to.octets()), (SRC, &from.octets())];
        let route = self.ask(GET_ROUTE, body, &attributes)?;
        match route.and_then(|route| gateway(&route, interface, to)) {
            Some(hop) => self.neighbour(interface, hop),
            None => Ok(None),
        }
    }

    /// The route of packets from `from` to `to`. `None`: there is none.
    pub(super) fn route(&mut self, from: IpAddr, to: IpAddr) -> io::Result<Option<Route>> {
        let found = self.route_with(from, to, None, 0)?;
        Ok(found.and_then(|route| route_of(&route)))
    }

    /// Whether a route from `from` to `to` uses this interface, even if another route is preferred.
    pub(super) fn leads(&mut self, from: IpAddr, to: IpAddr, interface: u32) -> io::Result<bool> {
        // Without that flag, IPv4 considers a destination without a route by the interface a
        // neighbour.
        let flags = if to.is_ipv4() { FIB_MATCH } else { 0 };
        let found = self.route_with(from, to, Some(interface), flags)?;
        let by = |route: Vec<u8>| interfaces_of(&route).contains(&interface);
        Ok(found.is_some_and(by))
    }

    /// Whether packets that arrive from `to` by this interface pass the strict reverse-path filter
    /// (RFC 3704, section 2.2; Linux: `rp_filter` is 1). They pass if the route back, or one of
    /// several with equal cost, uses the interface.
    pub(super) fn is_way_back(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        interface: u32,
    ) -> io::Result<bool> {
        let found = self.route_with(from, to, None, FIB_MATCH)?;
        let by = |route: Vec<u8>| interfaces_of(&route).contains(&interface);
        Ok(found.is_some_and(by))
    }

    fn route_with(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        interface: Option<u32>,
        flags: u32,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut body = [0; BODY];
        let bits = if to.is_ipv4() { 32 } else { 128 };
        body[..3].copy_from_slice(&[if to.is_ipv4() { INET } else { INET6 }, bits, bits]);
        body[8..].copy_from_slice(&flags.to_ne_bytes());
        let (from, to) = (octets(from), octets(to));
        let index = interface.unwrap_or_default().to_ne_bytes();
        let mut attributes: Vec<(u16, &[u8])> = vec![(DST, &to), (SRC, &from)];
        if interface.is_some() {
            attributes.push((OIF, &index));
        }
        self.ask(GET_ROUTE, body, &attributes)
    }

    fn neighbour(&mut self, interface: u32, ip: Ipv4Addr) -> io::Result<Option<Neighbour>> {
        let mut body = [0; BODY];
        body[0] = INET;
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        let found = self.ask(GET_NEIGHBOUR, body, &[(NEIGHBOUR_ADDRESS, &ip.octets())])?;
        Ok(found.and_then(|found| neighbour(&found)))
    }

    /// Sends a query. Returns the body and the attributes of the answer. `None`: there is no such
    /// entry.
    fn ask(
        &mut self,
        kind: u16,
        body: [u8; BODY],
        attributes: &[(u16, &[u8])],
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
                // The answer to an earlier query.
                _ if sequence != self.sequence => {}
                ERROR => return Ok(None),
                _ => return Ok(Some(rest.to_vec())),
            }
        }
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Builds a request. Attribute values have a multiple of four bytes.
fn request(kind: u16, sequence: u32, body: [u8; BODY], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let values: usize = attributes.iter().map(|(_, value)| 4 + value.len()).sum();
    let len = HEADER + BODY + values;
    let mut message = Vec::with_capacity(len);
    message.extend((len as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    // The kernel fills in the sender.
    message.extend([0; 4]);
    message.extend(body);
    for (kind, value) in attributes {
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(*value);
    }
    message
}

/// Splits a message into its type, its sequence number and the rest.
fn message_of(bytes: &[u8]) -> Option<(u16, u32, &[u8])> {
    let len = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let sequence = u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?);
    Some((kind, sequence, bytes.get(HEADER..len)?))
}

/// The route in an answer to a query without [`FIB_MATCH`].
fn route_of(route: &[u8]) -> Option<Route> {
    match *route.get(7)? {
        LOCAL => Some(Route::Local),
        UNICAST => interfaces_of(route).first().copied().map(Route::By),
        _ => None,
    }
}

/// The interfaces of a route to other hosts: one, or several of equal cost.
fn interfaces_of(route: &[u8]) -> Vec<u32> {
    if route.get(7) != Some(&UNICAST) {
        return Vec::new();
    }
    let index = |bytes: &[u8]| bytes.try_into().map(u32::from_ne_bytes).ok();
    if let Some(oif) = attribute(route, OIF) {
        return index(oif).into_iter().collect();
    }
    // Each `struct rtnexthop` begins with its length, and the interface follows after four bytes.
    let (mut rest, mut found) = (attribute(route, MULTIPATH).unwrap_or_default(), Vec::new());
    while let (Some(len), Some(oif)) = (rest.get(..2), rest.get(4..8)) {
        found.extend(index(oif));
        let len = usize::from(u16::from_ne_bytes([len[0], len[1]])).max(8);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The next hop of a route that uses this interface only.
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
    fn the_interfaces_of_a_route_are_read_from_it() {
        let oif = 7u32.to_ne_bytes();
        assert_eq!(route_of(&route(UNICAST, &[(OIF, &oif)])), Some(Route::By(7)));
        assert_eq!(route_of(&route(LOCAL, &[(OIF, &oif)])), Some(Route::Local));
        assert_eq!(route_of(&route(6, &[])), None, "a blackhole");
        let mut hops = Vec::new();
        for index in [3u32, 4] {
            hops.extend(16u16.to_ne_bytes());
            hops.extend([0; 2]);
            hops.extend(index.to_ne_bytes());
            hops.extend([8, 0, 5, 0, 10, 0, 0, 1]);
        }
        assert_eq!(interfaces_of(&route(UNICAST, &[(MULTIPATH, &hops)])), [3, 4]);
        for len in 0..hops.len() {
            assert!(interfaces_of(&route(UNICAST, &[(MULTIPATH, &hops[..len])])).len() <= 2);
        }
    }

    #[test]
    fn the_loopback_is_this_host() {
        let mut tables = RtNetlink::open().expect("a socket");
        for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), std::net::Ipv6Addr::LOCALHOST.into()] {
            let route = tables.route(ip, ip).expect("an answer");
            assert!(matches!(route, Some(Route::Local) | None), "{route:?}");
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
        // An attribute without a length must not cause an endless loop.
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
