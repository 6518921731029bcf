//! WRITEs to memory that its owner has not exposed, or not to this peer.

use std::time::Duration;

use super::pair::{B, Machines};
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(40);
const PORT: u16 = 7200;

/// The client has an error for each, and the server's memory is as it was.
pub(super) fn check(pair: &Machines) -> Result<String, Failure> {
    let client = format!("breach rxe0 {B}:{PORT}");
    let [refused, said] = server::serve(pair, "breach rxe0", Port::Udp(PORT), &client, LIMIT)?;
    match said.contains("intact") {
        true => Ok(refused.trim().to_owned()),
        false => Err(Failure::new(format!("b: breach said:\n{said}"))),
    }
}
