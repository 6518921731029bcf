//! A congestion control with its parameters, ready to make controllers.

use std::fmt;
use std::sync::Arc;

use crate::{Controller, ControllerFactory, CubicConfig, Subflow};

/// Names a congestion control and its parameters: one of the table, by its name (`"dcqcn:line=100G".parse()`) or from its
/// parameters (`DcqcnConfig::new(..).into()`), or one from elsewhere, by its factory.
///
/// The factory is shared by reference count. A `&'static` one would make this type `Copy`, but parameters are known at run
/// time only, each queue pair can have its own, and every one of them would have to be leaked.
///
/// ```
/// use braid_cc::CcConfig;
///
/// let typed: CcConfig = "fixed:512K".parse().unwrap();
/// assert_eq!(typed.to_string(), "fixed:524288".parse::<CcConfig>().unwrap().to_string());
/// assert!(CcConfig::default().to_string().starts_with("cubic"));
/// assert!("reno".parse::<CcConfig>().unwrap_err().to_string().contains("there is: "));
/// ```
#[derive(Clone)]
pub struct CcConfig(Arc<dyn ControllerFactory>);

impl CcConfig {
    /// What this factory makes.
    pub fn new(factory: impl ControllerFactory + 'static) -> Self {
        CcConfig(Arc::new(factory))
    }

    /// A fresh controller.
    pub fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        self.0.build(subflow)
    }
}

impl<F: ControllerFactory + 'static> From<F> for CcConfig {
    fn from(factory: F) -> Self {
        CcConfig::new(factory)
    }
}

/// CUBIC: of those here the one that neither fills a bottleneck with what it has to send again nor drives others from it.
impl Default for CcConfig {
    fn default() -> Self {
        CubicConfig::default().into()
    }
}

/// A name that leads back to it, if it is one of the table.
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

/// By their texts, which say all that decides what they make.
impl PartialEq for CcConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.to_string() == other.to_string()
    }
}

impl Eq for CcConfig {}
