//! Two machines and the two links between them.

use std::os::unix::net::UnixStream;
use std::path::Path;

use super::bridge::Bridge;
use super::image::Image;
use super::machine::{Accel, Machine, Plan};
use crate::Failure;

/// Machine a's address on link 0.
pub(super) const A: &str = "10.77.0.1";
/// Machine b's address on link 0.
pub(super) const B: &str = "10.77.0.2";
/// Machine a's address on link 1.
pub(super) const A1: &str = "10.77.1.1";
/// Machine b's address on link 1.
pub(super) const B1: &str = "10.77.1.2";
/// Machine a's address of IPv6 on link 0.
pub(super) const A_V6: &str = "fd77::1";
/// Machine b's address of IPv6 on link 0.
pub(super) const B_V6: &str = "fd77::2";
/// Machine a's address of IPv6 on link 1.
pub(super) const A1_V6: &str = "fd77:0:0:1::1";
/// Machine b's address of IPv6 on link 1.
pub(super) const B1_V6: &str = "fd77:0:0:1::2";

/// Both machines, up.
///
/// Link 0 is a socket between the QEMU processes: it keeps the order, loses nothing, and blocks a
/// machine that sends faster than the other receives. Its devices offer no offloads. Link 1 is a
/// [`Bridge`].
pub(super) struct Machines {
    pub(super) a: Machine,
    pub(super) b: Machine,
    pub(super) bridge: Bridge,
}

impl Machines {
    /// Boots them side by side. Logs go into a folder: `NAME.log` holds what was asked of a machine
    /// and what it answered, `NAME-console.log` what its kernel had to say.
    pub(super) fn boot(image: &Image, accel: Accel, logs: &Path) -> Result<Self, Failure> {
        let (cable_a, cable_b) = UnixStream::pair()
            .map_err(|e| Failure::new(format!("cannot make a link between the machines: {e}")))?;
        let bridge = Bridge::new()?;
        let plan = |name, host, cable: UnixStream| {
            let (cable, bridge, logs) = (cable.into(), &bridge, logs.to_owned());
            Plan { name, host, image, accel, cable, bridge, logs }
        };
        let (a, a_up) = Machine::start(plan("a", 1, cable_a))?;
        let (b, b_up) = Machine::start(plan("b", 2, cable_b))?;
        a.wait(&a_up)?;
        b.wait(&b_up)?;
        Ok(Self { a, b, bridge })
    }

    pub(super) fn power_off(self) {
        self.a.power_off();
        self.b.power_off();
    }
}
