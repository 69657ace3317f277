//! Replaying records.

use super::call::Call;
use super::code::Malformed;
use super::reader::Reader;
use crate::{ConfigError, Instant, Layer, Output};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug};

/// A layer decided otherwise than the record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    /// The number of the call, from 0.
    pub frame: u64,
    /// Its `now`.
    pub now: Instant,
    /// Which of the call's results differs.
    pub what: String,
    /// What the record says.
    pub expected: String,
    /// What the layer said.
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

/// Why a record was not replayed to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplayError {
    /// It is no record, or one of another version, or was cut off.
    Malformed(Malformed),
    /// No layer can be made from its header.
    Config(ConfigError),
    /// The layer decided otherwise.
    Divergence(Divergence),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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

/// What was replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Calls.
    pub calls: u64,
    /// Outputs, all of them the same as recorded.
    pub outputs: u64,
    /// The `now` of the last call.
    pub now: Instant,
    /// Bytes up to the end of the last of these calls, or of the header.
    pub bytes: u64,
    /// The record had its end. Without it, it was cut after one of its calls, or inside the next: what was replayed is a beginning of what
    /// happened.
    pub whole: bool,
}

/// A listener that watches a replay: the layer, each call into it and what came of it.
type Watch<'a> = dyn FnMut(&mut Layer, Instant, &Call<'_>) + 'a;

/// A replay under way: fed with a record in pieces of any size, it makes the same calls into a layer of its own.
#[derive(Debug, Default)]
pub struct Replay {
    reader: Reader,
    layer: Option<Layer>,
    outputs: Vec<Output>,
    done: Replayed,
}

impl Replay {
    /// A replay that has been fed nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more bytes and makes every call that is whole.
    ///
    /// # Errors
    /// The bytes are no record, or the layer decides otherwise. After that the replay is of no further use.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ReplayError> {
        self.feed_watched(bytes, &mut |_, _, _| {})
    }

    /// As [`feed`](Self::feed), and shows each call to `watch` after it was made, and found to be as recorded.
    ///
    /// # Errors
    /// Those of [`Replay::feed`].
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

    /// The layer as it is after the calls made so far; `None` until the header has been fed.
    pub fn layer(&mut self) -> Option<&mut Layer> {
        self.layer.as_mut()
    }

    /// The record ends here.
    ///
    /// # Errors
    /// It was cut off before the first call, in its header.
    pub fn end(self) -> Result<Replayed, ReplayError> {
        if self.layer.is_none() {
            self.reader.end()?;
        }
        Ok(Replayed {
            bytes: self.reader.position(),
            whole: self.reader.has_ended(),
            ..self.done
        })
    }
}

/// Replays a record that is in memory as a whole.
///
/// # Errors
/// The bytes are no record, or the layer decides otherwise.
pub fn replay(record: &[u8]) -> Result<Replayed, ReplayError> {
    let mut replay = Replay::new();
    replay.feed(record)?;
    replay.end()
}

/// Names the first difference between two of the same call.
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
