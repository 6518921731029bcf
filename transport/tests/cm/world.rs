//! Two ends, their programs and the network between them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use braid_transport::{CmEvent, CmEventKind, CmId, CmManager};
use braid_wire::{
    CmCounts, CmPath, CmQueuePair, CmRejectReason, CmReply, CmRequest, CmTimeouts, IpCmHeader,
    MAD_LEN, QpId, Time,
};

/// The hosts of the two ends.
pub(crate) const HOSTS: [IpAddr; 2] = [ip(1), ip(2)];
/// The port of the listener.
pub(crate) const PORT: u16 = 7174;
pub(crate) const QPS: [CmQueuePair; 2] = [
    CmQueuePair { number: QpId::new(0x11), psn: 0x1234, has_srq: false },
    CmQueuePair { number: QpId::new(0x22), psn: 0x4321, has_srq: false },
];
pub(crate) const COUNTS: CmCounts = CmCounts {
    responder_resources: 3,
    initiator_depth: 2,
    flow_control: false,
    retry_count: 7,
    rnr_retry_count: 6,
};
/// The time that a message takes at least.
const DELAY: Duration = Duration::from_millis(1);
/// The time for which a connection is used.
const USE: Duration = Duration::from_secs(1);

const fn ip(last: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, last))
}

/// The faults of the network.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplicates: f64,
    /// The longest further delay of a message.
    pub(crate) jitter: Duration,
}

/// The behaviour of the two programs.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// The port that the connecting end calls.
    pub(crate) port: u16,
    /// The end that disconnects.
    pub(crate) disconnecting: usize,
    /// The end forgets the connection instead.
    pub(crate) forgets: bool,
    /// The listening end refuses.
    pub(crate) refuses: bool,
    /// The time until the listening end answers.
    pub(crate) thinks: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        let thinks = Duration::ZERO;
        Plan { port: PORT, disconnecting: 0, forgets: false, refuses: false, thinks }
    }
}

/// Something that happens later.
enum Action {
    Arrival { at: usize, mad: Box<[u8; MAD_LEN]> },
    Answer(CmId),
    End(usize, CmId),
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) ends: [CmManager; 2],
    /// The events of each end so far.
    pub(crate) events: [Vec<CmEventKind>; 2],
    faults: Faults,
    random: u64,
    actions: BTreeMap<(Time, u64), Action>,
    count: u64,
}

/// The request of an end.
pub(crate) fn request(port: u16) -> CmRequest {
    let header = IpCmHeader { from: (HOSTS[0], 4000).into(), to: HOSTS[1] };
    let mut private_data = [0xA5; CmRequest::PRIVATE];
    private_data[..IpCmHeader::LEN].copy_from_slice(&header.encode());
    let gid = |host| match host {
        IpAddr::V4(ip) => std::net::Ipv4Addr::to_ipv6_mapped(&ip),
        IpAddr::V6(ip) => ip,
    };
    CmRequest {
        local_id: 0,
        service: IpCmHeader::service(port),
        ca_guid: 0,
        transport: 0,
        queue_pair: QPS[0],
        counts: COUNTS,
        timeouts: CmTimeouts { remote: 20, local: 20, retries: 15 },
        path: CmPath {
            local: gid(HOSTS[0]),
            remote: gid(HOSTS[1]),
            mtu: 3,
            traffic_class: 0,
            hop_limit: 64,
            ack_timeout: 16,
        },
        private_data,
    }
}

/// The acceptance of the other end.
pub(crate) fn reply() -> CmReply {
    let mut private_data = [0; CmReply::PRIVATE];
    private_data[..5].copy_from_slice(b"reply");
    CmReply {
        local_id: 0,
        remote_id: 0,
        queue_pair: QPS[1],
        counts: COUNTS,
        ca_guid: 0,
        private_data,
    }
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let key = |end: u64| {
            let mut key = [7; 16];
            key[..8].copy_from_slice(&(2 * seed + end).to_le_bytes());
            key
        };
        let mut ends = [0, 1].map(|end| CmManager::new(key(end), end, 0));
        assert!(ends[1].listen(IpCmHeader::service(PORT)));
        let (now, actions) = (Time::from_nanos(1), BTreeMap::new());
        World { now, ends, events: Default::default(), faults, random: seed, actions, count: 0 }
    }

    /// Runs until nothing is left to do.
    pub(crate) fn run(&mut self, plan: Plan) {
        self.ends[0].connect(self.now, HOSTS[1], request(plan.port));
        loop {
            self.settle(&plan);
            let timeout = self.ends.iter().filter_map(CmManager::next_timeout).min();
            let action = self.actions.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = timeout.into_iter().chain(action).min() else { return };
            assert!(self.count < 100_000, "it does not end");
            self.now = self.now.max(next);
            while let Some(entry) = self.actions.first_entry()
                && entry.key().0 <= self.now
            {
                let action = entry.remove();
                self.act(action, &plan);
            }
            let now = self.now;
            self.ends.iter_mut().for_each(|end| end.on_timeout(now));
        }
    }

    /// Whether neither end waits for anything.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ends.iter().all(|end| end.next_timeout().is_none()) && self.actions.is_empty()
    }

    fn act(&mut self, action: Action, plan: &Plan) {
        let now = self.now;
        match action {
            Action::Arrival { at, mad } => {
                assert!(self.ends[at].on_mad(now, HOSTS[1 - at], &mad[..]));
            }
            Action::Answer(id) if plan.refuses => {
                self.ends[1].reject(now, id, CmRejectReason::CONSUMER, b"busy");
            }
            Action::Answer(id) => _ = self.ends[1].accept(now, id, reply()),
            Action::End(end, id) if plan.forgets => self.ends[end].forget(now, id),
            // The other end may have disconnected first.
            Action::End(end, id) => _ = self.ends[end].disconnect(now, id),
        }
    }

    fn settle(&mut self, plan: &Plan) {
        for end in [0, 1] {
            while let Some(CmEvent { id, peer, kind }) = self.ends[end].poll_event() {
                assert_eq!(peer, HOSTS[1 - end]);
                let ends_it = plan.disconnecting == end;
                match &kind {
                    CmEventKind::Requested(_) => self.later(plan.thinks, Action::Answer(id)),
                    CmEventKind::Replied(_) => {
                        assert!(self.ends[end].ready(id));
                        if ends_it {
                            self.later(USE, Action::End(end, id));
                        }
                    }
                    CmEventKind::Established if ends_it => self.later(USE, Action::End(end, id)),
                    _ => {}
                }
                self.events[end].push(kind);
            }
            while let Some((to, mad)) = self.ends[end].poll_transmit() {
                assert_eq!(to, HOSTS[1 - end]);
                self.transmit(1 - end, mad);
            }
        }
    }

    fn transmit(&mut self, at: usize, mad: [u8; MAD_LEN]) {
        let Faults { loss, duplicates, jitter } = self.faults;
        let copies = if self.chance(duplicates) { 2 } else { 1 };
        for _ in 0..copies {
            if !self.chance(loss) {
                let delay = DELAY + jitter.mul_f64(self.fraction());
                self.later(delay, Action::Arrival { at, mad: Box::new(mad) });
            }
        }
    }

    fn later(&mut self, delay: Duration, action: Action) {
        self.count += 1;
        self.actions.insert((self.now + delay, self.count), action);
    }

    fn chance(&mut self, of: f64) -> bool {
        self.fraction() < of
    }

    fn fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
