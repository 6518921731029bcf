//! The settings of a queue pair.

use braid::QpOptions;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::access::access_of;
use crate::settings::Settings;

/// Reads all settings into `options`. Returns the traffic class, too.
pub(crate) fn read(
    py: Python<'_>,
    mut settings: Settings<'_>,
    mut options: QpOptions,
) -> PyResult<(QpOptions, u8)> {
    let config = &mut options.config;
    settings.number("max_send_wr", &mut config.max_send_wr)?;
    settings.number("max_recv_wr", &mut config.max_recv_wr)?;
    settings.number("max_sge", &mut options.max_sge)?;
    settings.number("max_inline", &mut options.max_inline)?;
    if let Some(access) = settings.maybe_number("access")? {
        config.access = access_of(py, access)?;
    }
    settings.number("window", &mut config.window)?;
    settings.number("max_rd_atomic", &mut config.max_rd_atomic)?;
    settings.seconds("retry_timeout", &mut config.retry_timeout)?;
    config.rnr_retry = settings.maybe_number("rnr_retry")?;
    settings.seconds("rnr_delay", &mut config.rnr_delay)?;
    settings.seconds("min_rto", &mut config.min_rto)?;
    settings.seconds("max_rto", &mut config.max_rto)?;
    settings.parsed("recovery", &mut config.recovery)?;
    settings.number("reorder_threshold", &mut config.reorder_threshold)?;
    settings.number("ask_every", &mut config.ask_every)?;
    settings.seconds("reply_hold", &mut config.reply_hold)?;
    settings.seconds("reply_wait", &mut config.reply_wait)?;
    settings.parsed("cc", &mut config.cc)?;
    let mut traffic_class = 0;
    settings.number("traffic_class", &mut traffic_class)?;
    settings.finish()?;
    Ok((options, traffic_class))
}

/// The defaults, for the test of the signature.
pub(crate) fn defaults<'py>(py: Python<'py>, options: &QpOptions) -> PyResult<Bound<'py, PyDict>> {
    let (values, config) = (PyDict::new(py), braid::QpConfig::default());
    values.set_item("max_send_wr", config.max_send_wr)?;
    values.set_item("max_recv_wr", config.max_recv_wr)?;
    values.set_item("max_sge", options.max_sge)?;
    values.set_item("max_inline", options.max_inline)?;
    values.set_item("window", config.window)?;
    values.set_item("max_rd_atomic", config.max_rd_atomic)?;
    values.set_item("rnr_retry", config.rnr_retry)?;
    values.set_item("rnr_delay", config.rnr_delay.as_secs_f64())?;
    values.set_item("min_rto", config.min_rto.as_secs_f64())?;
    values.set_item("max_rto", config.max_rto.as_secs_f64())?;
    values.set_item("recovery", config.recovery.name())?;
    values.set_item("reorder_threshold", config.reorder_threshold)?;
    values.set_item("ask_every", config.ask_every)?;
    values.set_item("reply_hold", config.reply_hold.as_secs_f64())?;
    values.set_item("reply_wait", config.reply_wait.as_secs_f64())?;
    values.set_item("cc", config.cc.to_string())?;
    Ok(values)
}
