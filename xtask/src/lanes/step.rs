//! A step of `cargo xtask test` or `cargo xtask nightly`.

/// A check: the name, which its log has too, and the arguments to cargo that run the step alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) cargo: &'static [&'static str],
    /// The step of another lane that has to pass first.
    pub(crate) after: Option<&'static str>,
    /// Whether the step is a part of `cargo xtask nightly`.
    pub(crate) is_nightly: bool,
}

impl Step {
    /// Creates a step that need not wait for another one.
    pub(crate) const fn new(name: &'static str, cargo: &'static [&'static str]) -> Self {
        Self { name, cargo, after: None, is_nightly: false }
    }

    /// Creates a part of `cargo xtask nightly`.
    pub(crate) const fn nightly(name: &'static str, cargo: &'static [&'static str]) -> Self {
        Self { is_nightly: true, ..Self::new(name, cargo) }
    }

    /// Makes the step wait for `step` of another lane.
    pub(crate) const fn after(mut self, step: &'static str) -> Self {
        self.after = Some(step);
        self
    }
}
