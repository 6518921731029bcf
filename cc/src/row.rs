//! A row of the table of congestion controls.

use crate::{CcConfig, UnknownPolicy};

/// One congestion control. Its file contains everything else.
pub(crate) struct Row {
    /// The name as users type it.
    pub(crate) name: &'static str,
    /// A text with the required parameters, which is its own `Display` form.
    pub(crate) example: &'static str,
    /// Parses the text after the name and a colon, if there is one.
    pub(crate) parse: fn(Option<&str>) -> Result<CcConfig, UnknownPolicy>,
}
