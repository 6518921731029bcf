//! The plugin after `init`: its configuration, its devices and its connection attempts.
//!
//! From v11 on, NCCL initialises once per communicator and passes a context to each call; before,
//! once per process. All contexts that exist at the same time share one [`Plugin`].

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
use crate::traffic_class::TrafficClass;

/// Maximum number of devices including combined ones, as in NCCL's own InfiniBand plugin
/// (`MAX_IB_VDEVS`).
const MAX_DEVICES: usize = 256;

/// The plugin; see the module.
pub(crate) struct Plugin {
    pub(crate) config: Config,
    /// The devices of the configuration.
    physical: usize,
    /// The devices of the configuration, then those that NCCL has combined. None is removed, so
    /// numbers are permanent.
    devices: Mutex<Vec<Arc<Device>>>,
    pub(crate) attempts: Attempts,
    origin: Origin,
}

/// A context of NCCL's: the plugin, and the configuration of a communicator.
pub(crate) struct NcclContext {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) traffic_class: TrafficClass,
}

struct Registry {
    /// The process that owns the plugins, or `None` if there are none yet.
    origin: Option<Origin>,
    /// The plugin of calls without a context.
    current: Weak<Plugin>,
    /// The plugin that the existing contexts share.
    contexts: Weak<Plugin>,
    /// The plugin of versions without `finalize`. It owns no thread and no socket.
    process: Option<Arc<Plugin>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry::empty(None));

/// Implements `init` up to v10, which reads the configuration again.
///
/// # Errors
/// If the configuration is invalid or there is no interface.
pub(crate) fn init_process() -> Result<(), Error> {
    let plugin = Arc::new(Plugin::new()?);
    let mut registry = registry();
    registry.current = Arc::downgrade(&plugin);
    let before = registry.process.replace(plugin);
    drop(registry);
    drop(before);
    Ok(())
}

/// Implements `init` from v11 on, which creates a context. The first existing context reads the
/// configuration.
///
/// # Errors
/// See [`init_process`].
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

/// Returns the plugin that was initialised last.
///
/// # Errors
/// If none is initialised.
pub(crate) fn current() -> Result<Arc<Plugin>, Error> {
    let registry = registry();
    let plugin = registry.current.upgrade().or_else(|| registry.process.clone());
    plugin.ok_or(Error::NotInitialised)
}

/// Drops abandoned connection attempts. Called when a communicator is closed.
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

/// Returns the registry of this process. A forked child starts with an empty one and leaves its
/// parent's objects alone.
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

    /// Returns whether this process initialised the plugin. A forked child may neither use nor drop
    /// it.
    pub(crate) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// Returns the number of devices, including combined ones.
    pub(crate) fn device_count(&self) -> usize {
        self.devices().len()
    }

    /// Returns the device with this number.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn device(&self, index: c_int) -> Result<Arc<Device>, Error> {
        let devices = self.devices();
        let found = usize::try_from(index).ok().and_then(|index| devices.get(index));
        found.cloned().ok_or(Error::Device { index, count: devices.len() })
    }

    /// Combines several devices of the configuration to one with all their rails, and returns its
    /// number. The members remain and may be combined otherwise, too.
    ///
    /// # Errors
    /// If a member does not exist, the members do not fit together, or there are too many devices.
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

    /// Opens a device. Starts its engine if it has no communicator yet.
    ///
    /// # Errors
    /// If the engine cannot be started.
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

/// Sets NCCL's logger and profiler. `init` of every version calls this.
pub(crate) fn introduce(logger: Option<crate::log::Logger>, profiler: Option<profiler::Callback>) {
    crate::log::use_logger(logger);
    profiler::use_callback(profiler);
}
