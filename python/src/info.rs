//! The names that settings take, and counters.

use braid::{DatapathKind, EngineCounters, LossRecovery, QpCounters};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Puts the named fields of a struct into a dict.
macro_rules! fields {
    ($py:expr, $from:expr, $($name:ident),+ $(,)?) => {{
        let values = PyDict::new($py);
        $(values.set_item(stringify!($name), $from.$name)?;)+
        Ok(values)
    }};
}

pub(crate) fn engine_counters<'py>(
    py: Python<'py>,
    counters: &EngineCounters,
) -> PyResult<Bound<'py, PyDict>> {
    fields! {
        py, counters, datagrams_sent, batches_sent, link_full, send_errors, datagrams_received,
        malformed, version, header_check, payload_check, unknown_qp, wrong_token, wrong_source,
        forged, replayed, unprotected, duplicates, refused, marks_received, setup_refused,
        setup_busy, overflowed, unreachable, injected, paths_blocked, ways_learnt, wrong_q_key,
    }
}

pub(crate) fn qp_counters<'py>(
    py: Python<'py>,
    counters: &QpCounters,
) -> PyResult<Bound<'py, PyDict>> {
    fields! {
        py, counters, segments_sent, retransmitted, lost, spurious, ecn_marks, marks_received,
        cnps_sent, cnps_received, bytes_sent,
        segments_received, bytes_received, duplicates, out_of_order, refused, acks_sent,
        acks_received, rnr_naks, timeouts,
    }
}

/// The names that settings take, and the version.
#[pyfunction]
pub(crate) fn offers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let values = PyDict::new(py);
    let names = |names: Vec<String>| names;
    values.set_item("version", env!("CARGO_PKG_VERSION"))?;
    let datapaths = DatapathKind::all().map(|kind| (kind.name(), kind.summary()));
    values.set_item("datapaths", datapaths.collect::<Vec<_>>())?;
    let policies = braid::paths::policy_names().map(str::to_owned).collect();
    values.set_item("lb", names(policies))?;
    let rails = braid::paths::rail_scheme_names().map(str::to_owned).collect();
    values.set_item("rail_policy", names(rails))?;
    let controllers = braid::congestion::controller_names().map(str::to_owned).collect();
    values.set_item("cc", names(controllers))?;
    let recoveries = LossRecovery::all().map(|recovery| recovery.name().to_owned()).collect();
    values.set_item("recovery", names(recoveries))?;
    Ok(values)
}
