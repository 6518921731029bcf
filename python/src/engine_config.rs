//! The settings of an engine.

use std::path::Path;
use std::time::Duration;

use braid::{
    Crc, DatapathKind, DatapathOptions, DestinationGroups, EngineConfig, Faults, Medium, Progress,
    Security, VerbsOptions, VerbsService,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Raise, error};
use crate::settings::{Settings, ip_address, socket_address};

/// Reads all settings. Fields are named, so that a new setting of the engine cannot be forgotten.
pub(crate) fn read(py: Python<'_>, mut settings: Settings<'_>) -> PyResult<EngineConfig> {
    let EngineConfig {
        datapath,
        mut bind,
        mut second_addr,
        mut rails,
        mut rail_policy,
        progress,
        mut paths,
        mut lb,
        mut quantum,
        mut destination_groups,
        mut discover,
        mut mtu,
        mut crc,
        security: _,
        mut receive_buffer,
        faults,
        mut seed,
        mut spin,
        mut ping_interval,
        mut peer_timeout,
        mut linger,
        mut metrics,
    } = EngineConfig::default();
    if let Some(text) = settings.text("bind")? {
        bind = socket_address(py, &text)?;
    }
    if let Some(text) = settings.text("second_addr")? {
        second_addr = Some(ip_address(py, &text)?);
    }
    for text in settings.texts("rails")? {
        rails.push(ip_address(py, &text)?);
    }
    settings.parsed("rail_policy", &mut rail_policy)?;
    let mut threads = threads_of(progress);
    settings.number("threads", &mut threads)?;
    settings.number("paths", &mut paths)?;
    settings.parsed("lb", &mut lb)?;
    quantum = settings.maybe_number("quantum")?.or(quantum);
    if let Some(file) = settings.text("destination_groups")? {
        destination_groups = DestinationGroups::read(file).raise(py, "SettingError")?;
    }
    settings.flag("discover", &mut discover)?;
    mtu = settings.maybe_number("mtu")?.or(mtu);
    if let Some(has_crc) = settings.maybe_flag("crc")? {
        crc = Some(if has_crc { Crc::On } else { Crc::Off });
    }
    let security = security(py, &mut settings)?;
    settings.number("receive_buffer", &mut receive_buffer)?;
    settings.number("seed", &mut seed)?;
    for (name, time) in [
        ("spin", &mut spin),
        ("ping_interval", &mut ping_interval),
        ("peer_timeout", &mut peer_timeout),
        ("linger", &mut linger),
    ] {
        settings.seconds(name, time)?;
    }
    settings.parsed("metrics", &mut metrics)?;
    let mut kind = datapath.kind();
    settings.parsed("datapath", &mut kind)?;
    let datapath = build(py, kind, &mut settings)?;
    let faults = read_faults(&mut settings, faults)?;
    settings.finish()?;
    let progress = if threads == 0 { Progress::Application } else { Progress::Threads(threads) };
    Ok(EngineConfig {
        datapath,
        bind,
        second_addr,
        rails,
        rail_policy,
        progress,
        paths,
        lb,
        quantum,
        destination_groups,
        discover,
        mtu,
        crc,
        security,
        receive_buffer,
        faults,
        seed,
        spin,
        ping_interval,
        peer_timeout,
        linger,
        metrics,
    })
}

fn threads_of(progress: Progress) -> usize {
    match progress {
        Progress::Threads(count) => count,
        Progress::Application => 0,
    }
}

fn security(py: Python<'_>, settings: &mut Settings<'_>) -> PyResult<Option<Security>> {
    let key = settings.text("key_file")?;
    let allowed = settings.text("allowed_keys")?;
    let mode = settings.text("security")?.map(|mode| mode.parse()).transpose();
    let mode = mode.raise(py, "SettingError")?;
    let [key, allowed] = [&key, &allowed].map(|file| file.as_deref().map(Path::new));
    Security::from_files(key, allowed, mode).raise(py, "SettingError")
}

fn build(
    py: Python<'_>,
    mut kind: DatapathKind,
    settings: &mut Settings<'_>,
) -> PyResult<braid::Datapath> {
    let mut options = DatapathOptions::default();
    let device = settings.text("device")?;
    let mut verbs = VerbsOptions::new(device.clone().unwrap_or_default());
    settings.number("device_port", &mut verbs.port)?;
    verbs.gid_index = settings.maybe_number("gid_index")?;
    if let Some(service) = settings.text("service")? {
        verbs.service = match service.as_str() {
            "uc" => VerbsService::Uc,
            "rc" => VerbsService::Rc,
            _ => {
                let text = format!("`service` is `{service}`; take uc or rc");
                return Err(error(py, "SettingError", text));
            }
        };
    }
    if device.is_some() {
        // A device needs no name of a datapath.
        if kind == braid::Datapath::default().kind() {
            kind = "verbs".parse().raise(py, "SettingError")?;
        }
        if kind.medium() != Medium::Device {
            let text = format!("the datapath `{kind}` has no `device`; leave one of both out");
            return Err(error(py, "SettingError", text));
        }
        options.device = Some(verbs);
    }
    kind.build(&options).raise(py, "SettingError")
}

fn read_faults(settings: &mut Settings<'_>, mut faults: Faults) -> PyResult<Faults> {
    settings.probability("fault_drop", &mut faults.drop)?;
    settings.probability("fault_reorder", &mut faults.reorder)?;
    settings.probability("fault_duplicate", &mut faults.duplicate)?;
    settings.probability("fault_corrupt", &mut faults.corrupt)?;
    settings.seconds("fault_delay", &mut faults.delay)?;
    settings.number("fault_seed", &mut faults.seed)?;
    Ok(faults)
}

/// The defaults of the engine, for the test of the signature.
pub(crate) fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let config = EngineConfig::default();
    let values = PyDict::new(py);
    let seconds = |name: &str, time: Duration| values.set_item(name, time.as_secs_f64());
    values.set_item("bind", config.bind.to_string())?;
    values.set_item("second_addr", config.second_addr.map(|addr| addr.to_string()))?;
    values.set_item("rails", config.rails.len())?;
    values.set_item("rail_policy", config.rail_policy.name())?;
    values.set_item("threads", threads_of(config.progress))?;
    values.set_item("paths", config.paths)?;
    values.set_item("lb", config.lb.name())?;
    values.set_item("quantum", config.quantum)?;
    values.set_item("discover", config.discover)?;
    values.set_item("mtu", config.mtu)?;
    values.set_item("crc", config.crc.map(|crc| crc == Crc::On))?;
    values.set_item("receive_buffer", config.receive_buffer)?;
    seconds("spin", config.spin)?;
    seconds("ping_interval", config.ping_interval)?;
    seconds("peer_timeout", config.peer_timeout)?;
    seconds("linger", config.linger)?;
    values.set_item("datapath", config.datapath.kind().name())?;
    values.set_item("device_port", VerbsOptions::new("").port)?;
    values.set_item("fault_drop", config.faults.drop)?;
    values.set_item("fault_reorder", config.faults.reorder)?;
    values.set_item("fault_duplicate", config.faults.duplicate)?;
    values.set_item("fault_corrupt", config.faults.corrupt)?;
    seconds("fault_delay", config.faults.delay)?;
    values.set_item("fault_seed", config.faults.seed)?;
    Ok(values)
}
