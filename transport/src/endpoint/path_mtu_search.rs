//! The endpoint's part in the path MTU search, see [`super::path_mtu`].

use std::hash::Hasher;

use braid_lb::Rails;
use braid_wire::{Probe, ProbeKind, RailId, Time};
use siphasher::sip::SipHasher24;

use super::members::Endpoint;
use super::path_mtu::search::PathMtu;
use super::path_mtu::sent_probes::Way;
use crate::{Egress, Event, QpSlot, Transmit, TransmitBody};

/// Domain separation of the hash: other inputs with the same key are longer.
const PROBES: u8 = 1;
/// Maximum number of PROBEs that wait to be answered; each try of the peer sends up to three.
const MAX_ASKED: usize = 8;

impl Endpoint {
    /// Handles a PROBE or PROBED that arrived on a rail for a queue pair.
    pub fn on_probe(&mut self, now: Time, slot: QpSlot, rail: RailId, probe: &Probe) {
        let qp = self.qp(slot);
        let is_peer = qp.remote().qp == probe.from;
        if probe.token != qp.token() || !is_peer {
            return;
        }
        self.heard();
        self.control_due = true;
        match probe.kind {
            ProbeKind::Probe if self.path_mtu.asked.len() < MAX_ASKED => {
                self.path_mtu.asked.push_back((slot.0, rail, *probe));
            }
            ProbeKind::Probe => {}
            ProbeKind::Probed => {
                let serial = probe.serial ^ self.probe_mask(slot.0, probe.size);
                let probe = Probe { serial, ..*probe };
                let search = self.path_mtu.search_mut(rail);
                if search.is_some_and(|search| search.on_answer(now, &probe)) {
                    self.use_path_mtu();
                }
            }
        }
        self.announce(slot);
    }

    /// Takes the datagram size that the host's route to the peer carries on a rail, as the host
    /// knows it. The search uses it only as a hint for the next size to try, because anybody may
    /// have told the host.
    pub fn route_takes(&mut self, rail: RailId, datagram: u16) {
        if let Some(search) = self.path_mtu.search_mut(rail) {
            search.hint_datagram(datagram);
        }
    }

    /// The largest datagram (UDP payload, in bytes) that the paths of all rails in use are known to
    /// carry. `None`: the path MTU is not searched.
    pub fn path_mtu(&self) -> Option<u16> {
        self.path_mtu.live().map(PathMtu::datagram).min()
    }

    /// Whether everything on this rail leaves from the receiving port, because a NAT or a stateful
    /// firewall seems to block the ports of paths.
    #[inline]
    pub fn paths_are_blocked(&self, rail: RailId) -> bool {
        self.path_mtu.paths_are_blocked(rail)
    }

    /// Like [`Endpoint::paths_are_blocked`], but only once this is certain. A new rail may use its
    /// receiving port until it is known that the ports of its paths are open.
    pub fn path_ports_blocked(&self, rail: RailId) -> bool {
        self.path_mtu.search(rail).is_some_and(|search| search.reported_blocked)
    }

    /// The longest datagram that a rail carries, and the longest that it should carry, if that is
    /// more: the rail carried it before, or the host's route does.
    pub fn path_mtu_shortfall(&self, rail: RailId) -> Option<(u16, u16)> {
        self.path_mtu.search(rail)?.shortfall()
    }

    pub(super) fn suspect_path_mtu(&mut self, now: Time) {
        let longest = self.round_trips.get(now);
        self.path_mtu.live_mut().for_each(|(_, search)| search.suspect(now, longest));
        self.control_due = true;
    }

    /// Handles rails that have come into use or gone out of use.
    #[inline(never)]
    pub(super) fn follow_rails(&mut self, now: Time, rails: &Rails) {
        let live = rails.live();
        if live != self.path_mtu.live {
            let before = self.path_mtu.live;
            self.path_mtu.admit(now, self.path_mtu.longest_payload, rails);
            for rail in live.iter().filter(|rail| !before.contains(*rail)) {
                let search = self.path_mtu.search_mut(rail);
                if let Some(search) = search.filter(|_| rails.came_by_port(rail)) {
                    search.suspect_paths(now);
                }
            }
            self.use_path_mtu();
            self.search_path_mtu(now);
            self.wake_all();
            self.control_due = true;
        }
    }

    /// Continues the searches that are due.
    pub(super) fn search_path_mtu(&mut self, now: Time) {
        if self.path_mtu.next_timeout() > now {
            return;
        }
        let longest = self.round_trips.get(now);
        let mut changed = false;
        for (_, search) in self.path_mtu.live_mut() {
            changed |= search.on_timeout(now, longest);
        }
        if changed {
            self.use_path_mtu();
        }
        if let Some(index) = self.prober() {
            self.announce(QpSlot(index));
        }
    }

    /// Makes all queue pairs cut their segments to the path MTU.
    fn use_path_mtu(&mut self) {
        let payloads = self.path_mtu.payloads();
        for member in self.members.iter_mut().flatten() {
            member.qp.use_path_mtu(payloads, &self.config);
        }
    }

    fn announce(&mut self, slot: QpSlot) {
        let qp = self.qp(slot).id();
        let news = self.path_mtu.all_mut().flat_map(|search| search.news.drain(..));
        self.outputs.events.extend(news.map(|kind| Event { slot, qp, kind }));
    }

    /// Returns the next PROBE or PROBED to send.
    pub(super) fn poll_path_mtu(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        while let Some((index, rail, asked)) = self.path_mtu.asked.pop_front() {
            let answer = Probe { kind: ProbeKind::Probed, ..asked };
            if let Some(transmit) = self.probe_packet(index, answer, Egress::Port(rail)) {
                return Some(transmit);
            }
        }
        let index = self.prober()?;
        let (rail, probe, way) = self.path_mtu.live_mut().find_map(|(rail, search)| {
            let (probe, way) = search.poll_due(now)?;
            Some((rail, probe, way))
        })?;
        let egress = match way {
            Way::Path => Egress::Path(self.qp_mut(QpSlot(index)).path_on(now, rail, rails)),
            Way::Port => Egress::Port(rail),
        };
        let serial = probe.serial ^ self.probe_mask(index, probe.size);
        self.probe_packet(index, Probe { serial, ..probe }, egress)
    }

    /// Returns a mask that makes the serials of a queue pair's probes unpredictable. So an answer
    /// proves that its sender has received the probe, in full size.
    fn probe_mask(&self, index: u32, size: u16) -> u32 {
        let (qp, key) = (self.qp(QpSlot(index)), self.config.skip_key);
        key.map_or(0, |key| {
            let mut hasher = SipHasher24::new_with_key(&key);
            hasher.write_u8(PROBES);
            hasher.write_u32(qp.token().0);
            hasher.write_u16(size);
            hasher.finish() as u32
        })
    }

    fn probe_packet(&self, index: u32, probe: Probe, egress: Egress) -> Option<Transmit> {
        let qp = &self.members[index as usize].as_ref()?.qp;
        let remote = qp.remote();
        let probe = Probe { qp: remote.qp, from: qp.id(), token: remote.token, ..probe };
        let body = TransmitBody::Probe(probe);
        Some(Transmit { slot: QpSlot(index), egress, body })
    }
}
