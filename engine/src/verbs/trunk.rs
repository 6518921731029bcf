//! A trunk: the lanes of one queue pair, and what is known of their other ends.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_verbs::{Gid, QpKind, Rtr};
use braid_wire::{Note, NoteBody, PathId, Service, TrunkAddress};

use super::control::{Control, ControlAddress};
use super::device::Device;
use super::far_regions::FarRegions;
use super::lane::Lane;
use super::losses::Losses;
use crate::datapath::{JoinError, Owner, Partner};

pub(crate) struct Trunk {
    pub(crate) owner: Owner,
    /// First PSN of all its lanes.
    pub(crate) psn: u32,
    /// By path, and then the safe lane. None: the queue pair receives nothing any more.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) far: Option<Far>,
    pub(crate) losses: Losses,
}

/// The other end.
pub(crate) struct Far {
    pub(crate) partner: Partner,
    control: ControlAddress,
    gid: Gid,
    psn: u32,
    pub(crate) regions: FarRegions,
}

impl Trunk {
    pub(crate) fn address(&self, device: &Device, control: &Control, credits: u16) -> TrunkAddress {
        TrunkAddress {
            service: service(device.kind),
            mtu: device.mtu as u16,
            control: control.number(),
            qkey: control.qkey,
            psn: self.psn,
            gid: device.gid.0,
            credits,
            lanes: self.lanes.iter().map(|lane| lane.number().unwrap_or(0)).collect(),
        }
    }

    /// Joins it with its other end: all lanes go to RTS.
    pub(crate) fn join(
        &mut self,
        device: &Device,
        control: &Control,
        partner: Partner,
        address: &TrunkAddress,
    ) -> Result<(), JoinError> {
        let ours = service(device.kind);
        if address.service != ours {
            return Err(JoinError::Service { ours, theirs: address.service });
        }
        if u32::from(address.mtu) != device.mtu {
            let theirs = address.mtu.into();
            return Err(JoinError::Mtu { ours: device.mtu, theirs });
        }
        if address.lanes.len() != self.lanes.len() {
            let (ours, theirs) = (self.lanes.len() - 1, address.lanes.len() - 1);
            return Err(JoinError::Paths { ours, theirs });
        }
        let gid = Gid(address.gid);
        let ah = Arc::new(control.pd.create_ah(&device.route(gid, PathId::new(0)))?);
        let control = ControlAddress { ah, qp: address.control, qkey: address.qkey };
        let far = Far { partner, control, gid, psn: address.psn, regions: FarRegions::default() };
        for (index, (lane, remote)) in self.lanes.iter_mut().zip(&address.lanes).enumerate() {
            lane.remote = *remote;
            lane.connect(&far.rtr(device, index, *remote))?;
        }
        self.far = Some(far);
        Ok(())
    }

    /// The safe lane's index.
    pub(crate) fn safe(&self) -> usize {
        self.lanes.len().saturating_sub(1)
    }

    /// The lane for what is staged on `path`.
    pub(crate) fn lane_for(&self, path: PathId) -> usize {
        let index = usize::from(path.get());
        let open = self.lanes.get(index).is_some_and(|lane| lane.is_open());
        if open && index < self.safe() { index } else { self.safe() }
    }
}

impl Far {
    /// What a lane has to know to reach its other end.
    pub(crate) fn rtr(&self, device: &Device, index: usize, remote: u32) -> Rtr {
        Rtr {
            dest_qp: remote,
            psn: self.psn,
            path_mtu_bytes: device.mtu,
            route: device.route(self.gid, PathId::new(index as u16)),
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
        }
    }

    /// The address that a packet of this path comes from.
    pub(crate) fn from(&self, path: PathId) -> SocketAddr {
        SocketAddr::new(self.partner.ip, path.source_port())
    }

    pub(crate) fn control(&self) -> &ControlAddress {
        &self.control
    }

    /// A note to the other end.
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
