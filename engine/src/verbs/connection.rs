//! A connection: the NIC queue pairs of one queue pair, and their peer ends.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_verbs::{Gid, QpKind, Rtr};
use braid_wire::{NicAddress, Note, NoteBody, PathId, Service};

use super::control::{ControlAddress, ControlQp};
use super::device::Device;
use super::far_regions::FarRegions;
use super::losses::Losses;
use super::nic_qp::NicQp;
use super::pool::Pool;
use crate::datapath::{JoinError, Owner, Partner};

pub(crate) struct Connection {
    pub(crate) owner: Owner,
    /// The first PSN of all its NIC queue pairs.
    pub(crate) psn: u32,
    /// The NIC queue pairs by path, and then the safe one. Empty: the queue pair no longer
    /// receives.
    pub(crate) nic_qps: Vec<NicQp>,
    /// The send buffers. They follow the NIC queue pairs, which release them first.
    pub(crate) pool: Pool,
    pub(crate) far: Option<Far>,
    pub(crate) losses: Losses,
}

/// The peer end.
pub(crate) struct Far {
    pub(crate) partner: Partner,
    control: ControlAddress,
    gid: Gid,
    psn: u32,
    pub(crate) regions: FarRegions,
}

impl Connection {
    pub(crate) fn address(&self, device: &Device, control: &ControlQp, credits: u16) -> NicAddress {
        NicAddress {
            service: service(device.kind),
            mtu: device.mtu as u16,
            control: control.number(),
            qkey: control.qkey,
            psn: self.psn,
            gid: device.gid.0,
            credits,
            nic_qps: self.nic_qps.iter().map(|nic_qp| nic_qp.number().unwrap_or(0)).collect(),
        }
    }

    /// Joins the connection with its peer end: all NIC queue pairs go to RTS.
    pub(crate) fn join(
        &mut self,
        device: &Device,
        control: &ControlQp,
        partner: Partner,
        address: &NicAddress,
    ) -> Result<(), JoinError> {
        let ours = service(device.kind);
        if address.service != ours {
            return Err(JoinError::Service { ours, theirs: address.service });
        }
        if u32::from(address.mtu) != device.mtu {
            let theirs = address.mtu.into();
            return Err(JoinError::Mtu { ours: device.mtu, theirs });
        }
        if address.nic_qps.len() != self.nic_qps.len() {
            let (ours, theirs) = (self.nic_qps.len() - 1, address.nic_qps.len() - 1);
            return Err(JoinError::Paths { ours, theirs });
        }
        let gid = Gid(address.gid);
        let ah = Arc::new(control.pd.create_ah(&device.route(
            gid,
            PathId::new(0),
            partner.traffic_class,
        ))?);
        let control = ControlAddress { ah, qp: address.control, qkey: address.qkey };
        let far = Far { partner, control, gid, psn: address.psn, regions: FarRegions::default() };
        for (index, (nic_qp, remote)) in self.nic_qps.iter_mut().zip(&address.nic_qps).enumerate() {
            nic_qp.remote = *remote;
            nic_qp.connect(&far.rtr(device, index, *remote))?;
        }
        self.far = Some(far);
        Ok(())
    }

    /// The index of the safe NIC queue pair.
    pub(crate) fn safe(&self) -> usize {
        self.nic_qps.len().saturating_sub(1)
    }

    /// The NIC queue pair for a staged segment on `path`, while `waiting` work requests are not
    /// posted yet.
    pub(crate) fn nic_qp_for(&self, path: PathId, waiting: usize) -> usize {
        let index = usize::from(path.get());
        if self.path_has_room(index, waiting) { index } else { self.safe() }
    }

    /// Whether a path's own NIC queue pair takes a segment. If its sends do not complete, later
    /// segments use the safe one, for which half of the send buffers are reserved.
    pub(crate) fn path_has_room(&self, index: usize, waiting: usize) -> bool {
        let nic_qp = self.nic_qps.get(index).filter(|_| index < self.safe());
        let is_open = nic_qp.is_some_and(|nic_qp| nic_qp.is_open() && nic_qp.has_room(waiting));
        is_open && self.pool.is_half_free()
    }

    /// Whether the connection takes another segment, whatever its path.
    pub(crate) fn has_room(&self, waiting: usize) -> bool {
        let safe = self.nic_qps.last();
        self.pool.room() > 0 && safe.is_none_or(|nic_qp| nic_qp.has_room(waiting))
    }
}

impl Far {
    /// The attributes of a NIC queue pair for reaching its peer end.
    pub(crate) fn rtr(&self, device: &Device, index: usize, remote: u32) -> Rtr {
        Rtr {
            dest_qp: remote,
            psn: self.psn,
            path_mtu_bytes: device.mtu,
            route: device.route(self.gid, PathId::new(index as u16), self.partner.traffic_class),
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
        }
    }

    /// The source address of a packet of this path.
    pub(crate) fn from(&self, path: PathId) -> SocketAddr {
        SocketAddr::new(self.partner.ip, path.source_port())
    }

    pub(crate) fn control(&self) -> &ControlAddress {
        &self.control
    }

    /// A note to the peer end.
    pub(crate) fn note(&self, body: NoteBody) -> Note {
        Note { qp: self.partner.id, token: self.partner.token, body }
    }
}

fn service(kind: QpKind) -> Service {
    match kind {
        QpKind::Rc => Service::Rc,
        QpKind::Uc | QpKind::Ud => Service::Uc,
    }
}
