//! The RDMA device of an engine, opened once and shared by its workers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid_transport::{Access, PdId};
use braid_verbs::{
    AsyncEvent, Context, DeviceAttributes, Gid, GidType, Mr, MrAccess, Pd, PortState, QpKind,
    Route, VerbsError,
};
use braid_wire::PathId;

use super::options::{VerbsOptions, VerbsService};
use super::setup_error::VerbsSetupError;

/// An RDMA device with one of its ports and one address of the port.
pub(crate) struct Device {
    pub(crate) context: Context,
    pub(crate) attributes: DeviceAttributes,
    pub(crate) port: u8,
    pub(crate) gid: Gid,
    /// The path MTU in bytes.
    pub(crate) mtu: u32,
    pub(crate) kind: QpKind,
    gid_index: u32,
    domains: Mutex<HashMap<PdId, Pd>>,
    gone: AtomicBool,
}

impl Device {
    /// Opens the device. `ip`: the address that the engine is bound to, if it is not a wildcard.
    pub(crate) fn open(
        options: &VerbsOptions,
        ip: Option<IpAddr>,
    ) -> Result<Self, VerbsSetupError> {
        Device::of(Context::open(&options.device)?, options, ip)
    }

    /// Finds the device that has this address on one of its ports, and opens it.
    pub(crate) fn find(service: VerbsService, ip: IpAddr) -> Result<Self, VerbsSetupError> {
        let devices = braid_verbs::device_names()?;
        let mut silent = None;
        for device in &devices {
            match Context::open(device).and_then(|context| locate(context, ip)) {
                Ok(Some((context, port, gid_index))) => {
                    let (device, gid_index) = (device.clone(), Some(gid_index));
                    let options = VerbsOptions { device, port, gid_index, service };
                    return Device::of(context, &options, Some(ip));
                }
                Ok(None) => {}
                // The failing device may not be the wanted one.
                Err(error) => silent = silent.or(Some(error)),
            }
        }
        Err(silent.map_or(VerbsSetupError::NoRail { ip, devices }, VerbsSetupError::Verbs))
    }

    fn of(
        context: Context,
        options: &VerbsOptions,
        ip: Option<IpAddr>,
    ) -> Result<Self, VerbsSetupError> {
        let port = context.port(options.port)?;
        if port.state != PortState::Active {
            return Err(VerbsSetupError::PortDown {
                device: options.device.clone(),
                port: options.port,
                state: port.state,
            });
        }
        let index = match options.gid_index {
            Some(index) => index,
            None => find_gid(&context, options, port.gid_count, ip)?,
        };
        let gid = context.gid(options.port, index)?;
        let kind = match options.service {
            VerbsService::Uc => QpKind::Uc,
            VerbsService::Rc => QpKind::Rc,
        };
        Ok(Device {
            attributes: context.attributes()?,
            port: options.port,
            gid,
            mtu: port.active_mtu,
            kind,
            gid_index: index,
            domains: Mutex::default(),
            gone: AtomicBool::new(false),
            context,
        })
    }

    /// A device without hardware.
    #[cfg(test)]
    pub(crate) fn fake(fake: &braid_verbs::fake::Device) -> Self {
        Device::of(fake.open(), &VerbsOptions::new("fake0"), None).expect("it refuses nothing")
    }

    /// The device's protection domain for one of the engine's.
    pub(crate) fn domain(&self, id: PdId) -> Result<Pd, VerbsError> {
        let mut domains = self.domains();
        if let Some(pd) = domains.get(&id) {
            return Ok(pd.clone());
        }
        let pd = self.context.alloc_pd()?;
        domains.insert(id, pd.clone());
        Ok(pd)
    }

    fn domains(&self) -> MutexGuard<'_, HashMap<PdId, Pd>> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory with the device.
    ///
    /// # Safety
    /// As for [`Pd::register`].
    pub(crate) unsafe fn register(
        &self,
        pd: PdId,
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Mr, VerbsError> {
        let domain = self.domain(pd)?;
        // Software serves READs, atomics and receives, so the NIC needs no permission for them.
        let access = match access.allows(Access::REMOTE_WRITE) {
            true => MrAccess::LOCAL_WRITE | MrAccess::REMOTE_WRITE,
            false => MrAccess::NONE,
        };
        // SAFETY: the caller vouches for the memory.
        unsafe { domain.register(start, len, access) }
    }

    /// The route to a peer's port for one path. If the NIC lets software choose the UDP source
    /// port, the flow label names it (0xC000 | path, as over sockets).
    pub(crate) fn route(&self, to: Gid, path: PathId, traffic_class: u8) -> Route {
        Route {
            port: self.port,
            dgid: to,
            sgid_index: self.gid_index,
            hop_limit: 64,
            traffic_class,
            flow_label: u32::from(path.source_port()),
        }
    }

    /// Reads the device's asynchronous events. Returns `true` once the device is gone.
    pub(crate) fn is_gone(&self) -> bool {
        loop {
            match self.context.poll_async_event() {
                Ok(None) => {
                    self.gone.fetch_or(self.context.is_being_removed(), Ordering::AcqRel);
                    return self.gone.load(Ordering::Acquire);
                }
                Ok(Some(AsyncEvent::DeviceFatal)) | Err(_) => {
                    self.gone.store(true, Ordering::Release);
                    return true;
                }
                Ok(Some(event)) => {
                    tracing::info!(device = self.context.name(), ?event, "the device says");
                }
            }
        }
    }
}

/// The port of a device that has this address, and the entry of its GID table.
fn locate(context: Context, ip: IpAddr) -> Result<Option<(Context, u8, u32)>, VerbsError> {
    for port in 1..=context.attributes()?.ports {
        if let Some(index) = context.gid_for_ip(port, ip)? {
            return Ok(Some((context, port, index)));
        }
    }
    Ok(None)
}

fn find_gid(
    context: &Context,
    options: &VerbsOptions,
    count: u32,
    ip: Option<IpAddr>,
) -> Result<u32, VerbsSetupError> {
    let found = match ip {
        Some(ip) => context.gid_for_ip(options.port, ip)?,
        None => {
            let usable = |index: &u32| {
                context.gid(options.port, *index).is_ok()
                    && matches!(context.gid_type(options.port, *index), Ok(GidType::RoceV2))
            };
            let all: Vec<u32> = (0..count).filter(usable).collect();
            let is_ipv4 = |index: &&u32| {
                context.gid(options.port, **index).is_ok_and(|gid| gid.ip().is_ipv4())
            };
            all.iter().find(is_ipv4).or(all.first()).copied()
        }
    };
    let (device, port) = (options.device.clone(), options.port);
    found.ok_or(VerbsSetupError::NoGid { device, port, of: ip })
}

#[cfg(test)]
mod tests {
    use braid_verbs::fake;

    use super::*;

    #[test]
    fn a_device_is_found_by_the_address_of_one_of_its_ports() {
        let fake = fake::Device::new();
        let found = |ip: &str| {
            let ip: IpAddr = ip.parse().expect("an address");
            let found = locate(fake.open(), ip).expect("it answers");
            found.map(|(_, port, index)| (port, index))
        };
        assert_eq!(found("10.0.0.1"), Some((1, 2)), "the entry of RoCE v2");
        assert_eq!(found("10.0.0.2"), None);
    }
}
