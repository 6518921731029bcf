//! The controller that was added by the recipe is offered by its name, and is the one that is made.

use braid_cc::{CcConfig, Subflow, controller_names};

#[test]
fn the_controller_is_offered_by_name_and_made() {
    assert!(controller_names().any(|name| name == "stop-and-wait"));
    let config: CcConfig = "stop-and-wait".parse().unwrap();
    for packet_bytes in [1500, 9000] {
        assert_eq!(config.build(&Subflow { packet_bytes, ..Subflow::default() }).window(), packet_bytes);
    }
    let error = "stop-and-wait:burst=2".parse::<CcConfig>().unwrap_err().to_string();
    assert!(error.contains("`burst`"), "{error}");
}
