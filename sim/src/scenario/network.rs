//! `[network]`: frames, buffers, marks, pause frames, and the switch policy.

use serde::Deserialize;

use super::quantity::{Bytes, Parsed, Room, Share, Text, by_name};
use super::switching::SwitchPolicy;
use crate::fabric::{Buffer, Marking, Pause, When};
use crate::frames::Frames;

/// The network of a model, which a scenario may change key by key.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Network {
    pub(super) frames: Frames,
    pub(super) buffer: Buffer,
    pub(super) marking: Option<Marking>,
    pub(super) pause: Option<Pause>,
    pub(super) control_first: bool,
    pub(super) trim: bool,
    pub(super) switch: SwitchPolicy,
    pub(super) control_hashed: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkKeys {
    frames: Option<FramesKeys>,
    buffer: Option<BufferKeys>,
    marking: Option<MarkingKeys>,
    pause: Option<PauseKeys>,
    control_first: Option<bool>,
    trim: Option<bool>,
    switch: Option<Parsed<SwitchPolicy>>,
    control_hashed: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FramesKeys {
    payload: Option<Parsed<Bytes>>,
    header: Option<Parsed<Bytes>>,
    ack: Option<Parsed<Bytes>>,
    gap: Option<Parsed<Bytes>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BufferKeys {
    per_port: Option<Parsed<Room>>,
    shared: Option<Parsed<Room>>,
    alpha: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkingKeys {
    off: Option<bool>,
    low: Option<Parsed<Room>>,
    high: Option<Parsed<Room>>,
    most: Option<Parsed<Share>>,
    when: Option<Parsed<When>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseKeys {
    off: Option<bool>,
    stop: Option<Parsed<Room>>,
    go: Option<Parsed<Room>>,
}

impl Text for When {
    const WHAT: &'static str = "moment of marking";
    const EXAMPLE: &'static str = "joining";

    fn from_text(text: &str) -> Result<Self, String> {
        by_name(
            "moment of marking",
            text,
            &[("joining", When::Joining), ("leaving", When::Leaving)],
        )
    }
}

impl NetworkKeys {
    /// Changes only the switch policy, if one is given.
    pub(super) fn with_switch(switch: Option<SwitchPolicy>) -> NetworkKeys {
        NetworkKeys { switch: switch.map(Parsed), ..NetworkKeys::default() }
    }

    /// Applies the scenario's keys to the network of the model.
    pub(super) fn apply(&self, model: Network) -> Result<Network, String> {
        let frames = match &self.frames {
            Some(keys) => keys.apply(model.frames)?,
            None => model.frames,
        };
        let frame = u32::from(frames.payload) + frames.header;
        let network = Network {
            frames,
            buffer: self.buffer.as_ref().map_or(Ok(model.buffer), |keys| keys.buffer(frame))?,
            marking: match &self.marking {
                Some(keys) => keys.marking(frame)?,
                None => model.marking,
            },
            pause: self.pause.as_ref().map_or(Ok(model.pause), |keys| keys.pause(frame))?,
            control_first: self.control_first.unwrap_or(model.control_first),
            trim: self.trim.unwrap_or(model.trim),
            switch: self.switch.clone().map_or(model.switch, |Parsed(switch)| switch),
            control_hashed: self.control_hashed.unwrap_or(model.control_hashed),
        };
        network.check(frame)?;
        Ok(network)
    }
}

impl Network {
    /// Returns the buffer of one port when no other port uses any.
    pub(super) fn room_of_port(&self) -> u64 {
        match self.buffer {
            Buffer::PerPort { bytes } => bytes,
            Buffer::Shared { bytes, alpha } => (bytes as f64 * alpha / (1.0 + alpha)) as u64,
        }
    }

    fn check(&self, frame: u32) -> Result<(), String> {
        if self.room_of_port() < u64::from(frame) {
            return Err(format!(
                "a packet of {frame} bytes does not fit into a buffer with {} bytes per port; \
                 enlarge `buffer`",
                self.room_of_port()
            ));
        }
        Ok(())
    }
}

impl FramesKeys {
    fn apply(&self, model: Frames) -> Result<Frames, String> {
        let size = |name: &str, value: Option<Parsed<Bytes>>, model: u32, least: u32, most: u32| {
            let bytes = value.map_or(model.into(), |Parsed(Bytes(bytes))| bytes);
            let size = u32::try_from(bytes).ok().filter(|size| (least..=most).contains(size));
            size.ok_or_else(|| {
                format!("{name} = {bytes} B is out of range; give {least} to {most} B")
            })
        };
        let payload = size("payload", self.payload, model.payload.into(), 64, 65_000)?;
        Ok(Frames {
            payload: payload as u16,
            header: size("header", self.header, model.header, 1, 1000)?,
            ack: size("ack", self.ack, model.ack, 1, 10_000)?,
            gap: size("gap", self.gap, model.gap, 0, 1000)?,
        })
    }
}

impl BufferKeys {
    fn buffer(&self, frame: u32) -> Result<Buffer, String> {
        match (self.per_port, self.shared, self.alpha) {
            (Some(Parsed(room)), None, None) => Ok(Buffer::PerPort { bytes: room.bytes(frame) }),
            (None, Some(Parsed(room)), alpha) => {
                let alpha = alpha.unwrap_or(1.0);
                match (0.001..=1000.0).contains(&alpha) {
                    true => Ok(Buffer::Shared { bytes: room.bytes(frame), alpha }),
                    false => Err(format!("alpha = {alpha} is out of range; give 0.001 to 1000")),
                }
            }
            _ => Err("a buffer is either `per_port` or `shared` with its `alpha`; give one".into()),
        }
    }
}

impl MarkingKeys {
    fn marking(&self, frame: u32) -> Result<Option<Marking>, String> {
        let (Some(Parsed(low)), Some(Parsed(high)), None | Some(false)) =
            (self.low, self.high, self.off)
        else {
            let only_off = self.off == Some(true) && self.low.is_none() && self.high.is_none();
            return match only_off {
                true => Ok(None),
                false => Err("marking needs `low` and `high`, or `off = true` alone".into()),
            };
        };
        let (low, high) = (low.bytes(frame), high.bytes(frame));
        if low > high {
            return Err(format!("marks begin at {low} B but are certain from {high} B; swap them"));
        }
        let most = self.most.map_or(1.0, |Parsed(Share(most))| most);
        let when = self.when.map_or(When::Joining, |Parsed(when)| when);
        Ok(Some(Marking { low, high, most, when, of: None }))
    }
}

impl PauseKeys {
    fn pause(&self, frame: u32) -> Result<Option<Pause>, String> {
        match (self.stop, self.go, self.off) {
            (None, None, Some(true)) => Ok(None),
            (Some(Parsed(stop)), go, None | Some(false)) => {
                let stop = stop.bytes(frame);
                let go = go.map_or(stop, |Parsed(go)| go.bytes(frame));
                match go <= stop {
                    true => Ok(Some(Pause { stop, go })),
                    false => {
                        Err(format!("a link goes on at {go} B, above stop = {stop} B; lower `go`"))
                    }
                }
            }
            _ => Err("pause needs `stop`, or `off = true` alone".into()),
        }
    }
}
