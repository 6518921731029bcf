//! MSwift: Swift for sprayed packets.
//!
//! Paths differ, and a single late packet makes Swift reduce its window. MSwift compares the median
//! of recent round trips with the target (OFAN, section 8.3: "a new mechanism, based on observing
//! recent ACKs"). The paper does not state their number; nine is this project's choice. The
//! transport handles reordering.

use std::fmt;
use std::time::Duration;

use braid_wire::Time;

use crate::parameters::{no_parameter, parameters, ratio_of};
use crate::row::Row;
use crate::{
    AckSample, CcConfig, Controller, ControllerFactory, Loss, Metrics, Spurious, Subflow, Swift,
    SwiftConfig, UnknownPolicy, quantity,
};

pub(crate) const ROW: Row = Row { name: "mswift", example: "mswift", parse };

const PARAMETERS: &str = "samples=N, start=BYTES, max=BYTES, min=N%, base=TIME, hop=TIME, hops=N, flow=TIME, flow-max=N, add=N, \
     beta=N%, cut=N%, resets=N";
const SAMPLES: u32 = 9;

/// Parameters of MSwift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MSwiftConfig {
    /// Parameters of Swift.
    pub swift: SwiftConfig,
    /// Number of round trips whose median is compared with the target, at least 1.
    pub samples: u32,
}

impl Default for MSwiftConfig {
    fn default() -> Self {
        MSwiftConfig { swift: SwiftConfig::default(), samples: SAMPLES }
    }
}

/// Parses `mswift` or `mswift:base=25us,samples=15`.
fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let mut config = MSwiftConfig::default();
    for (key, value) in parameters(rest.unwrap_or("")) {
        match key {
            "samples" => config.samples = ratio_of(value)?,
            _ if config.swift.take(key, value)? => {}
            _ => return Err(no_parameter(ROW.name, key, PARAMETERS)),
        }
    }
    config.swift.check()?;
    Ok(config.into())
}

/// Writes the parameters that differ from the defaults.
impl fmt::Display for MSwiftConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut given = quantity::ParameterWriter::after(f, ROW.name)?;
        given.write("samples", (self.samples != SAMPLES).then_some(self.samples))?;
        self.swift.write(&mut given)
    }
}

impl ControllerFactory for MSwiftConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(MSwift::new(*self, subflow))
    }
}

/// The state of one subflow.
#[derive(Clone, Debug)]
pub struct MSwift {
    swift: Swift,
    recent: Recent,
}

impl MSwift {
    /// Creates a controller with Swift's initial window.
    pub fn new(config: MSwiftConfig, subflow: &Subflow) -> Self {
        let recent = Recent::new(config.samples.max(1) as usize);
        MSwift { swift: Swift::new(config.swift, subflow), recent }
    }
}

impl Controller for MSwift {
    fn on_ack(&mut self, ack: &AckSample) {
        self.swift.on_acked(ack.bytes);
        if let Some(sample) = ack.rtt {
            let median = self.recent.median_with(sample.rtt);
            self.swift.on_delay(ack, median, sample);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.swift.on_loss(loss);
    }

    fn on_spurious(&mut self, spurious: &Spurious) {
        self.swift.on_spurious(spurious);
    }

    fn on_timeout(&mut self, now: Time) {
        self.swift.on_timeout(now);
    }

    fn window(&self) -> u64 {
        self.swift.window()
    }

    fn metrics(&self) -> Metrics {
        self.swift.metrics()
    }
}

/// The latest round trips, at most `most`. Both lists have their full capacity from the start.
#[derive(Clone, Debug)]
struct Recent {
    most: usize,
    rtts: Vec<Duration>,
    /// Index of the oldest entry once there are `most` entries.
    oldest: usize,
    sorted: Vec<Duration>,
}

impl Recent {
    fn new(most: usize) -> Self {
        let (rtts, sorted) = (Vec::with_capacity(most), Vec::with_capacity(most));
        Recent { most, rtts, oldest: 0, sorted }
    }

    /// Adds a sample and returns the median of the latest samples. Of an even number, returns the
    /// upper one.
    fn median_with(&mut self, rtt: Duration) -> Duration {
        if self.rtts.len() < self.most {
            self.rtts.push(rtt);
        } else {
            self.rtts[self.oldest] = rtt;
            self.oldest = (self.oldest + 1) % self.most;
        }
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.rtts);
        let middle = self.sorted.len() / 2;
        *self.sorted.select_nth_unstable(middle).1
    }
}

#[cfg(test)]
mod tests;
