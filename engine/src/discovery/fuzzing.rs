//! Messages of the network to discovery, for a fuzz target: ICMP messages and datagrams, until the
//! routes are sorted.

use std::net::{IpAddr, SocketAddr};

use braid_wire::PathId;

use super::probe::{Answer, Probe};
use super::sent_probes::{ProbeAnswer, SentProbes};
use super::trace::Trace;
use super::ways;
use crate::link::udp::error_queue::{self, Report};

const PATHS: usize = 6;
const MAX_TTL: u8 = 6;
/// A time to live that reaches the destination from anywhere.
const FAR: u8 = 64;
/// Bytes of a `sock_extended_err` with an IPv6 address behind it, and of a quote.
const MOST_NOTE: usize = 48;
const MOST_QUOTE: usize = 40;

/// Reads `input` as messages about probes on some paths, in the form `which, ttl, length, note..,
/// length, quote or datagram..`, and checks the results of discovery.
///
/// No mutation guesses the 64 bits of a probe, so an odd `which` inserts those of the path's probe
/// with that TTL in front of the quote.
///
/// # Panics
/// Panics if discovery trusts a message that it must not trust, or sorts the paths wrongly.
pub fn hearsay(input: &[u8]) {
    let to: SocketAddr = ([10, 0, 9, 9], 4791).into();
    let mut paths: Vec<(SentProbes, Trace)> = (0..PATHS).map(|path| path_asked(path, to)).collect();
    let mut rest = input;
    while let Some(message) = Message::take(&mut rest) {
        let (asked, trace) = &mut paths[message.path];
        let answer = if message.is_datagram {
            asked.match_datagram(&message.said)
        } else {
            hear_icmp(asked, &message, to)
        };
        if let Some(answer) = answer {
            assert!(
                answer.ttl == FAR || (1..=MAX_TTL).contains(&answer.ttl),
                "nobody asked: {answer:?}"
            );
            record(trace, answer, to.ip());
        }
    }
    let traces: Vec<Trace> = paths.into_iter().map(|(_, trace)| trace).collect();
    check_ways(&traces, to.ip());
}

struct Message {
    path: usize,
    is_datagram: bool,
    note: Vec<u8>,
    /// A quote or a datagram.
    said: Vec<u8>,
}

impl Message {
    fn take(rest: &mut &[u8]) -> Option<Message> {
        let [which, ttl] = *rest.split_off(..2)?.first_chunk()?;
        let note = take_counted(rest, MOST_NOTE)?;
        let mut said = take_counted(rest, MOST_QUOTE)?;
        let path = usize::from(which >> 2) % PATHS;
        if which & 1 == 1 {
            said.splice(..0, probe(path, ttl_of(ttl)).bytes().iter().copied());
        }
        Some(Message { path, is_datagram: which & 2 == 2, note, said })
    }
}

fn take_counted(rest: &mut &[u8], most: usize) -> Option<Vec<u8>> {
    let len = usize::from(*rest.split_off_first()?) % (most + 1);
    Some(rest.split_off(..len.min(rest.len()))?.to_vec())
}

fn ttl_of(byte: u8) -> u8 {
    match byte % (MAX_TTL + 1) {
        0 => FAR,
        ttl => ttl,
    }
}

/// The same bytes in every run, so that a failure repeats.
fn probe(path: usize, ttl: u8) -> Probe {
    let nonce = (path as u64 + 1) << 32 | u64::from(ttl);
    Probe::with_nonce(ttl, nonce.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn path_asked(path: usize, to: SocketAddr) -> (SentProbes, Trace) {
    let mut asked = SentProbes::new(to);
    (1..=MAX_TTL).chain([FAR]).for_each(|ttl| asked.push(probe(path, ttl)));
    (asked, Trace::new(PathId::new(path as u16), MAX_TTL))
}

/// A message is trusted only for its quote of a probe, and its address belongs to its IP version.
fn hear_icmp(asked: &SentProbes, message: &Message, to: SocketAddr) -> Option<ProbeAnswer> {
    let complaint = error_queue::parse(&message.note);
    if let Some((by, _)) = complaint {
        assert_eq!(by, by.to_canonical(), "IPv4 in the clothes of IPv6");
    }
    let report = Report { to: Some(to), complaint, quoted: message.said.len() };
    let answer = asked.match_report(&report, &message.said);
    let elsewhere = Report { to: Some(SocketAddr::new(to.ip(), 1)), ..report };
    assert_eq!(asked.match_report(&elsewhere, &message.said), None, "about another destination");
    if let Some(answer) = answer {
        assert!(
            message.said.starts_with(probe(message.path, answer.ttl).bytes()),
            "no quote of it"
        );
        assert!(complaint.is_some(), "nobody complained");
    }
    answer
}

/// The first answer stands.
fn record(trace: &mut Trace, answer: ProbeAnswer, destination: IpAddr) {
    let before = trace.clone();
    trace.record(answer.ttl, answer.answer, destination);
    for (old, new) in before.hops().iter().zip(trace.hops()) {
        assert!(old.is_none() || old == new, "a hop has changed");
    }
    assert_eq!(trace.hops().len(), usize::from(MAX_TTL));
    assert!(trace.is_settled(answer.ttl) || answer.ttl == FAR, "{answer:?} has settled nothing");
    assert!(
        !trace.is_silent() || (answer.ttl == FAR && matches!(answer.answer, Answer::Router(_)))
    );
}

/// Every path is in one route at most, agrees with the other paths of its route, and contradicts
/// the paths of all other routes.
fn check_ways(traces: &[Trace], destination: IpAddr) {
    let sorted = ways::sort(traces, destination);
    let reversed: Vec<Trace> = traces.iter().rev().cloned().collect();
    let as_sets = |traces: &[Trace]| {
        let mut ways = ways::sort(traces, destination).ways;
        ways.iter_mut().for_each(|way| way.ports.sort_unstable());
        ways
    };
    assert_eq!(as_sets(traces), as_sets(&reversed), "the order of the traces matters");
    let mut way_of = [None; PATHS];
    for (index, way) in sorted.ways.iter().enumerate() {
        assert!(way.hops.last().is_some_and(Option::is_some), "a way without an end");
        for path in &way.ports {
            let slot = &mut way_of[usize::from(path.get())];
            assert_eq!(slot.replace(index), None, "{path:?} is in two ways");
        }
    }
    for (index, contested) in &sorted.doubtful {
        assert_eq!(way_of[*index], None, "in doubt, but in a way");
        assert!(!contested.is_empty() && contested.iter().all(|ttl| (1..=MAX_TTL).contains(ttl)));
    }
    for (trace, way) in traces.iter().zip(way_of).filter_map(|(trace, way)| Some((trace, way?))) {
        assert_eq!(trace.refused_by, None, "a refused path is in a way");
        for (other, fellow) in traces.iter().zip(way_of).filter_map(|(t, way)| Some((t, way?))) {
            assert_eq!(agree(trace, other), way == fellow, "{trace:?} and {other:?}");
        }
    }
}

fn agree(a: &Trace, b: &Trace) -> bool {
    a.hops().iter().zip(b.hops()).all(|(a, b)| a.is_none() || b.is_none() || a == b)
}
