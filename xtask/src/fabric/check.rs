//! Whether a fabric does what it says, judged by datagrams and by the kernel's counters.

use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use braid_lab::{Fabric, Host, Owner, Plan, Rate, Trouble, Where, median};
use nix::sys::socket::{setsockopt, sockopt};

use super::emulator;
use crate::Failure;

const SPINES: usize = 4;
const DELAYED: usize = 3;
const DELAY: Duration = Duration::from_millis(2);
/// Payload bytes of a datagram. The headers of UDP, IP and Ethernet add 42 bytes on the link.
const PAYLOAD: usize = 1400;
const ON_LINK: usize = PAYLOAD + 42;
/// Without another datagram for so long, no more will come. A busy machine may deliver nothing for
/// some hundred milliseconds.
pub(super) const SILENCE: Duration = Duration::from_millis(800);
/// Some 430 datagrams at the usual rate.
const SLICE: Duration = Duration::from_millis(25);
/// Holds all that arrives while the receiving thread waits for its turn.
const RECEIVE_BUFFER: usize = 32 << 20;
/// Number of datagrams that show the route of a path. They fit a socket's default buffer.
const FEW: usize = 60;
/// Longer than so many take on a link at the usual rate.
const DRAIN: Duration = Duration::from_millis(12);

/// Builds a fabric with one delayed spine, checks rates, ways, troubles and the delay, and takes it
/// down; an emulated network first.
pub fn check() -> Result<(), Failure> {
    emulator::check()?;
    let delay = (0..SPINES).map(|s| if s == DELAYED { DELAY } else { Duration::ZERO });
    let name = format!("check{}", std::process::id());
    let plan = Plan { name, spines: SPINES, delay: delay.collect(), ..Plan::default() };
    let started = Instant::now();
    let lab = Lab { fabric: Fabric::up(plan, Owner::Process)? };
    println!("up in {:.0?}", started.elapsed());

    lab.ports_choose_spines()?;
    for spine in [0, DELAYED] {
        lab.rate(spine)?;
        lab.delay(spine)?;
        lab.blackhole(spine)?;
        lab.loss(spine)?;
        lab.cut(spine)?;
    }
    lab.down()
}

struct Lab {
    fabric: Fabric,
}

impl Lab {
    fn ports_choose_spines(&self) -> Result<(), Failure> {
        for path in [0, 1, 2, 3, 5, 62, 0xfff] {
            let spine = path % 64 % SPINES;
            let before = self.to_spines()?;
            expect(&format!("datagrams of path {path}"), self.count(path)?, FEW, FEW)?;
            let after = self.to_spines()?;
            for other in 0..SPINES {
                // An address resolution or two may pass as well.
                let (low, high) = if other == spine { (FEW, FEW + 4) } else { (0, 4) };
                let what = format!("packets of path {path} over spine {other}");
                expect(&what, (after[other] - before[other]) as usize, low, high)?;
            }
        }
        println!("source ports choose their spines");
        Ok(())
    }

    /// Offers 15 % more than the link's rate and measures what arrives.
    fn rate(&self, spine: usize) -> Result<(), Failure> {
        let rate = self.fabric.plan().rate;
        let offered = Rate::from_bits(rate.bits() / 100 * 115);
        let (from, to) = self.sockets(spine)?;
        setsockopt(&to, sockopt::RcvBufForce, &RECEIVE_BUFFER).map_err(|e| network(e.into()))?;
        let (times, received) = scope(|scope| {
            let receiver = scope.spawn(|| receive(&to));
            let sent = send_for(&from, &to, offered, Duration::from_secs(1));
            (sent, receiver.join().expect("receiving does not panic"))
        });
        times.and(received).and_then(|arrivals| {
            let measured = usual_rate(&arrivals);
            let ratio = measured / rate.bits() as f64;
            println!("spine {spine}: {:.1} Mb/s of {rate}", measured / 1e6);
            within(&format!("the rate over spine {spine}, as a share of {rate}"), ratio, 0.95, 1.05)
        })
    }

