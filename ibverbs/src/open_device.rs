//! Open devices: the state that the objects of a context share.

use std::sync::{Arc, Mutex, PoisonError};

use braid::Security;

use crate::async_events::AsyncEvents;
use crate::connect::control;
use crate::device::Device;
use crate::errno::Errno;
use crate::process_exit;
use crate::registry::Registry;
use crate::running::Running;
use crate::settings::Settings;

/// A device that a program has opened. The first object that needs the engine starts it.
pub(crate) struct OpenDevice {
    pub(crate) device: &'static Device,
    pub(crate) events: Arc<AsyncEvents>,
    settings: Settings,
    registry: Mutex<Option<Arc<Registry>>>,
}

impl OpenDevice {
    pub(crate) fn new(device: &'static Device, settings: Settings) -> Result<Self, Errno> {
        let events = Arc::new(AsyncEvents::new()?);
        Ok(OpenDevice { device, events, settings, registry: Mutex::default() })
    }

    /// The settings that it was opened with.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The keys of its connections.
    pub(crate) fn security(&self) -> Option<Security> {
        self.settings.engine.security.clone()
    }

    /// The registry of its engine, which this starts if it does not run.
    pub(crate) fn registry(&self) -> Result<Arc<Registry>, Errno> {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(registry) = &*registry {
            return Ok(registry.clone());
        }
        let (settings, events) = (self.settings.clone(), self.events.clone());
        let started = control::start(Running::start(self.device, settings, events)?)?;
        process_exit::register(&started.running);
        Ok(registry.insert(started).clone())
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let registry = self.registry.get_mut().unwrap_or_else(PoisonError::into_inner);
        registry.take().into_iter().for_each(Registry::release);
    }
}
