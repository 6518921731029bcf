//! Which paths take which way through the network.

use std::ffi::{c_char, c_int};

use braid::{DiscoveryConfig, MAX_PATHS, PathId, PathMap, discover_any};

use crate::address::{BRAID_ADDR_LEN, parse_ip, resolve, to_text};
use crate::arguments::{Array, Out, Room, element, micros, narrow, put_text, text, timer};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{find, hand_out, object, take};

/// Which paths to a destination take which way.
pub struct braid_path_map {
    map: PathMap,
}

object!(braid_path_map, 11, "path map");

/// How to find out. Filled by braid_discovery_config_init.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_discovery_config {
    /// Set by braid_discovery_config_init.
    pub size: usize,
    /// Most hops that are followed, up to 255.
    pub max_ttl: u32,
    /// How often to ask a hop that does not answer.
    pub tries: u32,
    /// How long to wait for an answer, in microseconds.
    pub timeout_us: u64,
    /// Least time between two probes, in microseconds.
    pub spacing_us: u64,
    /// How long in all to ask again for hops that tell ways apart, in microseconds.
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

/// Finds out which of the `count` paths (numbers below 4096) in the array `paths` take which way from the
/// local address `from`, such as "10.0.0.1", or "::" for any, to `to`, such as "10.0.0.2:4791": where a peer's
/// engine receives. That nobody answers is no error, but a map without ways. Close it in the end.
///
/// Takes a second or so, and up to about `patience_us` more where routers limit their answers.
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

/// What a map holds.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_path_map_info {
    /// Set it to sizeof(braid_path_map_info).
    pub size: usize,
    /// The destination.
    pub to: [c_char; BRAID_ADDR_LEN],
    /// How many ways there are, sorted by their hops.
    pub ways: usize,
    /// Paths that are in no way: nothing was heard of them, or too little to tell ways apart, or a router
    /// refuses to carry them.
    pub unanswered: usize,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// 1: every path is in a way and every hop of the ways is known; or else 0.
    pub complete: c_int,
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of them only.
unsafe impl Growing for braid_path_map_info {
    const NAME: &'static str = "braid_path_map_info";
}

/// Reads what the map holds.
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

/// Writes how many hops the way at index `way`, from 0 on, has into `hops`, and how many paths take it into
/// `paths`.
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

/// Writes the router at index `hop`, from 0 on, of a way, as it names itself, into `text` of `size` bytes;
/// BRAID_ADDR_LEN suffice. Returns 1, or 0 and an empty text where it never answered. The last hop is the
/// destination, if it was heard.
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

/// Writes the paths that take a way, ascending, into the array `paths` with room for `max`; returns how
/// many.
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

/// Writes up to `max` paths that load all ways alike, the same number of each, one of each in turn, into the
/// array `paths`; returns how many. 0: plain paths are as good, because no way is known or just one, or
/// because `max` is less than the number of ways.
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
