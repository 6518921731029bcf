//! The plugin after `init`: what is configured, which devices there are, who is connecting.
//!
//! From v11 on NCCL initialises once per communicator and hands a context around, before it once per
//! process. All contexts that live at the same time share one [`Plugin`].

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use braid::Origin;

use crate::config::Config;
use crate::connect::Attempts;
use crate::device::Device;
use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::profiler;
use crate::selection;

/// Most devices, made ones included: as many as NCCL's own InfiniBand plugin has (`MAX_IB_VDEVS`).
const MAX_DEVICES: usize = 256;

/// See the module.
pub(crate) struct Plugin {
    pub(crate) config: Config,
    /// Those that the configuration asks for.
    physical: usize,
    /// They, then those that NCCL has made of them. None goes, so a number means one device for good.
    devices: Mutex<Vec<Arc<Device>>>,
    pub(crate) attempts: Attempts,
    origin: Origin,
}

struct Registry {
    /// The process that has these; `None`: there is nothing yet.
    origin: Option<Origin>,
    /// The one whose devices calls without a context mean.
    current: Weak<Plugin>,
    /// The one that the contexts in use share.
    contexts: Weak<Plugin>,
    /// That of the versions without `finalize`. It owns no thread and no socket.
    process: Option<Arc<Plugin>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry::empty(None));

/// `init` up to v10: reads the configuration anew.
///
/// # Errors
/// The configuration is wrong, or there is no interface.
pub(crate) fn init_process() -> Result<(), Error> {
    let plugin = Arc::new(Plugin::new()?);
    let mut registry = registry();
    registry.current = Arc::downgrade(&plugin);
    let before = registry.process.replace(plugin);
    drop(registry);
    drop(before);
    Ok(())
}

/// `init` from v11 on: a new context. The configuration is read for the first that lives.
///
/// # Errors
/// As [`init_process`].
pub(crate) fn init_context() -> Result<Arc<Plugin>, Error> {
    let mut registry = registry();
    let plugin = match registry.contexts.upgrade() {
        Some(plugin) => plugin,
        None => Arc::new(Plugin::new()?),
    };
    registry.contexts = Arc::downgrade(&plugin);
    registry.current = Arc::downgrade(&plugin);
    Ok(plugin)
}

/// The latest that was initialised.
///
/// # Errors
/// None is.
pub(crate) fn current() -> Result<Arc<Plugin>, Error> {
    let registry = registry();
    let plugin = registry.current.upgrade().or_else(|| registry.process.clone());
    plugin.ok_or(Error::NotInitialised)
}

/// A communicator was closed: attempts to connect that nobody asks after any more go, too.
pub(crate) fn tidy_up() {
    if let Ok(plugin) = current() {
        plugin.attempts.drop_abandoned();
    }
}

impl Registry {
    const fn empty(origin: Option<Origin>) -> Self {
        Registry { origin, current: Weak::new(), contexts: Weak::new(), process: None }
    }
}

/// That of this process: a forked child begins anew, and leaves alone what its parent has.
fn registry() -> MutexGuard<'static, Registry> {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if !registry.origin.is_some_and(Origin::is_here) {
        let parents = std::mem::replace(&mut *registry, Registry::empty(Some(Origin::here())));
        std::mem::forget(parents);
    }
    registry
}

impl Plugin {
    fn new() -> Result<Self, Error> {
        let config = Config::read()?;
        let devices = selection::devices(&config)?;
        devices.iter().for_each(Device::announce);
        if !config.faults.is_none() {
            tracing::warn!("faults are injected below the protocol: {:?}", config.faults);
        }
        let devices: Vec<_> = devices.into_iter().map(Arc::new).collect();
        let physical = devices.len();
        let devices = Mutex::new(devices);
        let (attempts, origin) = (Attempts::default(), Origin::here());
        Ok(Plugin { config, physical, devices, attempts, origin })
    }

    /// Whether this process has initialised it. In a forked child nothing of it may be used, nor
    /// dropped.
    pub(crate) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// How many devices there are, those included that NCCL has made.
    pub(crate) fn device_count(&self) -> usize {
        self.devices().len()
    }

    /// The device of this number.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn device(&self, index: c_int) -> Result<Arc<Device>, Error> {
        let devices = self.devices();
        let found = usize::try_from(index).ok().and_then(|index| devices.get(index));
        found.cloned().ok_or(Error::Device { index, count: devices.len() })
    }

    /// Makes a device of several that the configuration asks for, whose rails it has; its number. They stay, and may
    /// be a part of others as well.
    ///
    /// # Errors
    /// There is no such device, they do not go together, or there are too many.
    pub(crate) fn combine(&self, members: &[c_int]) -> Result<usize, Error> {
        let mut devices = self.devices();
        let member = |index: &c_int| {
            let known = usize::try_from(*index).ok().filter(|index| *index < self.physical);
            let known = known.ok_or(Error::NotPhysical { index: *index, count: self.physical })?;
            Ok::<_, Error>(devices[known].clone())
        };
        let members = members.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        let index = devices.len();
        if index >= MAX_DEVICES {
            return Err(Error::TooManyDevices { most: MAX_DEVICES });
        }
        let members: Vec<&Device> = members.iter().map(|member| &**member).collect();
        let device = Device::combined(index, &members)?;
        device.announce();
        devices.push(Arc::new(device));
        Ok(index)
    }

    fn devices(&self) -> MutexGuard<'_, Vec<Arc<Device>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device in use; its engine is started if it has no communicator yet.
    ///
    /// # Errors
    /// The engine cannot be started.
    pub(crate) fn open(&self, device: &Device) -> Result<Arc<DeviceContext>, Error> {
        let mut current = device.context.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = current.upgrade() {
            return Ok(context);
        }
        let context = Arc::new(DeviceContext::open(device, &self.config)?);
        *current = Arc::downgrade(&context);
        Ok(context)
    }
}

/// Where NCCL's log and profiler are; `init` of every version comes by here.
pub(crate) fn introduce(logger: Option<crate::log::Logger>, profiler: Option<profiler::Callback>) {
    crate::log::use_logger(logger);
    profiler::use_callback(profiler);
}
