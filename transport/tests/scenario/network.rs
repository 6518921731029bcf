//! A network in virtual time that loses, delays, reorders, repeats and damages datagrams.

use std::time::Duration;

use braid_transport::{Egress, NicEpoch, Placement};
use braid_wire::{
    Control, ControlKind, Crc, Credit, FinalAck, NakCode, Opcode, Packet, PathId, Probe, ProbeKind,
    QpId, Time, Token,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::envelopes::Envelopes;
use super::kit::Wire;
use super::rails::RailSettings;
use super::route::Route;
use super::settings::Settings;
use super::wraps::Wraps;

/// Probabilities of faults before the calm.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    /// By sending host.
    pub(crate) loss: [f64; 2],
    pub(crate) duplicate: f64,
    pub(crate) corrupt: f64,
    /// A stranger without the token sends a packet.
    pub(crate) forge: f64,
    /// A delay far beyond the others.
    pub(crate) late: f64,
    pub(crate) late_up_to: Duration,
    /// Congestion marks; they do not cease.
    pub(crate) mark: f64,
    /// Paths that swallow everything.
    pub(crate) dead: Dead,
    /// When all of this ends.
    pub(crate) calm_at: Time,
}

/// Paths whose id leaves `residue` when divided by `of` are dead from one time to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dead {
    pub(crate) of: u16,
    pub(crate) residue: u16,
    pub(crate) from: Time,
    pub(crate) until: Time,
    /// Whether packets of each host are swallowed.
    pub(crate) hosts: [bool; 2],
}

impl Dead {
    pub(crate) const NONE: Dead =
        Dead { of: 1, residue: 0, from: Time::ZERO, until: Time::ZERO, hosts: [true; 2] };

    fn swallows(&self, now: Time, from: usize, path: PathId) -> bool {
        let is_dead = (self.from..self.until).contains(&now) && self.hosts[from];
        is_dead && path.get() % self.of == self.residue
    }
}

impl Faults {
    pub(crate) const NONE: Faults = Faults {
        loss: [0.0; 2],
        duplicate: 0.0,
        corrupt: 0.0,
        forge: 0.0,
        late: 0.0,
        late_up_to: Duration::ZERO,
        mark: 0.0,
        dead: Dead::NONE,
        calm_at: Time::ZERO,
    };
}

/// Packets that the network swallows all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    Nothing,
    /// Data and acks; signs of life pass.
    Payloads,
}

pub(crate) struct Datagram {
    pub(crate) bytes: Vec<u8>,
    pub(crate) left_by: Egress,
    pub(crate) marked: bool,
    /// Changed under way: the host has to refuse it.
    pub(crate) damaged: bool,
    /// Sent by a stranger: it has to change nothing.
    pub(crate) forged: bool,
    /// Sent before the PSN wrapped: the host must not take it.
    pub(crate) stale: bool,
    pub(crate) kind: Kind,
}

impl Datagram {
    /// The path that it takes.
    pub(crate) fn path(&self) -> PathId {
        path_of(self.left_by)
    }
}

/// The kind of a datagram for a driver of NICs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// One of the protocol's own.
    Packet(Placement),
    /// From driver to driver, without bytes here: this end of a queue pair receives with another
    /// NIC queue pair.
    Epoch(QpId, NicEpoch),
}

impl Kind {
    pub(crate) const PLAIN: Kind = Kind::Packet(Placement::Staged { closes: None });

    fn is_direct(self) -> bool {
        matches!(self, Kind::Packet(Placement::Direct(_)))
    }
}

