//! The required behaviour of a plugin and its edge cases. Each check runs in its own process.

mod arguments;
mod check;
mod closing;
mod configuration;
mod failures;
mod forked;
mod groups;
mod loading;
mod messages;
mod observers;
mod rails;
mod set_up;
mod traffic_class;

pub(crate) use self::check::{Check, Stage};

/// All checks, in the order in which they run.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    let groups: [&[Check]; 12] = [
        loading::CHECKS,
        configuration::CHECKS,
        set_up::CHECKS,
        arguments::CHECKS,
        messages::CHECKS,
        groups::CHECKS,
        rails::CHECKS,
        closing::CHECKS,
        failures::CHECKS,
        forked::CHECKS,
        observers::CHECKS,
        traffic_class::CHECKS,
    ];
    groups.into_iter().flatten()
}
