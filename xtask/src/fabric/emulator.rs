//! Whether the network emulator does what it says: rate, delay, queue and marks, judged by
//! datagrams and by its own trace.

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use braid_lab::Rate;
use braid_lab::emulator::{
    Emulator, Fate, HEADER_BYTES, Link, Network, Passage, Reordering, Topology,
};
use nix::sys::socket::{setsockopt, sockopt};

use super::check::{SILENCE, address, arrivals, expect, network, within};
use crate::Failure;

/// Payload bytes of a datagram. UDP and IP add 28 bytes, and Ethernet its header on the link.
const PAYLOAD: usize = 1000;
const ON_LINK: u64 = PAYLOAD as u64 + 28 + HEADER_BYTES;
/// The capacity of the queue and its marking threshold, in datagrams.
const QUEUE: u64 = 40;
const MARK: u64 = 20;
/// Number of datagrams sent at once: more than the queue holds.
const BURST: usize = 60;
const RATE: Rate = Rate::from_bits(10_000_000);
const DELAY: Duration = Duration::from_millis(5);
/// ECN-capable (RFC 3168, section 5).
const CAPABLE: i32 = 2;

/// Builds a network of two hosts, sends a burst through it, and takes it down.
pub(super) fn check() -> Result<(), Failure> {
    let (queue, mark) = (QUEUE * ON_LINK, Some(MARK * ON_LINK));
    let port = Link {
        rate: RATE,
        queue,
        delay: DELAY,
        mark,
        reordering: Reordering::None,
        loss_percent: 0,
    };
    let topology = Topology::Star(vec![port; 2]);
    let mut emulator = Emulator::up(Network { name: "check".into(), mtu: 1500, topology })?;
    let (from, to) = (socket(&emulator, 0)?, socket(&emulator, 1)?);
    setsockopt(&from, sockopt::Ipv4Tos, &CAPABLE).map_err(|e| network(e.into()))?;
    to.set_read_timeout(Some(SILENCE)).map_err(network)?;
    let sent = Instant::now();
    for _ in 0..BURST {
        from.send_to(&[0; PAYLOAD], address(&to)?).map_err(network)?;
    }
    let times = arrivals(&to)?;
    judge_arrivals(sent, &times)?;
    judge_trace(&emulator.take_trace()?, times.len())?;
    let netns: Vec<String> = emulator.hosts().iter().map(|host| host.netns.clone()).collect();
    drop(emulator);
    match netns.iter().find(|netns| Path::new("/run/netns").join(netns).exists()) {
        Some(left) => Err(Failure::new(format!("namespace {left} is left of an emulated network"))),
        None => Ok(()),
    }
}

/// Checks the number of datagrams that arrive: the capacity of the queue, and as many as it drains
/// during the burst.
fn judge_arrivals(sent: Instant, times: &[Instant]) -> Result<(), Failure> {
    expect(
        "datagrams of a burst that pass the queue",
        times.len(),
        QUEUE as usize,
        QUEUE as usize + 10,
    )?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let packet = ON_LINK as f64 * 8e3 / RATE.bits() as f64;
    let first = ms(times[0] - sent);
    let least = ms(DELAY) + packet;
    within("the ms until the first datagram", first, least, least + 20.0)?;
    // Since the burst, because this thread may read the first datagram late.
    let last = ms(times[times.len() - 1] - sent);
    let planned = least + packet * (times.len() - 1) as f64;
    println!("emulator: {last:.2} ms until packet {}, planned {planned:.2}", times.len());
    within("the ms until the last datagram", last, planned - 1.0, planned + 40.0)
}

fn judge_trace(trace: &[Passage], arrived: usize) -> Result<(), Failure> {
    let count = |fate| trace.iter().filter(|p| p.link == 1 && p.fate == fate).count();
    let (passed, marked) = (count(Fate::Passed), count(Fate::Marked));
    expect("packets that the trace lets pass", passed + marked, arrived, arrived)?;
    expect("packets that it drops", count(Fate::Dropped), BURST - arrived, BURST - arrived)?;
    // The first finds nothing in the queue, the one after `MARK` others finds `MARK` and is the
    // last without a mark.
    let unmarked = MARK as usize + 1;
    expect("packets without a mark", passed, unmarked - 2, unmarked + 10)
}

fn socket(emulator: &Emulator, host: usize) -> Result<UdpSocket, Failure> {
    let host = &emulator.hosts()[host];
    emulator.on(host, || UdpSocket::bind((host.ip, 0)))?.map_err(network)
}