pub(crate) struct Network {
    rng: Pcg64Mcg,
    faults: Faults,
    route: Route,
    rails: RailSettings,
    delay: Duration,
    jitter: Duration,
    /// Difference between the slowest path and the fastest.
    skew: Duration,
    /// The longest delay without a fault.
    longest_way: Duration,
    crc: Crc,
    pub(crate) cut: Cut,
    wraps: Option<Wraps>,
    envelopes: Option<Envelopes>,
    /// Datagrams, each with the host that it goes to.
    wire: Wire<(usize, Datagram)>,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: Faults, settings: &Settings) -> Self {
        let &Settings { delay, jitter, skew, crc, .. } = settings;
        Network {
            rng: Pcg64Mcg::seed_from_u64(seed ^ 0x6E65_7477),
            faults,
            route: settings.route.clone(),
            rails: settings.rails.clone(),
            delay,
            jitter,
            skew,
            longest_way: settings.longest_way(),
            crc,
            cut: Cut::Nothing,
            wraps: settings.wraps.then(|| Wraps::new(seed)),
            envelopes: settings.keyed.then(|| Envelopes::new(seed, settings.qps)),
            wire: Wire::default(),
        }
    }

    /// Takes a datagram. Returns its fate for the trace. `fragments`: it may be fragmented.
    pub(crate) fn send(
        &mut self,
        now: Time,
        from: usize,
        bytes: &[u8],
        egress: Egress,
        fragments: bool,
        placement: Placement,
    ) -> &'static str {
        let sealed =
            self.envelopes.as_mut().map(|envelopes| envelopes.seal(from, egress.rail(), bytes));
        if self.swallows(bytes) {
            return "swallowed";
        }
        let (packet, bytes) = (bytes, sealed.as_deref().unwrap_or(bytes));
        let rail = egress.rail();
        let route = rail.get().checked_sub(1).map(|index| &self.rails.further[index].route);
        let route = route.unwrap_or(&self.route);
        if !route.carries(now, from, bytes.len(), fragments, egress.path().is_none()) {
            return "too large or from a blocked port:";
        }
        let path = path_of(egress);
        let kind = Kind::Packet(placement);
        let stormy = now < self.faults.calm_at;
        let is_dead = stormy && self.faults.dead.swallows(now, from, path);
        if is_dead || self.rails.swallows(now, from, rail) {
            return "swallowed";
        }
        if stormy && self.rng.random_bool(self.faults.loss[from]) {
            return "lost";
        }
        let stale = self.wraps.as_mut().and_then(|wraps| wraps.pass(from, bytes));
        if let Some(bytes) = stale {
            let (marked, damaged, forged, stale) = (false, false, false, true);
            let (left_by, kind) = (egress, Kind::PLAIN);
            let old = Datagram { bytes, left_by, marked, damaged, forged, stale, kind };
            self.depart(now, from, old, false);
        }
        let repeats = stormy && self.rng.random_bool(self.faults.duplicate);
        // A NIC would write it twice: direct placement relies on networks that do not do that.
        let copies = if repeats && !kind.is_direct() { 2 } else { 1 };
        for _ in 0..copies {
            self.launch(now, from, bytes, egress, kind, stormy);
        }
        if stormy && self.rng.random_bool(self.faults.forge) {
            self.forge(now, from, packet, egress);
        }
        if copies == 2 { "repeated" } else { "sent" }
    }

    /// Takes word of a new NIC queue pair, which may get lost or be late like everything else.
    pub(crate) fn tell_epoch(&mut self, now: Time, from: usize, qp: QpId, epoch: NicEpoch) {
        let stormy = now < self.faults.calm_at;
        let is_dead = stormy && self.faults.dead.swallows(now, from, epoch.path);
        if is_dead
            || self.rails.swallows(now, from, epoch.path.rail())
            || (stormy && self.rng.random_bool(self.faults.loss[from]))
        {
            return;
        }
        let (marked, damaged, forged) = (false, false, false);
        let (bytes, kind) = (Vec::new(), Kind::Epoch(qp, epoch));
        let left_by = Egress::Path(epoch.path);
        self.depart(
            now,
            from,
            Datagram { bytes, left_by, marked, damaged, forged, stale: false, kind },
            stormy,
        );
    }

    fn swallows(&self, bytes: &[u8]) -> bool {
        let payload = |op: Opcode| op.is_data() || op == Opcode::Ack;
        self.cut == Cut::Payloads && Opcode::from_byte(bytes[0]).is_some_and(payload)
    }

    fn launch(
        &mut self,
        now: Time,
        from: usize,
        bytes: &[u8],
        left_by: Egress,
        kind: Kind,
        stormy: bool,
    ) {
        let mut datagram = Datagram {
            bytes: bytes.to_vec(),
            left_by,
            marked: self.rng.random_bool(self.faults.mark),
            damaged: stormy && self.rng.random_bool(self.faults.corrupt),
            forged: false,
            stale: false,
            kind,
        };
        if datagram.damaged {
            self.damage(&mut datagram.bytes);
        }
        self.depart(now, from, datagram, stormy);
    }

    fn forge(&mut self, now: Time, from: usize, bytes: &[u8], left_by: Egress) {
        let bytes = match &mut self.envelopes {
            Some(envelopes) => envelopes.forge(bytes),
            None => forgery(bytes, self.rng.random_range(1..=u32::MAX)),
        };
        let (marked, damaged, forged, kind) = (false, false, true, Kind::PLAIN);
        let datagram = Datagram { bytes, left_by, marked, damaged, forged, stale: false, kind };
        self.depart(now, from, datagram, true);
    }

    fn depart(&mut self, now: Time, from: usize, datagram: Datagram, stormy: bool) {
        let skew = self.skew * u32::from(datagram.path().get() % 4) / 3;
        let rail = self.rails.delay(datagram.left_by.rail());
        let mut at = now + self.delay + rail + skew + self.jitter.mul_f64(self.rng.random());
        if stormy && self.rng.random_bool(self.faults.late) {
            at += self.faults.late_up_to.mul_f64(self.rng.random());
        }
        self.wire.send(at, (1 - from, datagram));
    }

    /// Flips up to three bits, which every CRC-32 over so few bytes finds, or cuts the end off.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let opcode = Opcode::from_byte(bytes[0]).expect("an opcode of ours");
        if self.rng.random_bool(0.2) {
            bytes.truncate(self.rng.random_range(0..bytes.len()));
            return;
        }
        // Nobody finds a flipped bit in a payload that carries no check.
        let checked = if opcode.is_data() && self.crc == Crc::Off { 60 } else { bytes.len() };
        let first = self.rng.random_range(0..checked * 8);
        for bit in first..(first + self.rng.random_range(1..=3)).min(checked * 8) {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// No datagram takes longer.
    pub(crate) fn longest_flight(&self) -> Duration {
        self.longest_way + self.faults.late_up_to
    }

    pub(crate) fn next_arrival(&self) -> Time {
        self.wire.next_arrival()
    }

    /// The datagram that arrives next, and where. `None`: there is none, or its envelope is not
    /// opened.
    pub(crate) fn arrive(&mut self) -> Option<(usize, Datagram)> {
        let (to, mut datagram) = self.wire.arrive(Time::FAR_FUTURE)?;
        if let Some(envelopes) = &mut self.envelopes {
            let is_sent = !datagram.damaged && !datagram.forged;
            datagram.bytes =
                envelopes.open(to, datagram.left_by.rail(), datagram.bytes, is_sent)?;
            // A repeated packet of the stranger may come before the original.
            (datagram.damaged, datagram.forged) = (false, false);
        }
        Some((to, datagram))
    }

    /// Numbers of key updates, and of those within a message; 0 without keys.
    pub(crate) fn key_updates(&self) -> (u64, u64) {
        let count = |of: &Envelopes| (of.key_updates(), of.key_updates_within_messages());
        self.envelopes.as_ref().map_or((0, 0), count)
    }
}

