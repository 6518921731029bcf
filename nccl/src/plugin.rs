//! The plugin after `init`: what is configured, which devices there are, who is connecting.
//!
//! From v11 on NCCL initialises once per communicator and hands a context around, before it once per
//! process. All contexts that live at the same time share one [`Plugin`].

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::config::Config;
use crate::connect::Attempts;
use crate::device::{self, Device};
use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::profiler;

/// See the module.
pub(crate) struct Plugin {
    pub(crate) config: Config,
    pub(crate) devices: Vec<Device>,
    /// By device: present while it has communicators.
    contexts: Vec<Mutex<Weak<DeviceContext>>>,
    pub(crate) attempts: Attempts,
}

struct Registry {
    /// The one whose devices calls without a context mean.
    current: Weak<Plugin>,
    /// The one that the contexts in use share.
    contexts: Weak<Plugin>,
    /// That of the versions without `finalize`. It owns no thread and no socket.
    process: Option<Arc<Plugin>>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { current: Weak::new(), contexts: Weak::new(), process: None });

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

fn registry() -> std::sync::MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plugin {
    fn new() -> Result<Self, Error> {
        let config = Config::read()?;
        let devices = device::find(&config)?;
        for device in &devices {
            tracing::info!(
                "device {} {:?}, {} Mbit/s, guid {:#x}, {}",
                device.index,
                device.name,
                device.speed,
                device.guid,
                device.pci_path.map_or("no PCI device".into(), |path| path.to_string_lossy()),
            );
        }
        if !config.faults.is_none() {
            tracing::warn!("faults are injected below the protocol: {:?}", config.faults);
        }
        let contexts = devices.iter().map(|_| Mutex::default()).collect();
        Ok(Plugin { config, devices, contexts, attempts: Attempts::default() })
    }

    /// The device of this number.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn device(&self, index: c_int) -> Result<&Device, Error> {
        let found = usize::try_from(index).ok().and_then(|index| self.devices.get(index));
        found.ok_or(Error::Device { index, count: self.devices.len() })
    }

    /// A device in use; its engine is started if it has no communicator yet.
    ///
    /// # Errors
    /// The engine cannot be started.
    pub(crate) fn open(&self, device: &Device) -> Result<Arc<DeviceContext>, Error> {
        let mut current =
            self.contexts[device.index].lock().unwrap_or_else(PoisonError::into_inner);
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
