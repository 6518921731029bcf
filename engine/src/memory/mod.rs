//! Application memory: ownership, keys, checks and access.

mod crc;
mod mapping;
mod raw;
mod region;
mod remote;
mod table;
mod words;

pub use region::{MemoryError, MemoryRegion, PageSize, RegisterError, RegisterVecError};
pub use remote::{MalformedKey, REMOTE_REGION_LEN, RemoteRegion};

pub(crate) use crc::payload_crc;
pub(crate) use mapping::Mapping;
pub(crate) use raw::{
    Checked, append, append_checked, append_from, check, copy_from, copy_piece, place, place_value,
    plaintext,
};
pub(crate) use table::{RegionCache, RegionTable};
