//! Statistics of packet reordering.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use braid::OooDegrees;

use crate::arguments::Out;
use crate::boundary::enter;
use crate::braid_qp;
use crate::failure::Failure;
use crate::handle::{find, hand_out, object, take};

/// A histogram of the reordering extent: by how many packets, 1 or more, early packets were ahead
/// of the last one in order. From 16 on, the resolution is an eighth.
pub struct braid_ooo {
    degrees: Mutex<OooDegrees>,
}

object!(braid_ooo, 9, "histogram");

impl braid_ooo {
    fn read(&self) -> OooDegrees {
        self.degrees.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Creates a histogram of the peer's packets so far. It is empty if no packet was reordered or if
/// the queue pair is not connected. The caller must close it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_query_ooo(
    qp: *const braid_qp,
    ooo: *mut *mut braid_ooo,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(ooo, "ooo") }?;
        let degrees = find(qp)?.qp.ooo_degrees().unwrap_or_default();
        out.set(hand_out(braid_ooo { degrees: Mutex::new(degrees) })?);
        Ok(0)
    })
}

/// Closes a histogram.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_ooo_close(ooo: *mut braid_ooo) -> c_int {
    enter(|| take(ooo).map(|_| 0))
}

/// Writes the number of reordered packets into `count`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_ooo_count(ooo: *const braid_ooo, count: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(count, "count") }?;
        out.set(find(ooo)?.read().count());
        Ok(0)
    })
}

/// Writes the extent that the share `share`, 0 to 1, of all packets does not exceed into `degree`.
/// `in_order` further packets count with an extent of 0.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_ooo_quantile(
    ooo: *const braid_ooo,
    share: f64,
    in_order: u64,
    degree: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(degree, "degree") }?;
        // This form is false for NaN.
        if !(0.0..=1.0).contains(&share) {
            return Err(Failure::Share { name: "share", value: share });
        }
        let degrees = find(ooo)?.read();
        // Limits the sum to the range of the counter.
        let in_order = in_order.min(u64::MAX - degrees.count());
        out.set(degrees.quantile(share, in_order));
        Ok(0)
    })
}

/// Adds the packets of `from` to those of `ooo`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_ooo_merge(ooo: *mut braid_ooo, from: *const braid_ooo) -> c_int {
    enter(|| {
        let added = find(from)?.read();
        let ooo = find(ooo)?;
        ooo.degrees.lock().unwrap_or_else(PoisonError::into_inner).merge(&added);
        Ok(0)
    })
}
