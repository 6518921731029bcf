//! The page of a build without metrics, which nobody can ask for.

use super::engines::ServedEngines;

/// Renders nothing.
pub(super) fn page(_: &ServedEngines) -> String {
    String::new()
}
