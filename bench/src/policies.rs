//! The policies that the data queue pairs of a run have.

use braid::LossRecovery;

use crate::engine_args::{EngineArgs, PolicyArgs};
use crate::plan::{Dcqcn, Plan};

/// The policies of one side, as they are shown.
pub(crate) struct Policies {
    pub(crate) paths: usize,
    pub(crate) lb: String,
    pub(crate) cc: String,
    pub(crate) loss_recovery: &'static str,
}

impl Policies {
    /// Returns the policies of a side with these options.
    pub(crate) fn of(plan: &Plan, args: &EngineArgs) -> Self {
        let PolicyArgs { paths, lb, cc, .. } = &args.policy;
        if let Some(roce) = plan.roce {
            // RoCEv2 has one path, and its window is no policy.
            let none = || "none".to_owned();
            let dcqcn = roce.dcqcn.map(|Dcqcn(config)| format!("dcqcn {config}"));
            let (cc, loss_recovery) = (dcqcn.unwrap_or_else(none), LossRecovery::GoBackN.name());
            return Policies { paths: 1, lb: none(), cc, loss_recovery };
        }
        let loss_recovery = plan.loss_recovery.name();
        Policies { paths: *paths, lb: lb.to_string(), cc: cc.to_string(), loss_recovery }
    }
}
