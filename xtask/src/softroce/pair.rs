//! Two machines and the two links between them.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::image::Image;
use super::machine::{Accel, Machine, Plan};
use crate::Failure;

/// Machine b's address on link 0.
pub(super) const B: &str = "10.77.0.2";
/// Machine b's address on link 1.
pub(super) const B1: &str = "10.77.1.2";

/// Both machines, up.
pub(super) struct Pair {
    pub(super) a: Machine,
    pub(super) b: Machine,
}

impl Pair {
    /// Boots them side by side. Logs go into a folder: `NAME.log` holds what was asked of a machine and what it
    /// answered, `NAME-console.log` what its kernel had to say.
    pub(super) fn boot(image: &Image, accel: Accel, logs: &Path) -> Result<Self, Failure> {
        let (links_a, links_b) = links()?;
        let plan = |name, host, links| {
            let logs = logs.to_owned();
            Plan { name, host, image, accel, links, logs }
        };
        let (a, a_up) = Machine::start(plan("a", 1, links_a))?;
        let (b, b_up) = Machine::start(plan("b", 2, links_b))?;
        a.wait(&a_up)?;
        b.wait(&b_up)?;
        Ok(Self { a, b })
    }

    pub(super) fn power_off(self) {
        self.a.power_off();
        self.b.power_off();
    }
}

/// Two links: what QEMU sends into one end comes out of the other, in order and without loss.
fn links() -> Result<([OwnedFd; 2], [OwnedFd; 2]), Failure> {
    let link = || match UnixStream::pair() {
        Ok((a, b)) => Ok((OwnedFd::from(a), OwnedFd::from(b))),
        Err(e) => Err(Failure::new(format!("cannot make a link between the machines: {e}"))),
    };
    let ((a0, b0), (a1, b1)) = (link()?, link()?);
    Ok(([a0, a1], [b0, b1]))
}
