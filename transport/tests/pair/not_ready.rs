//! "Receiver not ready", answered by hand.

use braid_transport::QpConfig;
use braid_wire::NakCode;

use crate::hosts::Pair;

#[test]
fn refusals_of_one_message_count_together_in_whatever_order_its_segments_arrive() {
    let config = QpConfig { rnr_retry: Some(2), ask_every: 1, ..QpConfig::default() };
    let mut pair = Pair::new(config, 1);
    pair.write(2);
    let sent = pair.send();
    let mut ack = pair.arrive(&sent[1]).expect("it asks");
    ack.rnr_delay_us = 100;
    for (round, refused) in [1, 0, 1].into_iter().enumerate() {
        assert_eq!(pair.completed(), 0, "round {round}");
        ack.nak = Some((NakCode::ReceiverNotReady, sent[refused].header.psn));
        pair.ack(&ack);
        while round < 2 && pair.send().is_empty() {
            pair.sleep();
        }
    }
    assert_eq!(pair.completed(), 1, "the third refusal is one too many");
}
