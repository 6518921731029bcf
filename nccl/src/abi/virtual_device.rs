//! Combined devices: v9 and later, each with its own limit.

use std::ffi::c_int;

use super::boundary::{boundary, place};
use crate::error::Error;
use crate::plugin;
use crate::result_code::Code;

/// `ncclNetVDeviceProps_t` of a version that allows `MOST` members.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VirtualDevice<const MOST: usize> {
    /// Number of members.
    pub ndevs: c_int,
    /// The numbers of the members.
    pub devs: [c_int; MOST],
}

impl<const MOST: usize> VirtualDevice<MOST> {
    /// # Errors
    /// There are more than the version can say.
    pub(super) fn of(members: &[usize]) -> Result<Self, Error> {
        let mut devs = [0; MOST];
        let places = devs.get_mut(..members.len());
        let places = places.ok_or(Error::TooManyMembers { count: members.len(), most: MOST })?;
        places.iter_mut().zip(members).for_each(|(place, member)| *place = *member as c_int);
        Ok(VirtualDevice { ndevs: members.len() as c_int, devs })
    }

    fn members(&self) -> Result<&[c_int], Error> {
        let count = usize::try_from(self.ndevs).unwrap_or(0);
        self.devs.get(..count).ok_or(Error::TooManyMembers { count, most: MOST })
    }
}

/// Combines several devices and writes the number of the new one to `dev`.
///
/// # Safety
/// `dev` is NULL or a place for a number; `props` is NULL or the structure of the table's version.
pub(super) unsafe extern "C" fn make_v_device<const MOST: usize>(
    dev: *mut c_int,
    props: *mut VirtualDevice<MOST>,
) -> Code {
    boundary("makeVDevice", || {
        let (dev, props) = (place(dev, "d")?, place(props, "props")?);
        // SAFETY: the caller vouches for the structure.
        let wanted = unsafe { props.read() };
        let number = plugin::current()?.combine(wanted.members()?)?;
        // SAFETY: the caller vouches for the place.
        unsafe { dev.write(number as c_int) };
        Ok(())
    })
}