    /// The least of some one-way times, which are free of queueing.
    fn delay(&self, spine: usize) -> Result<(), Failure> {
        let (from, to) = self.sockets(spine)?;
        let mut least = f64::INFINITY;
        for _ in 0..50 {
            let sent = Instant::now();
            from.send_to(&[0; 100], address(&to)?).map_err(network)?;
            to.recv(&mut [0; 100]).map_err(network)?;
            least = least.min(sent.elapsed().as_secs_f64() * 1e3);
        }
        let planned = self.fabric.plan().delay_over(spine).as_secs_f64() * 1e3;
        println!("spine {spine}: one way {least:.3} ms, planned {planned:.3} ms");
        within(&format!("the ms over spine {spine}"), least, planned, planned + 0.5)
    }

    fn blackhole(&self, spine: usize) -> Result<(), Failure> {
        let at = Where { spine, leaf: Some(1) };
        self.fabric.trouble(at, Trouble::Blackhole)?;
        let lost = self.count(spine)?;
        self.fabric.restore(at)?;
        expect(&format!("arrivals through the black hole of spine {spine}"), lost, 0, 0)?;
        let found = self.count(spine)?;
        expect(&format!("arrivals over the restored spine {spine}"), found, FEW, FEW)
    }

    fn loss(&self, spine: usize) -> Result<(), Failure> {
        let at = Where { spine, leaf: None };
        self.fabric.trouble(at, Trouble::Lossy(20.0))?;
        let arrived = self.count_bursts(spine, 20)?;
        self.fabric.restore(at)?;
        println!("spine {spine}: {arrived} of {} datagrams passed a loss of 20 %", 20 * FEW);
        // Of 1200, 960 are expected, with a standard deviation of 14.
        expect(&format!("arrivals over the lossy spine {spine}"), arrived, 880, 1040)
    }

    /// Marked packets of a cut spine go over the others.
    fn cut(&self, spine: usize) -> Result<(), Failure> {
        let at = Where { spine, leaf: None };
        self.fabric.trouble(at, Trouble::Cut)?;
        let before = self.to_spines()?[spine];
        let arrived = self.count(spine)?;
        let over_it = self.to_spines()?[spine] - before;
        self.fabric.restore(at)?;
        expect(&format!("packets over the cut spine {spine}"), over_it as usize, 0, 0)?;
        expect(&format!("arrivals around the cut spine {spine}"), arrived, FEW, FEW)?;
        let again = self.count(spine)?;
        expect(&format!("arrivals when spine {spine} is back"), again, FEW, FEW)?;
        let over_it = self.to_spines()?[spine] - before;
        expect(&format!("packets over spine {spine}, back"), over_it as usize, FEW, FEW + 8)
    }

    fn down(self) -> Result<(), Failure> {
        let netns: Vec<String> = self.fabric.hosts().iter().map(|h| h.netns.clone()).collect();
        let name = self.fabric.plan().name.clone();
        self.fabric.down()?;
        let left = netns.iter().find(|netns| Path::new("/run/netns").join(netns).exists());
        if let Some(left) = left {
            return Err(Failure::new(format!("namespace {left} is left of fabric {name}")));
        }
        match Fabric::find(&name)? {
            Some(_) => Err(Failure::new(format!("fabric {name} is found after it went down"))),
            None => Ok(()),
        }
    }

    /// Sends a burst of datagrams from the first host to the second. Returns the number that
    /// arrives.
    fn count(&self, path: usize) -> Result<usize, Failure> {
        self.count_bursts(path, 1)
    }

