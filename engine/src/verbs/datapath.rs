//! The datapath over an RDMA device. Data and acknowledgements use its queue pairs, and datagrams
//! of a socket set up connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_transport::{AddrPair, NicEpoch, Regions};
use braid_wire::{QpId, RailId, Time};

use super::connections::Connections;
use super::device::Device;
use super::segments::Segments;
use super::setup_error::VerbsSetupError;
use crate::counters::WorkerCounters;
use crate::datapath::datagram::DatagramDatapath;
use crate::datapath::{
    Arrived, Caps, Closing, Datapath, DatapathSetup, JoinError, Losses, Owner, Partner, PathInfo,
    Reach, Room, SegmentRun, Sent, Taken, Via,
};

/// Segments that share the work requests of a NIC queue pair, and a message for their headers.
const BATCH: u32 = 8;
/// The number of turns in which the socket is polled once. Only set-up uses the socket, and polling
/// it costs more than everything else in an idle turn.
const SOCKET_TURNS: u32 = 16;
/// The largest number of batches of set-up packets taken at a time.
const SOCKET_BATCHES: usize = 4;
/// The longest sleep without a look at the device, because a removed device need not report it.
const DEVICE_LOOK: Duration = Duration::from_millis(250);

/// The datapath over an RDMA device.
pub(crate) struct VerbsDatapath {
    socket: DatagramDatapath,
    connections: Connections,
    segments: Segments,
    counters: Arc<WorkerCounters>,
    /// Turns since the socket was polled.
    without_socket: u32,
    /// Segments since the worker was told that a batch has left.
    shipped: u32,
}

impl VerbsDatapath {
    /// Opens the datapath of a rail over `device`. Connections are set up over `socket`.
    pub(crate) fn open(
        socket: DatagramDatapath,
        device: &Arc<Device>,
        rail: RailId,
        paths: usize,
        mtu: Option<u16>,
        counters: Arc<WorkerCounters>,
    ) -> Result<Self, VerbsSetupError> {
        let segments = Segments::new(device.mtu as u16, mtu);
        let connections = Connections::new(device.clone(), rail, paths, segments)?;
        Ok(VerbsDatapath { socket, connections, segments, counters, without_socket: 0, shipped: 0 })
    }

    fn receive_set_up(
        &mut self,
        now: Time,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> io::Result<usize> {
        self.without_socket = (self.without_socket + 1) % SOCKET_TURNS;
        let mut packets = 0;
        if self.without_socket == 0 {
            for _ in 0..SOCKET_BATCHES {
                let taken = self.socket.receive(now, regions, sink)?;
                packets += taken.packets;
                if !taken.is_more {
                    break;
                }
            }
        }
        Ok(packets)
    }
}

impl Datapath for VerbsDatapath {
    fn make_room(&mut self) -> Room {
        match self.socket.make_room() {
            Room::Open if self.shipped >= BATCH => {
                self.shipped = 0;
                Room::Emptied
            }
            room => room,
        }
    }

    fn send_segments(&mut self, now: Time, segments: &mut SegmentRun<'_>) -> Sent {
        self.shipped += 1;
        self.connections.ship(now, segments)
    }

    fn send_packet(&mut self, id: QpId, to: AddrPair, via: Via, packet: &[u8]) {
        match via {
            Via::Path(path) => self.connections.send_packet(id, path, packet),
            Via::Port => self.socket.send_datagram(to, via, packet),
        }
    }

    /// The socket tells the peer, because the NIC queue pairs of an ended connection may be gone.
    fn send_datagram(&mut self, to: AddrPair, _: Via, packet: &[u8]) {
        self.socket.send_datagram(to, Via::Port, packet);
    }

    fn send_alone(&mut self, to: AddrPair, _: Via, packets: &mut Vec<u8>, segment_len: usize) {
        self.socket.send_alone(to, Via::Port, packets, segment_len);
    }

    fn flush(&mut self) -> bool {
        self.connections.flush();
        self.socket.flush()
    }

    fn receive(
        &mut self,
        now: Time,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> io::Result<Taken> {
        if self.connections.has_lost_device() {
            tracing::error!(
                "an RDMA device is gone; queue pairs whose only rail it was go into ERR"
            );
            self.connections.abandon();
            sink(Arrived::Failed);
        }
        let set_up = self.receive_set_up(now, regions, sink)?;
        let packets = self.connections.poll(now, regions, sink);
        self.counters.datagrams_received.add(packets as u64);
        Ok(Taken { packets: set_up + packets, is_more: false })
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let mut all = self.socket.readiness()?;
        all.extend(self.connections.readiness());
        Some(all)
    }

    fn arm(&mut self) -> bool {
        self.connections.arm();
        true
    }

    fn next_due(&self) -> Option<Instant> {
        let look = Some(Instant::now() + DEVICE_LOOK);
        self.socket.next_due().into_iter().chain(look).min()
    }
}

impl DatapathSetup for VerbsDatapath {
    fn caps(&self) -> Caps {
        Caps {
            batch_segments: BATCH,
            // Each may be the last one that its connection has room for.
            transmit_segments: 1,
            // Each queue pair has NIC queue pairs of its own.
            joint_batches: false,
            segment: self.segments.staged,
            // Receive credits replace a socket's buffer, and the NIC's ICRC replaces Braid's CRC.
            receive_buffer: u32::MAX,
            checks_payloads: false,
            search_path_mtu: false,
            // Neither libibverbs nor rxe reports them.
            congestion_marks: false,
            direct: Some(self.segments.direct),
            ..self.socket.caps()
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.socket.pair(to)
    }

    fn open(&mut self, owner: Owner) -> Result<Vec<u8>, JoinError> {
        self.connections.open(owner)
    }

    fn join(&mut self, id: QpId, partner: Partner, routing: &[u8]) -> Result<u32, JoinError> {
        self.connections.join(id, partner, routing).inspect_err(|_| self.connections.close(id))
    }

    fn retire(&mut self, id: QpId) {
        self.connections.retire(id);
    }

    fn close(&mut self, id: QpId) {
        self.connections.close(id);
    }

    fn close_epoch(&mut self, now: Time, id: QpId, epoch: NicEpoch) -> Closing {
        self.connections.close_epoch(now, id, epoch)
    }

    fn forget_memory(&mut self) {
        self.connections.quiesce();
    }
}

impl PathInfo for VerbsDatapath {
    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        self.socket.max_datagram(to)
    }

    fn max_packet(&self, _: AddrPair) -> io::Result<usize> {
        Ok(u16::MAX.into())
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        self.socket.reach(to)
    }

    fn losses(&self) -> Losses {
        self.socket.losses()
    }
}
