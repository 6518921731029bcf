//! The plugin's tables as NCCL's headers lay them out, stated independently of the plugin. A table
//! is a row of pointers, identified by the names of its members. Properties are a row of fields,
//! whose places follow from C's alignment rules.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::str::FromStr;

/// The versions that the plugin has to offer.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u32> = 6..=12;

/// The versions of RMA tables that the plugin has to offer.
const RMA_TABLES: [Table; 3] = [Table::Gin(13), Table::Rma(13), Table::Rma(14)];

/// A table of the plugin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    Net(u32),
    Gin(u32),
    Rma(u32),
}

impl Table {
    /// All tables.
    pub(crate) fn all() -> impl Iterator<Item = Table> {
        VERSIONS.map(Table::Net).chain(RMA_TABLES)
    }

    /// The symbol in the library.
    pub(crate) fn symbol(self) -> String {
        match self {
            Table::Net(version) => format!("ncclNetPlugin_v{version}"),
            Table::Gin(version) => format!("ncclGinPlugin_v{version}"),
            Table::Rma(version) => format!("ncclRmaPlugin_v{version}"),
        }
    }

    /// The name on the command line.
    pub(crate) fn token(self) -> String {
        match self {
            Table::Net(version) => version.to_string(),
            Table::Gin(version) => format!("gin{version}"),
            Table::Rma(version) => format!("rma{version}"),
        }
    }

    pub(crate) fn version(self) -> u32 {
        match self {
            Table::Net(version) | Table::Gin(version) | Table::Rma(version) => version,
        }
    }

    pub(crate) fn is_rma(self) -> bool {
        !matches!(self, Table::Net(_))
    }

    /// A table that ranks must not mix with this RMA table.
    pub(crate) fn other(self) -> Table {
        if self == Table::Rma(14) { Table::Rma(13) } else { Table::Rma(14) }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Table::Net(version) => write!(f, "v{version}"),
            Table::Gin(version) => write!(f, "GIN{version}"),
            Table::Rma(version) => write!(f, "RMA{version}"),
        }
    }
}

impl FromStr for Table {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Table::all().find(|table| table.token() == text);
        found.ok_or_else(|| "there are 6 to 12, gin13, rma13 and rma14".to_owned())
    }
}

const SINCE_6: &[&str] = &[
    "name",
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "accept",
    "regMr",
    "regMrDmaBuf",
    "deregMr",
    "isend",
    "irecv",
    "iflush",
    "test",
    "closeSend",
    "closeRecv",
    "closeListen",
];
const SINCE_7: &[&str] = &["getDeviceMr", "irecvConsumed"];
const SINCE_9: &[&str] = &["makeVDevice"];
const SINCE_11: &[&str] = &["finalize", "setNetAttr"];

/// Which pointer of the table a member is; `None`: this version has no such member.
pub(crate) fn member(version: u32, name: &str) -> Option<usize> {
    let parts = [(6, SINCE_6), (7, SINCE_7), (9, SINCE_9), (11, SINCE_11)];
    let known = parts.iter().filter(|(since, _)| *since <= version);
    known.flat_map(|(_, names)| names.iter()).position(|known| *known == name)
}

/// Most devices that a device is made of.
pub(crate) fn most_members(version: u32) -> usize {
    if version >= 12 { 8 } else { 4 }
}

