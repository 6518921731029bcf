//! Groups of ranks, and their all-to-all.

use std::ops::Range;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use braid::{
    Access, AllToAllV, Group as BraidGroup, GroupConfig, GroupError, Round as BraidRound,
    spawn_without_signals,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::access::access_of;
use crate::context::Context;
use crate::engine::Engine;
use crate::engine_shared::EngineShared;
use crate::errors::{Raise, error, error_with};
use crate::process::{Waiting, release};
use crate::region::{PinnedRegion, Region};
use crate::settings::{Settings, socket_address};
use crate::slot::{Children, Closable, Slot, lock};

struct OpenGroup {
    group: Slot<BraidGroup>,
    /// The regions that were registered with it.
    regions: Children,
}

impl Closable for OpenGroup {
    fn close(&self, py: Python<'_>) {
        self.group.close(py, |_| ());
        self.regions.close_all(py);
    }
}

impl Drop for OpenGroup {
    fn drop(&mut self) {
        Python::try_attach(|py| self.close(py));
    }
}

/// A rank's membership in a group of processes.
///
/// Joining waits until all ranks are connected. The ranks find each other through rank 0 at `root`,
/// or have the list `addresses`. All start the same rounds in the same order.
#[pyclass(frozen, extends = Context, module = "braid", weakref)]
pub(crate) struct Group {
    open: Arc<OpenGroup>,
    /// Keeps the engine open.
    _shared: Arc<EngineShared>,
}

#[pymethods]
impl Group {
    #[new]
    #[pyo3(
        signature = (engine, **settings),
        text_signature = "(engine, *, rank=None, size=None, root=None, addresses=None, job='', \
            timeout=30.0, cc='cubic')"
    )]
    fn new(
        engine: &Bound<'_, Engine>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let py = engine.py();
        let config = read_config(py, Settings::new(py, "Group", settings)?)?;
        let shared = engine.get().shared().clone();
        let braid_engine = shared.parts(py)?.engine.clone();
        let group = join(py, move || BraidGroup::join(&braid_engine, &config))?;
        let open = OpenGroup { group: Slot::new("group", group), regions: Children::default() };
        let open = Arc::new(open);
        if !shared.children.add(&open) {
            return Err(error(py, "ClosedError", "the engine is closed; create another one"));
        }
        Ok(Context::of(Group { open, _shared: shared }))
    }

    /// The rank of this process.
    #[getter]
    fn rank(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open.group.get(py)?.rank())
    }

    /// The number of ranks.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open.group.get(py)?.size())
    }

    /// Registers memory for rounds, as `Engine.register` does for queue pairs. Rounds with such
    /// regions need not register arrays again.
    #[pyo3(signature = (buffer, access=15), text_signature = "($self, buffer, access=15)")]
    fn register(&self, buffer: &Bound<'_, PyAny>, access: i64) -> PyResult<Py<Region>> {
        let py = buffer.py();
        Region::new(py, self.pin(buffer, access_of(py, access)?)?)
    }

    /// Starts a round: each rank sends a part of `send` to each rank, and receives into `recv`.
    /// Both are arrays, other buffers, or regions of `Group.register`. The counts are numbers of
    /// items of the buffers for each rank, whose parts follow each other. `None`: all ranks get the
    /// same. Until the round is over, `send` must not change.
    #[pyo3(signature = (send, recv, send_counts=None, recv_counts=None))]
    fn all_to_all(
        &self,
        send: &Bound<'_, PyAny>,
        recv: &Bound<'_, PyAny>,
        send_counts: Option<Vec<usize>>,
        recv_counts: Option<Vec<usize>>,
    ) -> PyResult<Round> {
        let py = send.py();
        let group = self.open.group.get(py)?;
        let landing = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let (send, recv) = (self.region_of(send, Access::NONE)?, self.region_of(recv, landing)?);
        let size = group.size();
        let operation = AllToAllV {
            send: send.region(py)?,
            sends: ranges(py, "send", &send, size, send_counts)?,
            recv: recv.region(py)?,
            receives: ranges(py, "recv", &recv, size, recv_counts)?,
        };
        let round = release(py, || group.start(operation)).map_err(|why| group_error(py, &why))?;
        let pinned = Mutex::new(Some([send, recv]));
        Ok(Round { round, pinned, open: self.open.clone() })
    }

    /// Leaves the group, and cancels unfinished rounds.
    fn close(&self, py: Python<'_>) {
        self.open.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.open.group.get(py) {
            Ok(group) => format!("<braid.Group: rank {} of {}>", group.rank(), group.size()),
            Err(_) => "<braid.Group, closed>".to_owned(),
        }
    }
}

impl Group {
    fn pin(&self, buffer: &Bound<'_, PyAny>, access: Access) -> PyResult<Arc<PinnedRegion>> {
        let group = self.open.group.get(buffer.py())?;
        PinnedRegion::register(buffer, group.pd(), access, &self.open.regions)
    }

    fn region_of(&self, memory: &Bound<'_, PyAny>, access: Access) -> PyResult<Arc<PinnedRegion>> {
        match memory.cast::<Region>() {
            Ok(region) => Ok(region.get().pinned().clone()),
            Err(_) => self.pin(memory, access),
        }
    }
}

