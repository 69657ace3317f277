//! Replaying of records.

use super::call::Call;
use super::code::Malformed;
use super::reader::Reader;
use crate::{ConfigError, Instant, Layer, Output};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug};

/// A difference between the decisions of a layer and the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    /// The number of the call, counting from 0.
    pub frame: u64,
    /// The time of the call.
    pub now: Instant,
    /// The result of the call that differs.
    pub what: String,
    /// The result in the record.
    pub expected: String,
    /// The result of the replayed layer.
    pub got: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "call {} at {:?}: {} differs\n  recorded {}\n  replayed {}",
            self.frame, self.now, self.what, self.expected, self.got
        )
    }
}

/// The reason why a record was not replayed to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplayError {
    /// The bytes are not a record, have another version, or were cut off.
    Malformed(Malformed),
    /// The configuration in the header is invalid.
    Config(ConfigError),
    /// The layer decided differently.
    Divergence(Divergence),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error @ Malformed::Version(_)) => write!(f, "{error}"),
            Self::Malformed(error) => write!(f, "not a recording: {error}"),
            Self::Config(error) => write!(f, "the header of the recording is invalid: {error}"),
            Self::Divergence(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for ReplayError {}

impl From<Malformed> for ReplayError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

/// The totals of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayTotals {
    /// Calls that were repeated.
    pub calls: u64,
    /// Outputs, all of which were as recorded.
    pub outputs: u64,
    /// The time of the last call.
    pub now: Instant,
    /// Bytes up to the end of the last of these calls, or of the header if there is none. The end
    /// mark is included if it was read.
    pub bytes: u64,
    /// True if the record had its end mark. Without it, the record was cut after one of its calls
    /// or within the next one, and the replay covers only a part of the run.
    pub whole: bool,
}

/// A callback that receives each call of a replay and the layer after it.
type Watch<'a> = dyn FnMut(&mut Layer, Instant, &Call<'_>) + 'a;

/// A replay that is fed with a record in parts of any size, and makes the same calls into a layer
/// of its own.
#[derive(Debug, Default)]
pub struct Replay {
    reader: Reader,
    layer: Option<Layer>,
    outputs: Vec<Output>,
    done: ReplayTotals,
}

impl Replay {
    /// Creates a replay without any bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes and repeats every complete call.
    ///
    /// # Errors
    /// Fails if the bytes are not a record, or if the layer decides differently. The replay cannot
    /// be used any more then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ReplayError> {
        self.feed_watched(bytes, &mut |_, _, _| {})
    }

    /// Does the same as [`feed`](Self::feed), and passes each call to `watch` after it was repeated
    /// with the recorded result.
    ///
    /// # Errors
    /// Fails as [`Replay::feed`] does.
    pub fn feed_watched(&mut self, bytes: &[u8], watch: &mut Watch<'_>) -> Result<(), ReplayError> {
        self.reader.feed(bytes);
        if self.layer.is_none() {
            let Some(config) = self.reader.config()? else {
                return Ok(());
            };
            self.layer = Some(Layer::new(config.clone()).map_err(ReplayError::Config)?);
        }
        let Some(layer) = &mut self.layer else {
            return Ok(());
        };
        while let Some(frame) = self.reader.next()? {
            let got = frame.call.repeat(layer, frame.now, &mut self.outputs);
            // The recorded call is compared completely, including results and outputs.
            if got != frame.call {
                return Err(ReplayError::Divergence(divergence(
                    frame.number,
                    frame.now,
                    &frame.call,
                    &got,
                )));
            }
            if let Call::Poll { outputs, .. } = got {
                self.done.outputs += outputs.len() as u64;
            }
            self.done.calls += 1;
            self.done.now = frame.now;
            watch(layer, frame.now, &got);
        }
        Ok(())
    }

    /// Returns the layer in its state after the repeated calls, or `None` until the header is
    /// complete.
    pub fn layer(&mut self) -> Option<&mut Layer> {
        self.layer.as_mut()
    }

    /// Ends the replay and returns its totals.
    ///
    /// # Errors
    /// Fails if the record was cut off in its header.
    pub fn end(self) -> Result<ReplayTotals, ReplayError> {
        // A record that was cut off after its header is valid, but incomplete.
        if self.layer.is_none() {
            self.reader.end()?;
        }
        Ok(ReplayTotals {
            bytes: self.reader.position(),
            whole: self.reader.has_ended(),
            ..self.done
        })
    }
}

/// Replays a record that is completely in memory.
///
/// # Errors
/// Fails if the bytes are not a record, or if the layer decides differently.
pub fn replay(record: &[u8]) -> Result<ReplayTotals, ReplayError> {
    let mut replay = Replay::new();
    replay.feed(record)?;
    replay.end()
}

/// Returns the first difference between a recorded call and the repeated one.
fn divergence(frame: u64, now: Instant, expected: &Call<'_>, got: &Call<'_>) -> Divergence {
    let named = |what: String, expected: &dyn Debug, got: &dyn Debug| Divergence {
        frame,
        now,
        what,
        expected: format!("{expected:?}"),
        got: format!("{got:?}"),
    };
    let (
        Call::Poll {
            outputs: e,
            wake: e_wake,
        },
        Call::Poll {
            outputs: g,
            wake: g_wake,
        },
    ) = (expected, got)
    else {
        return named(format!("the result of {}", expected.name()), expected, got);
    };
    let same = e.iter().zip(g.iter()).take_while(|(e, g)| e == g).count();
    if same < e.len().max(g.len()) {
        return named(format!("output {same} of poll"), &e.get(same), &g.get(same));
    }
    named("the wake of poll".into(), e_wake, g_wake)
}
