//! The GID table of a port.

use std::fs;
use std::mem::MaybeUninit;
use std::net::IpAddr;

use crate::abi::ibv_gid;
use crate::error::check;
use crate::{Context, Gid, GidType, VerbsError};

impl Context {
    /// Reads an entry of a port's GID table.
    ///
    /// # Errors
    /// [`VerbsError::NoSuchPort`], [`VerbsError::GidOutOfRange`], [`VerbsError::EmptyGid`],
    /// [`VerbsError::Refused`].
    pub fn gid(&self, port: u8, index: u32) -> Result<Gid, VerbsError> {
        let device = || self.name().to_owned();
        let count = self.port(port)?.gid_count;
        if index >= count {
            return Err(VerbsError::GidOutOfRange { device: device(), port, index, count });
        }
        let gid = self.query_gid(port, index)?;
        match gid.is_empty() {
            true => Err(VerbsError::EmptyGid { device: device(), port, index }),
            false => Ok(gid),
        }
    }

    /// Returns the type of an entry of a port's GID table, from the kernel.
    ///
    /// # Errors
    /// The errors of [`Context::gid`], and [`VerbsError::GidType`].
    pub fn gid_type(&self, port: u8, index: u32) -> Result<GidType, VerbsError> {
        self.gid(port, index)?;
        let is_ethernet = self.port(port)?.is_ethernet;
        self.read_gid_type(port, index, is_ethernet)
    }

    /// Finds the entry of a port's GID table whose RoCE v2 packets have this source address.
    ///
    /// # Errors
    /// [`VerbsError::NoSuchPort`], [`VerbsError::GidType`], [`VerbsError::Refused`].
    pub fn gid_for_ip(&self, port: u8, ip: IpAddr) -> Result<Option<u32>, VerbsError> {
        let attributes = self.port(port)?;
        for index in 0..attributes.gid_count {
            // The same address has an entry for each type.
            if self.query_gid(port, index)? == Gid::from(ip)
                && self.read_gid_type(port, index, attributes.is_ethernet)? == GidType::RoceV2
            {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn query_gid(&self, port: u8, index: u32) -> Result<Gid, VerbsError> {
        let mut gid = MaybeUninit::<ibv_gid>::zeroed();
        let entry = i32::try_from(index).expect("below the length of the table, which is an i32");
        // SAFETY: the context is open, and `gid` takes the 16 bytes.
        let code =
            unsafe { (self.symbols().ibv_query_gid)(self.raw(), port, entry, gid.as_mut_ptr()) };
        check(code)
            .map_err(|e| self.refused("ibv_query_gid", format!("port {port} entry {index}"), e))?;
        // SAFETY: zeros, or values that libibverbs wrote over them.
        Ok(Gid(unsafe { gid.assume_init().raw }))
    }

    fn read_gid_type(
        &self,
        port: u8,
        index: u32,
        is_ethernet: bool,
    ) -> Result<GidType, VerbsError> {
        let file = self.folder().join(format!("ports/{port}/gid_attrs/types/{index}"));
        fs::read_to_string(file).and_then(|text| gid_type(&text, is_ethernet)).map_err(|source| {
            VerbsError::GidType { device: self.name().into(), port, index, source }
        })
    }
}

/// Parses the kernel's name of a type, which is the same for both types older than RoCE v2.
fn gid_type(text: &str, is_ethernet: bool) -> std::io::Result<GidType> {
    match text.trim_end() {
        "RoCE v2" => Ok(GidType::RoceV2),
        "IB/RoCE v1" if is_ethernet => Ok(GidType::RoceV1),
        "IB/RoCE v1" => Ok(GidType::Ib),
        other => Err(std::io::Error::other(format!("`{other}` is unknown"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_kernels_words_for_types() {
        for (text, is_ethernet, expected) in [
            ("RoCE v2\n", true, GidType::RoceV2),
            ("IB/RoCE v1\n", true, GidType::RoceV1),
            ("IB/RoCE v1\n", false, GidType::Ib),
        ] {
            assert_eq!(gid_type(text, is_ethernet).expect("known"), expected);
        }
        assert!(gid_type("RoCE v3\n", true).expect_err("unknown").to_string().contains("RoCE v3"));
    }

    #[test]
    fn missing_and_empty_entries_are_distinguished() {
        let fake = fake::Device::new();
        let context = fake.open();
        assert_eq!(context.gid(1, 1).expect("in use").ip(), ip("10.0.0.1"));
        let text = context.gid(1, 4).expect_err("four entries").to_string();
        assert_eq!(text, "fake0 port 1 has no GID 4: its table has 4 entries, from 0");
        let text = context.gid(1, 3).expect_err("unused").to_string();
        assert!(text.starts_with("fake0 port 1: GID 3 is empty; give its network"), "{text}");
        assert!(matches!(context.gid(2, 0), Err(VerbsError::NoSuchPort { port: 2, count: 1, .. })));
        assert!(matches!(context.gid(1, u32::MAX), Err(VerbsError::GidOutOfRange { .. })));
    }

    #[test]
    fn an_address_is_found_as_roce_v2() {
        let fake = fake::Device::new();
        let context = fake.open();
        // Entry 1 has the same address, but is of RoCE v1.
        assert_eq!(context.gid_type(1, 1).expect("has a type"), GidType::RoceV1);
        assert_eq!(context.gid_for_ip(1, ip("10.0.0.1")).expect("readable"), Some(2));
        assert_eq!(context.gid_for_ip(1, ip("10.0.0.2")).expect("readable"), None);
    }

    #[test]
    fn a_missing_gid_type_is_an_error() {
        let fake = fake::Device::new().without_sysfs();
        let text = fake.open().gid_type(1, 0).expect_err("no such file").to_string();
        assert!(text.starts_with("cannot read the type of GID 0 of fake0 port 1: "), "{text}");
    }
}
