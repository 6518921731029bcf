//! Two hosts whose packets arrive at once, unless a test takes them out.

use std::time::Duration;

use braid_transport::{
    Completion, QpConfig, RcRemote, RecvWr, RemoteAddr, RoceMtu, SendOp, SendWr,
};
use braid_wire::{RcHeader, Time};

use crate::host::{BASE, Host, QP};

/// Bytes of memory of each host.
pub(crate) const MEMORY: usize = 1 << 20;
pub(crate) const ACK_TIMEOUT: Duration = Duration::from_millis(1);
pub(crate) const RETRIES: u8 = 7;

pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) hosts: [Host; 2],
}

pub(crate) fn remote(index: usize) -> RcRemote {
    RcRemote {
        qp: QP[1 - index],
        send_psn: 100 * (index as u32 + 1),
        recv_psn: 100 * (2 - index as u32),
        mtu: RoceMtu::B1024,
        max_rd_atomic: 4,
        ack_timeout: ACK_TIMEOUT,
        retry_count: RETRIES,
        window: 128,
        dcqcn: None,
    }
}

impl Pair {
    pub(crate) fn new(config: &QpConfig) -> Self {
        Pair::with(config, |_| {})
    }

    /// A pair whose ends are connected with other parameters.
    pub(crate) fn with(config: &QpConfig, change: impl Fn(&mut RcRemote)) -> Self {
        let host = |index| {
            let mut remote = remote(index);
            change(&mut remote);
            Host::new(index, config.clone(), remote, MEMORY)
        };
        Pair { now: Time::from_nanos(1_000_000), hosts: [host(0), host(1)] }
    }

    /// The memory of host 1, seen from host 0.
    pub(crate) fn far(&self, at: usize) -> RemoteAddr {
        RemoteAddr { addr: BASE + at as u64, rkey: self.hosts[1].memory.key }
    }

    pub(crate) fn wr(&self, id: u64, op: SendOp, len: u32) -> SendWr {
        let sges = self.hosts[0].memory.sge(0, len);
        SendWr { id, op, sges, signalled: true, solicited: false, fence: false }
    }

    pub(crate) fn post(&mut self, id: u64, op: SendOp, len: u32) {
        let wr = self.wr(id, op, len);
        self.hosts[0].qp.post_send(wr).expect("there is room");
    }

    pub(crate) fn post_receive(&mut self, id: u64, len: u32) {
        let sges = self.hosts[1].memory.sge(0, len);
        self.hosts[1].qp.post_recv(RecvWr { id, sges }).expect("there is room");
    }

    /// Returns everything that host `from` sends now.
    pub(crate) fn sends(&mut self, from: usize) -> Vec<(RcHeader, Vec<u8>)> {
        std::iter::from_fn(|| self.hosts[from].transmit(self.now)).collect()
    }

    /// Hands packets to host `to`.
    pub(crate) fn deliver(&mut self, to: usize, packets: &[(RcHeader, Vec<u8>)]) {
        for (_, bytes) in packets {
            assert!(self.hosts[to].receive(self.now, bytes, false), "a wrong ICRC");
        }
    }

    /// Carries packets, except those of host 0 that `lost` names by their number, until neither
    /// host sends any.
    pub(crate) fn carry(&mut self, lost: impl Fn(usize) -> bool) {
        let mut number = 0;
        loop {
            let requests = self.sends(0);
            let mut arriving = Vec::new();
            for packet in &requests {
                if !lost(number) {
                    arriving.push(packet.clone());
                }
                number += 1;
            }
            self.deliver(1, &arriving);
            let responses = self.sends(1);
            self.deliver(0, &responses);
            if requests.is_empty() && responses.is_empty() {
                return;
            }
        }
    }

    /// Runs the timer that is due next.
    pub(crate) fn pass_time(&mut self) -> bool {
        let next = self.hosts.iter().filter_map(|host| host.qp.next_timeout()).min();
        let Some(at) = next else { return false };
        self.now = self.now.max(at);
        self.hosts.iter_mut().for_each(|host| host.qp.on_timeout(at));
        true
    }

    pub(crate) fn completions(&mut self, host: usize) -> Vec<Completion> {
        self.hosts[host].ended().into_iter().filter_map(|ended| ended.reported()).collect()
    }
}
