//! The ports of a device.

use std::mem::{MaybeUninit, offset_of, size_of};

use crate::abi::*;
use crate::error::check;
use crate::{Context, VerbsError};

/// The present state and limits of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PortAttributes {
    /// The state of the port.
    pub state: PortState,
    /// The largest path MTU of the port in bytes.
    pub max_mtu: u32,
    /// The largest path MTU that the network interface allows now, in bytes.
    pub active_mtu: u32,
    /// Number of entries of the GID table, including empty ones.
    pub gid_count: u32,
    /// Maximum bytes of a message.
    pub max_message: u32,
    /// Whether the link is Ethernet (RoCE) rather than InfiniBand.
    pub is_ethernet: bool,
}

/// The state of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PortState {
    /// No link, or its network interface is down.
    Down,
    /// InfiniBand: waits for its subnet manager.
    Init,
    /// InfiniBand: may send management packets only.
    Armed,
    /// The port carries traffic.
    Active,
    /// InfiniBand: the link is being repaired.
    ActiveDefer,
    /// An unknown state, with its number.
    Other(u32),
}

impl Context {
    /// Queries the state and the limits of a port. Ports are numbered from 1.
    ///
    /// # Errors
    /// [`VerbsError::NoSuchPort`], [`VerbsError::Refused`].
    pub fn port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        let count = self.query_device()?.phys_port_cnt;
        if port == 0 || port > count {
            return Err(VerbsError::NoSuchPort { device: self.name().into(), port, count });
        }
        Ok(PortAttributes::from(&self.query_port(port)?))
    }

    fn query_port(&self, port: u8) -> Result<ibv_port_attr, VerbsError> {
        let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
        let code = match self.extended_query_port() {
            // SAFETY: the context is open, and the function writes at most the given length.
            Some(query) => unsafe {
                query(self.raw(), port, attr.as_mut_ptr(), size_of::<ibv_port_attr>())
            },
            // SAFETY: the older struct is the first part of ours.
            None => unsafe {
                (self.symbols().ibv_query_port)(self.raw(), port, attr.as_mut_ptr().cast())
            },
        };
        check(code).map_err(|e| self.refused("ibv_query_port", format!("port {port}"), e))?;
        // SAFETY: zeros, or values that libibverbs wrote over them: all fields are integers.
        Ok(unsafe { attr.assume_init() })
    }

    /// Returns the function of the extended context, like `verbs_get_ctx_op` in `verbs.h`: the
    /// context must be marked as extended, and be long enough.
    fn extended_query_port(&self) -> Option<QueryPort> {
        let context = self.raw();
        // SAFETY: the context is open.
        if unsafe { (*context).abi_compat }.addr() != usize::MAX {
            return None;
        }
        // SAFETY: all ones mark the context as the end of a `verbs_context`, whose `sz` precedes
        // it.
        let extended =
            unsafe { context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>() };
        // SAFETY: as above. `sz` is read through a pointer, because the fields before it may not
        // exist.
        let size = unsafe { (&raw const (*extended).sz).read() };
        if size < size_of::<verbs_context>() - offset_of!(verbs_context, query_port) {
            return None;
        }
        // SAFETY: the context is long enough to hold the function pointer, which may be null.
        unsafe { (&raw const (*extended).query_port).read() }
    }
}

impl From<&ibv_port_attr> for PortAttributes {
    fn from(attr: &ibv_port_attr) -> Self {
        PortAttributes {
            state: PortState::from_raw(attr.state),
            max_mtu: mtu_bytes(attr.max_mtu),
            active_mtu: mtu_bytes(attr.active_mtu),
            gid_count: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
            max_message: attr.max_msg_sz,
            is_ethernet: u32::from(attr.link_layer) == IBV_LINK_LAYER_ETHERNET,
        }
    }
}

impl PortState {
    fn from_raw(state: u32) -> Self {
        match state {
            // No user distinguishes a port in NOP from one that is down.
            IBV_PORT_NOP | IBV_PORT_DOWN => PortState::Down,
            IBV_PORT_INIT => PortState::Init,
            IBV_PORT_ARMED => PortState::Armed,
            IBV_PORT_ACTIVE => PortState::Active,
            IBV_PORT_ACTIVE_DEFER => PortState::ActiveDefer,
            other => PortState::Other(other),
        }
    }
}

/// Converts an `enum ibv_mtu` to bytes; 0 if it is unknown.
fn mtu_bytes(mtu: u32) -> u32 {
    match mtu {
        IBV_MTU_256..=IBV_MTU_4096 => 128 << mtu,
        _ => 0,
    }
}

/// Converts bytes to `enum ibv_mtu`.
pub(crate) fn mtu_from_bytes(bytes: u32) -> Result<u32, VerbsError> {
    (IBV_MTU_256..=IBV_MTU_4096)
        .find(|&mtu| mtu_bytes(mtu) == bytes)
        .ok_or(VerbsError::PathMtu { bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn mtus_are_bytes() {
        let all = [256, 512, 1024, 2048, 4096];
        for bytes in all {
            assert_eq!(mtu_bytes(mtu_from_bytes(bytes).expect("one of the five")), bytes);
        }
        for bytes in [0, 128, 1500, 8192, u32::MAX] {
            let text = mtu_from_bytes(bytes).expect_err("none of the five").to_string();
            assert!(text.contains(&format!("path MTU {bytes} is not one of 256")), "{text}");
        }
        assert_eq!((mtu_bytes(0), mtu_bytes(6), mtu_bytes(u32::MAX)), (0, 0, 0));
    }

    #[test]
    fn ports_are_numbered_from_one() {
        let fake = fake::Device::new();
        let context = fake.open();
        assert_eq!(context.port(1).expect("it has one").state, PortState::Active);
        for port in [0, 2] {
            let text = context.port(port).expect_err("it has one").to_string();
            assert_eq!(text, format!("fake0 has no port {port}: its ports are 1 to 1"));
        }
    }

    #[test]
    fn both_query_functions_are_used() {
        let fake = fake::Device::new();
        let port = fake.open().port(1).expect("port 1");
        assert_eq!((port.max_mtu, port.active_mtu, port.is_ethernet), (4096, 1024, true));
        assert_eq!(fake.took("query_port"), 1);
        // A context that is too short for the extended call, and one that is not extended.
        for older in [fake::Extension::Short, fake::Extension::None] {
            let fake = fake::Device::new().extension(older);
            let port = fake.open().port(1).expect("port 1");
            assert_eq!((port.active_mtu, port.gid_count), (1024, 4));
            assert_eq!((fake.took("query_port"), fake.took("ibv_query_port")), (0, 1));
        }
    }
}
