//! Routes to a peer, and address handles for UD.

use std::ptr::NonNull;

use crate::abi::*;
use crate::error::at_most;
use crate::{Gid, Pd, VerbsError};

/// The largest flow label: 20 bits.
const MAX_FLOW_LABEL: u32 = (1 << 20) - 1;

/// A route to a peer over RoCE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The local port.
    pub port: u8,
    /// The peer's GID.
    pub dgid: Gid,
    /// The source: the entry of the local port's GID table, of the same type as the peer's.
    pub sgid_index: u32,
    /// Number of routers on the route, plus 1: the TTL.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label, 20 bits. Many NICs derive the UDP source port from it; 0 leaves the choice
    /// to them. Soft-RoCE derives the port from the queue pair number instead.
    pub flow_label: u32,
}

impl Route {
    pub(crate) fn to_raw(&self) -> Result<ibv_ah_attr, VerbsError> {
        if self.dgid.is_empty() {
            return Err(VerbsError::NoDestination { gid: self.dgid });
        }
        Ok(ibv_ah_attr {
            grh: ibv_global_route {
                dgid: ibv_gid { raw: self.dgid.0 },
                flow_label: at_most("flow label", self.flow_label, MAX_FLOW_LABEL)?,
                sgid_index: at_most("source GID index", self.sgid_index, u8::MAX.into())? as u8,
                hop_limit: self.hop_limit,
                traffic_class: self.traffic_class,
            },
            dlid: 0,
            sl: 0,
            src_path_bits: 0,
            static_rate: 0,
            is_global: 1,
            port_num: self.port,
        })
    }
}

/// An address handle: a route that the device has resolved.
#[derive(Debug)]
pub struct Ah {
    pd: Pd,
    raw: NonNull<ibv_ah>,
}

// SAFETY: libibverbs may be called from any thread; the pointer stays valid until `drop`.
unsafe impl Send for Ah {}
// SAFETY: as above.
unsafe impl Sync for Ah {}

impl Pd {
    /// Creates an address handle for UD messages along `route`.
    ///
    /// # Errors
    /// [`VerbsError::OutOfRange`], [`VerbsError::NoDestination`], [`VerbsError::Refused`].
    pub fn create_ah(&self, route: &Route) -> Result<Ah, VerbsError> {
        let mut attr = route.to_raw()?;
        let context = self.context();
        // SAFETY: the domain is alive, and `attr` is read only.
        let raw = unsafe { (context.symbols().ibv_create_ah)(self.raw(), &raw mut attr) };
        let raw = context.made("ibv_create_ah", || format!("{route:?}"), raw)?;
        Ok(Ah { pd: self.clone(), raw })
    }
}

impl Ah {
    pub(crate) fn raw(&self) -> *mut ibv_ah {
        self.raw.as_ptr()
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: the handle came from `ibv_create_ah` and is destroyed once.
        let code = unsafe { (self.pd.context().symbols().ibv_destroy_ah)(self.raw()) };
        self.pd.context().unmade("ibv_destroy_ah", code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn a_route_is_written_as_it_is() {
        let route = Route { sgid_index: 255, flow_label: MAX_FLOW_LABEL, ..fake::route() };
        let raw = route.to_raw().expect("in range");
        // SAFETY: all bytes of the union are set.
        assert_eq!(unsafe { raw.grh.dgid.raw }, route.dgid.0);
        assert_eq!((raw.grh.sgid_index, raw.grh.flow_label), (255, 0xf_ffff));
        assert_eq!((raw.is_global, raw.port_num, raw.grh.hop_limit), (1, 1, 64));
    }

    #[test]
    fn values_out_of_range_are_named() {
        let text = |route: Route| route.to_raw().err().expect("refused").to_string();
        assert_eq!(
            text(Route { sgid_index: 256, ..fake::route() }),
            "source GID index 256 is out of range: at most 255"
        );
        assert_eq!(
            text(Route { flow_label: 1 << 20, ..fake::route() }),
            "flow label 1048576 is out of range: at most 1048575"
        );
        assert!(text(Route { dgid: Gid([0; 16]), ..fake::route() }).contains("not a destination"));
    }
}