/// The properties that `getProperties` filled in.
#[derive(Debug)]
pub(crate) struct Properties(Vec<(&'static str, Value)>);

#[derive(Debug)]
enum Value {
    Text(Option<String>),
    Number(i128),
    Real(f32),
    Numbers(Vec<c_int>),
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    U64,
    Int,
    Float,
    Size,
    I16,
    Ints(usize),
}

impl Kind {
    fn size_and_alignment(self) -> (usize, usize) {
        match self {
            Kind::Text | Kind::U64 | Kind::Size => (8, 8),
            Kind::Int | Kind::Float => (4, 4),
            Kind::I16 => (2, 2),
            Kind::Ints(count) => (4 * count, 4),
        }
    }
}

/// The fields of a version, in order.
fn fields(version: u32) -> Vec<(&'static str, Kind)> {
    let all = [
        (6, "name", Kind::Text),
        (6, "pciPath", Kind::Text),
        (6, "guid", Kind::U64),
        (6, "ptrSupport", Kind::Int),
        (8, "regIsGlobal", Kind::Int),
        (9, "forceFlush", Kind::Int),
        (6, "speed", Kind::Int),
        (6, "port", Kind::Int),
        (6, "latency", Kind::Float),
        (6, "maxComms", Kind::Int),
        (6, "maxRecvs", Kind::Int),
        (7, "netDeviceType", Kind::Int),
        (7, "netDeviceVersion", Kind::Int),
        (9, "vProps.ndevs", Kind::Int),
        (9, "vProps.devs", Kind::Ints(most_members(version))),
        (9, "maxP2pBytes", Kind::Size),
        (9, "maxCollBytes", Kind::Size),
        (11, "maxMultiRequestSize", Kind::Int),
        (12, "railId", Kind::I16),
        (12, "planeId", Kind::I16),
    ];
    let known = all.into_iter().filter(|(since, ..)| *since <= version);
    known.map(|(_, name, kind)| (name, kind)).collect()
}

/// Room for the properties of any version, and a margin that must stay as it is.
#[repr(C, align(8))]
pub(crate) struct RawProperties([u8; 512]);

/// Not what any field is filled with.
const UNTOUCHED: u8 = 0xA5;

impl RawProperties {
    pub(crate) fn new() -> Self {
        RawProperties([UNTOUCHED; 512])
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    /// Reads what the plugin wrote.
    ///
    /// # Errors
    /// The plugin wrote beyond the end of this version's structure.
    ///
    /// # Safety
    /// The plugin filled in the properties of this version, with valid strings.
    pub(crate) unsafe fn read(&self, version: u32) -> Result<Properties, String> {
        let (mut offset, mut values) = (0, Vec::new());
        for (name, kind) in fields(version) {
            let (size, alignment) = kind.size_and_alignment();
            offset = usize::next_multiple_of(offset, alignment);
            // SAFETY: the caller vouches for strings.
            values.push((name, unsafe { value(kind, &self.0[offset..offset + size]) }));
            offset += size;
        }
        let end = offset.next_multiple_of(8);
        if self.0[end..].iter().any(|byte| *byte != UNTOUCHED) {
            return Err(format!("getProperties wrote beyond the {end} bytes of v{version}"));
        }
        Ok(Properties(values))
    }
}

/// # Safety
/// Text is a valid C string or NULL.
unsafe fn value(kind: Kind, bytes: &[u8]) -> Value {
    let int = |bytes: &[u8]| c_int::from_ne_bytes(bytes.try_into().expect("4 bytes"));
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
    match kind {
        Kind::Text => {
            let text = word(bytes) as *const c_char;
            // SAFETY: the caller vouches for the string.
            let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
            Value::Text(text.map(|text| text.to_string_lossy().into_owned()))
        }
        Kind::U64 | Kind::Size => Value::Number(word(bytes).into()),
        Kind::Int => Value::Number(int(bytes).into()),
        Kind::Float => Value::Real(f32::from_bits(int(bytes) as u32)),
        Kind::I16 => Value::Number(i16::from_ne_bytes([bytes[0], bytes[1]]).into()),
        Kind::Ints(_) => Value::Numbers(bytes.chunks_exact(4).map(int).collect()),
    }
}

impl Properties {
    /// A number; `None`: this version does not have it.
    pub(crate) fn number(&self, name: &str) -> Option<i128> {
        match self.get(name)? {
            Value::Number(number) => Some(*number),
            Value::Real(real) => Some(*real as i128),
            _ => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => text.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn numbers(&self, name: &str) -> Option<&[c_int]> {
        match self.get(name)? {
            Value::Numbers(numbers) => Some(numbers),
            _ => None,
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}
