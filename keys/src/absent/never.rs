//! A type without values, and the error of functions that are not there.

/// A value that does not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Never {}

/// The error of all fallible functions.
#[derive(Debug)]
pub(crate) struct Absent;
