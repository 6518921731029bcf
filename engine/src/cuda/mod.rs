//! Memory of GPUs, which the engine reaches through pinned memory of the host.
//!
//! Work requests and peers name device memory by its address in the GPU, and the region table maps
//! that to a [`address`] that no memory of the host has. Three places deal with such addresses, and
//! everything else sees memory of the host:
//!
//! - A [`lane`] copies what has arrived to the device, and hands it to the protocol core only when
//!   the copy has ended. So whatever follows from it, an acknowledgement or a completion, does too.
//! - A lane copies the messages of work requests from the device before the core gets them, and the
//!   memory of a READ before its response leaves. Segments leave from the copy.
//! - A [`context`] carries out atomics and single copies, and waits for them.

mod address;
mod arena;
mod arrivals;
mod context;
mod copies;
mod error;
mod lane;
mod library;
mod memory;
mod reads;
mod staging;

pub use error::{CudaError, CudaFault};
pub use library::check_cuda;

pub(crate) use address::{address, has_device, is_device};
pub(crate) use arrivals::{Deferral, TakenArrivals};
pub(crate) use context::{Context, Contexts};
pub(crate) use lane::{Lane, MessageState};
pub(crate) use memory::DeviceMemory;
pub(crate) use reads::{LANE_KEY, ReadProgress};
