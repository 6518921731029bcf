//! A congestion control with its parameters.

use std::fmt;
use std::sync::Arc;

use crate::{Controller, ControllerFactory, Subflow};

/// A congestion control and its parameters.
///
/// A value comes from a name in the table (`"dcqcn:line=100G".parse()`), from typed parameters
/// (`DcqcnConfig::new(..).into()`), or from the factory of another crate.
///
/// The factory is reference-counted, because each queue pair can have its own parameters, which are
/// known at run time only.
///
/// ```
/// use braid_cc::CcConfig;
///
/// let typed: CcConfig = "fixed:512K".parse().unwrap();
/// assert_eq!(typed.to_string(), "fixed:524288".parse::<CcConfig>().unwrap().to_string());
/// assert!(CcConfig::default().to_string().starts_with("cubic"));
/// assert!("reno".parse::<CcConfig>().unwrap_err().to_string().contains("available: "));
/// ```
#[derive(Clone)]
pub struct CcConfig(Arc<dyn ControllerFactory>);

impl CcConfig {
    /// Creates a configuration from a factory.
    pub fn new(factory: impl ControllerFactory + 'static) -> Self {
        CcConfig(Arc::new(factory))
    }

    /// Creates a controller.
    pub fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        self.0.build(subflow)
    }

    /// Returns whether the peer has to grant credit, see [`ControllerFactory::needs_credit`].
    pub fn needs_credit(&self) -> bool {
        self.0.needs_credit()
    }
}

impl<F: ControllerFactory + 'static> From<F> for CcConfig {
    fn from(factory: F) -> Self {
        CcConfig::new(factory)
    }
}

/// The name with its parameters. If the controller is in the table, the text parses to the same
/// configuration.
impl fmt::Display for CcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl fmt::Debug for CcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Compares the texts, which contain every parameter.
impl PartialEq for CcConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.to_string() == other.to_string()
    }
}

impl Eq for CcConfig {}