fn path_of(egress: Egress) -> PathId {
    egress.path().unwrap_or(PathId::default().on(egress.rail()))
}

/// A packet with another token that would do harm if it were believed.
fn forgery(bytes: &[u8], twist: u32) -> Vec<u8> {
    let mut forged = Vec::new();
    match Packet::decode(bytes) {
        Ok(Packet::Data(mut header, payload)) => {
            header.token.0 ^= twist;
            header.retransmission = false;
            header.encode(&mut forged);
            forged.extend_from_slice(payload);
        }
        Ok(Packet::Ack(mut ack)) => {
            ack.token.0 ^= twist;
            ack.cumulative = (ack.cumulative + twist % 3) & 0xFF_FFFF;
            ack.nak = Some((NakCode::RemoteAccess, ack.cumulative));
            ack.encode(&mut forged);
        }
        Ok(Packet::Control(control)) => {
            let token = Token(control.token.0 ^ twist);
            let kind = match control.kind {
                ControlKind::Unknown | ControlKind::Confirm => control.kind,
                _ => ControlKind::Disconnect(FinalAck::default()),
            };
            Control { kind, token, ..control }.encode(&mut forged);
        }
        Ok(Packet::Credit(credit)) => {
            let token = Token(credit.token.0 ^ twist);
            Credit { token, granted: u64::MAX, ..credit }.encode(&mut forged);
        }
        Ok(Packet::Probe(probe)) => {
            let token = Token(probe.token.0 ^ twist);
            Probe { kind: ProbeKind::Probed, token, ..probe }.encode(&mut forged);
        }
        other => panic!("nobody sends {other:?}"),
    }
    forged
}
