//! The tables of NCCL's device-side communication, for its proxy: `ncclRmaPlugin_v13`, `_v14` and
//! `ncclGinPlugin_v13`.
//!
//! NCCL 2.30.4 has one layout for `ncclGinPlugin_v13` and `ncclRmaPlugin_v13`. NCCL 2.30.7 has
//! `ncclRmaPlugin_v14`, without the members' parts for the GPU, and runs its GIN proxy over it.

mod contexts;
mod groups;
mod operations;
mod tables;

pub use self::contexts::{GinConfig13, RmaConfig14};
pub use self::tables::*;
