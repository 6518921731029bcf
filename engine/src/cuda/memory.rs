//! Device memory of a region.

use std::sync::Arc;

use super::address::DeviceAddr;
use super::context::Context;
use super::error::{CudaError, CudaFault};
use super::library::DevicePtr;

/// The device memory of a region: its context, and whether the region owns it.
pub(crate) struct DeviceMemory {
    context: Arc<Context>,
    start: DevicePtr,
    is_owned: bool,
}

impl DeviceMemory {
    /// Memory of the application.
    pub(crate) fn of(context: Arc<Context>, start: DevicePtr) -> Self {
        DeviceMemory { context, start, is_owned: false }
    }

    /// Allocates memory, zeroed.
    pub(crate) fn allocate(context: Arc<Context>, len: usize) -> Result<Self, CudaError> {
        let start = context.allocate(len)?;
        let memory = DeviceMemory { context, start, is_owned: true };
        let zeros = vec![0; len.min(1 << 20)];
        for offset in (0..len).step_by(zeros.len().max(1)) {
            memory.write(offset, &zeros[..zeros.len().min(len - offset)])?;
        }
        Ok(memory)
    }

    /// The number of the GPU. `None`: the driver does not know it any more.
    pub(crate) fn gpu(&self) -> Option<u32> {
        self.context.gpu_of(self.start)
    }

    /// See [`Context::wait_for_stream`].
    ///
    /// # Safety
    /// The handle must be that of a stream which exists.
    pub(crate) unsafe fn wait_for_stream(&self, stream: u64) -> Result<(), CudaFault> {
        // SAFETY: the caller vouches for the stream.
        unsafe { self.context.wait_for_stream(stream) }
    }

    /// The address in the GPU.
    pub(crate) fn start(&self) -> DevicePtr {
        self.start
    }

    /// The address in the region table.
    pub(crate) fn table_addr(&self) -> u64 {
        DeviceAddr { context: self.context.index, addr: self.start }.to_table()
    }

    /// Copies bytes to the memory, and waits. The caller has checked the bounds.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), CudaFault> {
        self.context.write(self.start + offset as u64, bytes)
    }

    /// Copies bytes from the memory, and waits. The caller has checked the bounds.
    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaFault> {
        self.context.read(self.start + offset as u64, out)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.is_owned {
            self.context.free(self.start);
        }
    }
}
