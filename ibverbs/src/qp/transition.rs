//! The attributes that a change of state needs, and those that it permits (IBTA vol. 1, table 91).

use braid_verbs::abi::*;

use super::service::Service;
use crate::errno::Errno;

/// `IBV_QP_CUR_STATE`, `IBV_QP_EN_SQD_ASYNC_NOTIFY`, `IBV_QP_ALT_PATH` and `IBV_QP_PATH_MIG_STATE`.
pub(super) const CUR_STATE: u32 = 1 << 1;
pub(super) const SQD_NOTIFY: u32 = 1 << 2;
const ALT_PATH: u32 = 1 << 14;
const PATH_MIG_STATE: u32 = 1 << 18;

/// The attributes that a change needs, and those that it permits besides.
struct Masks {
    needed: u32,
    allowed: u32,
}

/// Checks that the transition exists and that the mask fits it.
///
/// # Errors
/// `EINVAL` if not; `EOPNOTSUPP` for path migration.
pub(super) fn check(service: Service, from: u32, to: u32, mask: u32) -> Result<(), Errno> {
    if mask & (ALT_PATH | PATH_MIG_STATE) != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    let Masks { needed, allowed } = masks(service, from, to).ok_or(Errno::INVALID)?;
    let given = mask & !IBV_QP_STATE;
    let is_complete = given & needed == needed;
    let is_known = given & !(needed | allowed | CUR_STATE) == 0;
    if is_complete && is_known { Ok(()) } else { Err(Errno::INVALID) }
}

fn masks(service: Service, from: u32, to: u32) -> Option<Masks> {
    let identity = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    let access = IBV_QP_ACCESS_FLAGS;
    let masks = |needed, allowed| Some(Masks { needed, allowed });
    let Service::Connected { reliable } = service else { return datagram_masks(from, to) };
    let if_reliable = |mask| if reliable { mask } else { 0 };
    match (from, to) {
        (_, IBV_QPS_RESET | IBV_QPS_ERR) => masks(0, 0),
        (IBV_QPS_RESET, IBV_QPS_INIT) => masks(identity | access, 0),
        (IBV_QPS_INIT, IBV_QPS_INIT) => masks(0, identity | access),
        (IBV_QPS_INIT, IBV_QPS_RTR) => masks(
            IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | if_reliable(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            access | IBV_QP_PKEY_INDEX,
        ),
        (IBV_QPS_RTR, IBV_QPS_RTS) => masks(
            IBV_QP_SQ_PSN
                | if_reliable(
                    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                ),
            access | if_reliable(IBV_QP_MIN_RNR_TIMER),
        ),
        (IBV_QPS_RTS, IBV_QPS_RTS) | (IBV_QPS_SQD, IBV_QPS_RTS) => {
            masks(0, access | if_reliable(IBV_QP_MIN_RNR_TIMER))
        }
        (IBV_QPS_RTS, IBV_QPS_SQD) => masks(0, SQD_NOTIFY),
        (IBV_QPS_SQD, IBV_QPS_SQD) => masks(
            0,
            access
                | IBV_QP_PKEY_INDEX
                | if_reliable(
                    IBV_QP_TIMEOUT
                        | IBV_QP_RETRY_CNT
                        | IBV_QP_RNR_RETRY
                        | IBV_QP_MIN_RNR_TIMER
                        | IBV_QP_MAX_QP_RD_ATOMIC
                        | IBV_QP_MAX_DEST_RD_ATOMIC,
                ),
        ),
        _ => None,
    }
}

/// The masks of type UD, which has no peer.
fn datagram_masks(from: u32, to: u32) -> Option<Masks> {
    let identity = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    let key = IBV_QP_QKEY;
    let masks = |needed, allowed| Some(Masks { needed, allowed });
    match (from, to) {
        (_, IBV_QPS_RESET | IBV_QPS_ERR) => masks(0, 0),
        (IBV_QPS_RESET, IBV_QPS_INIT) => masks(identity | key, 0),
        (IBV_QPS_INIT, IBV_QPS_INIT) => masks(0, identity | key),
        (IBV_QPS_INIT, IBV_QPS_RTR) => masks(0, IBV_QP_PKEY_INDEX | key),
        (IBV_QPS_RTR, IBV_QPS_RTS) => masks(IBV_QP_SQ_PSN, key),
        (IBV_QPS_RTS, IBV_QPS_RTS) => masks(0, key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RC: Service = Service::Connected { reliable: true };
    const UC: Service = Service::Connected { reliable: false };

    #[test]
    fn missing_and_excess_attributes_are_refused() {
        let init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        assert_eq!(check(RC, IBV_QPS_RESET, IBV_QPS_INIT, init), Ok(()));
        assert_eq!(
            check(RC, IBV_QPS_RESET, IBV_QPS_INIT, init & !IBV_QP_PORT),
            Err(Errno::INVALID)
        );
        let more = init | IBV_QP_TIMEOUT;
        assert_eq!(check(RC, IBV_QPS_RESET, IBV_QPS_INIT, more), Err(Errno::INVALID));
        let alternate = init | ALT_PATH;
        assert_eq!(check(RC, IBV_QPS_RESET, IBV_QPS_INIT, alternate), Err(Errno::UNSUPPORTED));
    }

    #[test]
    fn unreliable_queue_pairs_have_no_retries() {
        assert_eq!(check(UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN), Ok(()));
        let few = check(RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN);
        assert_eq!(few, Err(Errno::INVALID));
    }

    #[test]
    fn every_state_leads_to_error_and_reset_and_none_skips_one() {
        for from in IBV_QPS_RESET..=IBV_QPS_ERR {
            assert_eq!(check(RC, from, IBV_QPS_ERR, IBV_QP_STATE), Ok(()));
            assert_eq!(check(RC, from, IBV_QPS_RESET, IBV_QP_STATE), Ok(()));
        }
        for (from, to) in [(IBV_QPS_RESET, IBV_QPS_RTR), (IBV_QPS_INIT, IBV_QPS_RTS)] {
            assert_eq!(check(RC, from, to, !(ALT_PATH | PATH_MIG_STATE)), Err(Errno::INVALID));
        }
    }
}