/// Runs the join in a thread, so that a signal interrupts the wait for it. An interrupted join goes
/// on until its time is over, and leaves the group then.
fn join(
    py: Python<'_>,
    join: impl FnOnce() -> Result<BraidGroup, GroupError> + Send + 'static,
) -> PyResult<BraidGroup> {
    let (result, joined) = sync_channel(1);
    let thread = thread::Builder::new().name("braid-join".to_owned());
    let run = move || {
        // Nobody takes the result of an interrupted join.
        let _ = result.send(join());
    };
    spawn_without_signals(thread, run).raise(py, "GroupError")?;
    let waiting = Waiting::begin(py, None)?;
    let joined = Mutex::new(joined);
    loop {
        let slice = waiting.slice();
        match release(py, || lock(&joined).recv_timeout(slice)) {
            Ok(group) => return group.map_err(|why| group_error(py, &why)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(error(py, "GroupError", "the thread that joins has panicked"));
            }
            Err(RecvTimeoutError::Timeout) => waiting.is_over(py)?,
        };
    }
}

fn read_config(py: Python<'_>, mut settings: Settings<'_>) -> PyResult<GroupConfig> {
    let rank: Option<usize> = settings.maybe_number("rank")?;
    let size: Option<usize> = settings.maybe_number("size")?;
    let root = settings.text("root")?.map(|root| socket_address(py, &root)).transpose()?;
    let addresses = settings.texts("addresses")?;
    let mut config = match (rank, size, root, addresses.is_empty()) {
        (Some(rank), Some(size), Some(root), true) => GroupConfig::with_root(rank, size, root),
        (Some(rank), None, None, false) => {
            let all = addresses.iter().map(|text| socket_address(py, text));
            GroupConfig::listed(rank, all.collect::<PyResult<_>>()?)
        }
        (None, None, None, true) => GroupConfig::from_env().map_err(|why| group_error(py, &why))?,
        _ => {
            let text = "a group takes `rank`, `size` and `root`, or `rank` and `addresses`, or \
                 none of them for the variables of a launcher";
            return Err(PyTypeError::new_err(text));
        }
    };
    if let Some(job) = settings.text("job")? {
        config.job = job;
    }
    settings.seconds("timeout", &mut config.timeout)?;
    settings.parsed("cc", &mut config.cc)?;
    settings.finish()?;
    Ok(config)
}

/// The bytes of each rank in a region.
fn ranges(
    py: Python<'_>,
    name: &str,
    region: &PinnedRegion,
    size: usize,
    counts: Option<Vec<usize>>,
) -> PyResult<Vec<Range<usize>>> {
    let item = region.item_size();
    let items = region.len() / item;
    let refused = |text: String| Err(error(py, "GroupError", text));
    let counts = match counts {
        Some(counts) => counts,
        None if items.is_multiple_of(size) => vec![items / size; size],
        None => {
            return refused(format!(
                "`{name}` has {items} items, which {size} ranks cannot share evenly; give \
                 `{name}_counts`"
            ));
        }
    };
    let mut ranges = Vec::new();
    let mut start = 0_usize;
    for count in counts {
        let Some(end) = count.checked_mul(item).and_then(|bytes| start.checked_add(bytes)) else {
            return refused(format!("`{name}_counts` has {count}, which is too many"));
        };
        ranges.push(start..end);
        start = end;
    }
    Ok(ranges)
}

fn group_error(py: Python<'_>, why: &GroupError) -> PyErr {
    let arguments = PyDict::new(py);
    match arguments.set_item("rank", why.rank()) {
        Ok(()) => error_with(py, "GroupError", why, &arguments),
        Err(failure) => failure,
    }
}

/// A round in flight.
#[pyclass(frozen, module = "braid")]
pub(crate) struct Round {
    round: BraidRound,
    /// The memory until the round is over.
    pinned: Mutex<Option<[Arc<PinnedRegion>; 2]>>,
    open: Arc<OpenGroup>,
}

impl Round {
    fn release(&self) {
        let pinned = lock(&self.pinned).take();
        drop(pinned);
    }
}

#[pymethods]
impl Round {
    /// The number of the round, from 0.
    #[getter]
    fn number(&self) -> u64 {
        self.round.number()
    }

    /// Whether the round is over. Raises `GroupError` if the group has ended.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.open.group.get(py)?;
        let is_over = release(py, || self.round.test()).map_err(|why| group_error(py, &why))?;
        if is_over {
            self.release();
        }
        Ok(is_over)
    }

    /// Waits until the round is over. Raises `GroupError` if the group ends before, and
    /// `WaitTimeoutError` after `timeout` seconds. `None`: waits as long as it takes.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let waiting = Waiting::begin(py, timeout)?;
        loop {
            // A closed group has cancelled the round.
            self.open.group.get(py)?;
            let slice = waiting.slice();
            match release(py, || self.round.wait(slice.max(Duration::from_micros(1)))) {
                Ok(()) => {
                    self.release();
                    return Ok(());
                }
                Err(why @ GroupError::Unfinished { .. }) => {
                    if waiting.is_over(py)? {
                        return Err(error(py, "WaitTimeoutError", why));
                    }
                }
                Err(why) => return Err(group_error(py, &why)),
            }
        }
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("braid._asyncio")?.call_method1("await_round", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("<braid.Round {}>", self.round.number())
    }
}
