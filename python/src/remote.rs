//! Memory of a peer.

use std::sync::Arc;

use braid::{RemoteAddr, RemoteRegion as Described, SendWr, wr};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Raise, error};
use crate::post_options::PostOptions;
use crate::queue_pair::QpHandle;
use crate::region::LocalMemory;
use crate::work::Kept;
use crate::work_handle::WorkHandle;

/// A region of the peer of a queue pair.
#[pyclass(frozen, module = "braid")]
pub(crate) struct RemoteRegion {
    qp: Arc<QpHandle>,
    region: Described,
}

impl RemoteRegion {
    pub(crate) fn new(py: Python<'_>, qp: &Arc<QpHandle>, key: &[u8]) -> PyResult<Self> {
        let Ok(region) = Described::from_bytes(key) else {
            let (have, len) = (key.len(), braid::REMOTE_REGION_LEN);
            let text = format!("a key of {have} bytes names no region; `Region.key` has {len}");
            return Err(error(py, "SettingError", text));
        };
        Ok(RemoteRegion { qp: qp.clone(), region })
    }

    /// `len` bytes at `addr` of the peer.
    pub(crate) fn at_address(qp: &Arc<QpHandle>, (addr, rkey, len): (u64, u32, u64)) -> Self {
        RemoteRegion { qp: qp.clone(), region: Described { addr, len, rkey } }
    }

    /// The address of `len` bytes at `offset`, which have to be inside the region.
    fn at(&self, py: Python<'_>, offset: u64, len: u64) -> PyResult<RemoteAddr> {
        let size = self.region.len;
        if offset.checked_add(len).is_some_and(|end| end <= size) {
            return Ok(self.region.at(offset));
        }
        let text =
            format!("{len} bytes at offset {offset} are not inside a region of {size} bytes");
        Err(error(py, "PostError", text))
    }

    fn atomic(
        &self,
        py: Python<'_>,
        name: &'static str,
        offset: u64,
        options: Option<&Bound<'_, PyDict>>,
        request: impl FnOnce(braid::Sge, RemoteAddr) -> SendWr,
    ) -> PyResult<Py<WorkHandle>> {
        let options = PostOptions::read(py, name, &PostOptions::RESPONSE, options)?;
        let remote = self.at(py, offset, 8)?;
        let word = self.qp.word(py)?;
        let request = request(word.piece().raise(py, "PostError")?, remote);
        let kept = Kept { word: Some(word), ..Kept::default() };
        self.qp.post_send(py, request, (kept, None), options)
    }
}

#[pymethods]
impl RemoteRegion {
    /// Writes local memory to `offset` of the region. `local` is a region, a part of one, a list of
    /// them, or bytes, which are copied. With `imm`, the peer's next receive completes, too.
    #[pyo3(
        signature = (local, offset=0, **options),
        text_signature = "($self, local, offset=0, *, imm=None, solicited=False, fence=False, \
            to=None)"
    )]
    fn write(
        &self,
        local: &Bound<'_, PyAny>,
        offset: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<WorkHandle>> {
        let py = local.py();
        let options = PostOptions::read(py, "RemoteRegion.write", &PostOptions::SEND, options)?;
        let memory = LocalMemory::read(local, self.qp.max_inline())?;
        let remote = self.at(py, offset, memory.len())?;
        let LocalMemory { pieces, regions, inline } = memory;
        let request = match options.imm {
            Some(imm) => wr::write_imm(0, pieces, remote, imm),
            None => wr::write(0, pieces, remote),
        };
        let kept = Kept { regions, ..Kept::default() };
        self.qp.post_send(py, request, (kept, inline), options)
    }

    /// Reads from `offset` of the region into local memory: a region, a part of one, or a list of
    /// them.
    #[pyo3(
        signature = (local, offset=0, **options),
        text_signature = "($self, local, offset=0, *, fence=False, to=None)"
    )]
    fn read(
        &self,
        local: &Bound<'_, PyAny>,
        offset: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<WorkHandle>> {
        let py = local.py();
        let options = PostOptions::read(py, "RemoteRegion.read", &PostOptions::RESPONSE, options)?;
        let memory = LocalMemory::registered(local)?;
        let remote = self.at(py, offset, memory.len())?;
        let LocalMemory { pieces, regions, .. } = memory;
        let kept = Kept { regions, ..Kept::default() };
        self.qp.post_send(py, wr::read(0, pieces, remote), (kept, None), options)
    }

    /// Sets the 64-bit word at `offset` to `swap` if it equals `compare`. The result of the work is
    /// its earlier value.
    #[pyo3(
        signature = (offset, compare, swap, **options),
        text_signature = "($self, offset, compare, swap, *, fence=False, to=None)"
    )]
    fn compare_swap(
        &self,
        py: Python<'_>,
        offset: u64,
        compare: u64,
        swap: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<WorkHandle>> {
        let request = |piece, remote| wr::compare_swap(0, piece, remote, compare, swap);
        self.atomic(py, "RemoteRegion.compare_swap", offset, options, request)
    }

    /// Adds to the 64-bit word at `offset`, modulo 2**64. The result of the work is its earlier
    /// value.
    #[pyo3(
        signature = (offset, add, **options),
        text_signature = "($self, offset, add, *, fence=False, to=None)"
    )]
    fn fetch_add(
        &self,
        py: Python<'_>,
        offset: u64,
        add: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<WorkHandle>> {
        let request = |piece, remote| wr::fetch_add(0, piece, remote, add);
        self.atomic(py, "RemoteRegion.fetch_add", offset, options, request)
    }

    fn __len__(&self) -> usize {
        self.region.len.try_into().unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("<braid.RemoteRegion of {} bytes>", self.region.len)
    }
}