    /// Sends bursts that the queues of the links hold, each after the one before has passed.
    fn count_bursts(&self, path: usize, bursts: usize) -> Result<usize, Failure> {
        let (from, to) = self.sockets(path)?;
        setsockopt(&to, sockopt::RcvBufForce, &RECEIVE_BUFFER).map_err(|e| network(e.into()))?;
        let address = address(&to)?;
        for _ in 0..bursts {
            for _ in 0..FEW {
                from.send_to(&[0; PAYLOAD], address).map_err(network)?;
            }
            sleep(DRAIN);
        }
        // A loss of everything is an answer here, and not a failure.
        Ok(arrivals(&to)?.len())
    }

    /// Returns the number of packets from the first leaf to each spine.
    fn to_spines(&self) -> Result<Vec<u64>, Failure> {
        let links = self.fabric.links()?;
        Ok(links.iter().filter(|l| l.leaf == 0).map(|l| l.to_spine.packets).collect())
    }

    /// On the first host with this path's source port, and on the second.
    fn sockets(&self, path: usize) -> Result<(UdpSocket, UdpSocket), Failure> {
        let port = 0xc000 | u16::try_from(path).expect("paths have 12 bits");
        let socket = |host: &Host, port| {
            let bind = || UdpSocket::bind((host.ip, port));
            self.fabric.on(host, bind)?.map_err(network)
        };
        let hosts = self.fabric.hosts();
        let (from, to) = (socket(&hosts[0], port)?, socket(&hosts[1], 0)?);
        to.set_read_timeout(Some(SILENCE)).map_err(network)?;
        Ok((from, to))
    }
}

fn send_for(from: &UdpSocket, to: &UdpSocket, rate: Rate, time: Duration) -> Result<(), Failure> {
    let (address, start) = (address(to)?, Instant::now());
    let mut bits = 0.0;
    while start.elapsed() < time {
        from.send_to(&[0; PAYLOAD], address).map_err(network)?;
        bits += ON_LINK as f64 * 8.0;
        let due = Duration::from_secs_f64(bits / rate.bits() as f64);
        let early = due.saturating_sub(start.elapsed());
        if early > Duration::from_millis(1) {
            sleep(early);
        }
    }
    Ok(())
}

fn receive(socket: &UdpSocket) -> Result<Vec<Instant>, Failure> {
    let arrivals = arrivals(socket)?;
    if arrivals.len() < 2 {
        return Err(Failure::new("nothing arrives on an untroubled fabric"));
    }
    Ok(arrivals)
}

/// In bits per second on the link, the median over slices of time: this machine may stand still for
/// a while, and then nothing is offered or read.
fn usual_rate(arrivals: &[Instant]) -> f64 {
    let first = arrivals[0];
    let slice_of = |at: Instant| ((at - first).as_nanos() / SLICE.as_nanos()) as usize;
    // The last slice is not whole, and left out where there are others.
    let mut counts = vec![0.0; slice_of(arrivals[arrivals.len() - 1]).max(1)];
    for arrival in arrivals {
        if let Some(count) = counts.get_mut(slice_of(*arrival)) {
            *count += 1.0;
        }
    }
    median(&counts) * (ON_LINK * 8) as f64 / SLICE.as_secs_f64()
}

/// When each datagram arrives, until no more do.
pub(super) fn arrivals(socket: &UdpSocket) -> Result<Vec<Instant>, Failure> {
    let mut times = Vec::new();
    let mut buffer = [0; PAYLOAD];
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => times.push(Instant::now()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(times),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(network(e)),
        }
    }
}

pub(super) fn address(socket: &UdpSocket) -> Result<std::net::SocketAddr, Failure> {
    socket.local_addr().map_err(network)
}

pub(super) fn network(error: io::Error) -> Failure {
    Failure::new(format!("a socket on the fabric failed: {error}"))
}

pub(super) fn expect(what: &str, found: usize, low: usize, high: usize) -> Result<(), Failure> {
    within(what, found as f64, low as f64, high as f64)
}

pub(super) fn within(what: &str, found: f64, low: f64, high: f64) -> Result<(), Failure> {
    if (low..=high).contains(&found) {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: {found}, expected {low} to {high}")))
}
