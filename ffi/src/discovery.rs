//! Discovery of the routes that paths take through the network.

use std::ffi::{c_char, c_int};

use braid::{DiscoveryConfig, MAX_PATHS, PathId, PathMap, discover_any};

use crate::address::{BRAID_ADDR_LEN, parse_ip, resolve, to_text};
use crate::arguments::{Array, Out, Room, element, micros, narrow, put_text, text, timer};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{find, hand_out, object, take};

/// The routes that the paths to a destination take.
pub struct braid_path_map {
    map: PathMap,
}

object!(braid_path_map, 11, "path map");

/// The parameters of discovery, initialised by braid_discovery_config_init.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_discovery_config {
    /// Set by braid_discovery_config_init.
    pub size: usize,
    /// Maximum number of hops, up to 255.
    pub max_ttl: u32,
    /// Number of probes to a hop that does not answer.
    pub tries: u32,
    /// Time to wait for an answer in microseconds.
    pub timeout_us: u64,
    /// Minimum interval between two probes in microseconds.
    pub spacing_us: u64,
    /// Total time for repeated probes to hops that distinguish routes, in microseconds.
    pub patience_us: u64,
}

// SAFETY: `repr(C)`, `size` first, numbers only.
unsafe impl Growing for braid_discovery_config {
    const NAME: &'static str = "braid_discovery_config";
}

impl Default for braid_discovery_config {
    fn default() -> Self {
        let config = DiscoveryConfig::default();
        braid_discovery_config {
            size: size_of::<Self>(),
            max_ttl: config.max_ttl.into(),
            tries: config.tries,
            timeout_us: micros(config.timeout),
            spacing_us: micros(config.spacing),
            patience_us: micros(config.patience),
        }
    }
}

impl braid_discovery_config {
    fn check(&self) -> Result<DiscoveryConfig, Failure> {
        Ok(DiscoveryConfig {
            max_ttl: narrow(self.max_ttl.into(), 255, "max_ttl")?,
            tries: self.tries,
            timeout: timer(self.timeout_us, "timeout_us")?,
            spacing: timer(self.spacing_us, "spacing_us")?,
            patience: timer(self.patience_us, "patience_us")?,
        })
    }
}

/// Fills `config` with the defaults; `size` is sizeof(braid_discovery_config).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_discovery_config_init(
    config: *mut braid_discovery_config,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { growing::init(config, size, Default::default()) }.map(|()| 0))
}

/// Discovers the routes of the `count` paths (numbers below 4096) in the array `paths`. `from` is
/// the local address, such as "10.0.0.1" or "::" for any. `to` is the receiving address of a peer's
/// engine, such as "10.0.0.2:4791". If no hop answers, the map is empty, which is not an error. The
/// caller must close the map.
///
/// The call takes about a second, and up to `patience_us` more if routers limit their answers.
///
/// Threads: any, but one at a time for a destination.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_discover(
    config: *const braid_discovery_config,
    from: *const c_char,
    to: *const c_char,
    paths: *const u16,
    count: usize,
    map: *mut *mut braid_path_map,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, config, paths) = unsafe {
            let config = growing::read(config, braid_discovery_config::default())?;
            (Out::new(map, "map")?, config, Array::new(paths, count, "paths")?)
        };
        // SAFETY: the caller's promise.
        let (from, to) = unsafe { (text(from, "from")?, text(to, "to")?) };
        let from = parse_ip(&from)?;
        let paths = paths.iter().map(|path| {
            narrow(path.into(), MAX_PATHS as u64 - 1, "paths").map(|path: u16| PathId::new(path))
        });
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        let map = discover_any(&resolve(&to, from)?, from, paths, config.check()?)?;
        out.set(hand_out(braid_path_map { map })?);
        Ok(0)
    })
}

/// Closes a map.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_path_map_close(map: *mut braid_path_map) -> c_int {
    enter(|| take(map).map(|_| 0))
}

/// The contents of a map.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_path_map_info {
    /// Set it to sizeof(braid_path_map_info).
    pub size: usize,
    /// The destination.
    pub to: [c_char; BRAID_ADDR_LEN],
    /// Number of routes, sorted by their hops.
    pub ways: usize,
    /// Number of paths without a route: no hop answered, too few answered to distinguish routes, or
    /// a router refused to forward the probes.
    pub unanswered: usize,
    /// Duration of the discovery in microseconds.
    pub took_us: u64,
    /// 1 if every path has a route and every hop of the routes is known, otherwise 0.
    pub complete: c_int,
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of them only.
unsafe impl Growing for braid_path_map_info {
    const NAME: &'static str = "braid_path_map_info";
}

/// Reads the contents of the map.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_path_map_query(
    map: *const braid_path_map,
    info: *mut braid_path_map_info,
) -> c_int {
    enter(|| {
        let map = &find(map)?.map;
        let known = braid_path_map_info {
            size: size_of::<braid_path_map_info>(),
            to: to_text(map.to),
            ways: map.ways.len(),
            unanswered: map.unanswered,
            took_us: micros(map.took),
            complete: map.is_complete().into(),
        };
        // SAFETY: the caller's promise.
        unsafe { growing::write(info, known) }.map(|()| 0)
    })
}

/// Writes the number of hops of the route at index `way`, from 0, into `hops`, and the number of
/// its paths into `paths`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_path_map_way(
    map: *const braid_path_map,
    way: usize,
    hops: *mut usize,
    paths: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (hops, paths) = unsafe { (Out::new(hops, "hops")?, Out::new(paths, "paths")?) };
        let map = find(map)?;
        let way = element(&map.map.ways, way, "way")?;
        hops.set(way.hops.len());
        paths.set(way.ports.len());
        Ok(0)
    })
}

/// Writes the address of the router at index `hop`, from 0, of a route into `text` of `size` bytes;
/// BRAID_ADDR_LEN suffice. Returns 1, or 0 and an empty text if the router never answered. The last
/// hop is the destination, if it answered.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_path_map_hop(
    map: *const braid_path_map,
    way: usize,
    hop: usize,
    text: *mut c_char,
    size: usize,
) -> c_int {
    enter(|| {
        let map = find(map)?;
        let hop = element(&element(&map.map.ways, way, "way")?.hops, hop, "hop")?;
        let name = hop.map_or(String::new(), |ip| ip.to_string());
        // SAFETY: the caller's promise.
        unsafe { put_text(&name, text, size, "text") }.map(|()| hop.is_some().into())
    })
}

/// Writes the paths of a route in ascending order into the array `paths` with space for `max`.
/// Returns their number.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_path_map_paths(
    map: *const braid_path_map,
    way: usize,
    paths: *mut u16,
    max: usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let mut room = unsafe { Room::new(paths, max, "paths") }?;
        let map = find(map)?;
        let way = element(&map.map.ways, way, "way")?;
        room.extend(way.ports.iter().map(|path| path.get()));
        Ok(room.used())
    })
}

/// Writes up to `max` paths that load all routes equally into the array `paths`: the same number
/// per route, alternating between routes. Returns their number. 0: a balanced list has no
/// advantage, because at most one route is known, or `max` is less than the number of routes.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_path_map_balanced(
    map: *const braid_path_map,
    paths: *mut u16,
    max: usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let mut room = unsafe { Room::new(paths, max, "paths") }?;
        let balanced = find(map)?.map.balanced(max).unwrap_or_default();
        room.extend(balanced.iter().map(|path| path.get()));
        Ok(room.used())
    })
}
