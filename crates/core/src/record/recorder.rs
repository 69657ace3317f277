//! Writing records.

use super::call::Call;
use super::code::Code;
use super::{FRAME_MAX, MAGIC, VERSION};
use crate::{
    Completion, Config, ConfigError, Cookie, Edit, Instant, Layer, OpenError, Output, Promised,
    Refusal, Rejected, Request, StreamId, StreamSpec, Wake,
};
use alloc::vec::Vec;

/// Writes frames behind each other. Whoever owns it writes [`bytes`](Self::bytes) out now and then and then [`clear`](Self::clear)s
/// it, which bounds the memory it takes.
#[derive(Debug)]
pub struct Recorder {
    bytes: Vec<u8>,
    now: Instant,
    overflowed: u64,
}

impl Recorder {
    /// A recorder of the calls into a layer made from `config`. The header is written.
    pub fn new(config: &Config) -> Self {
        let mut recorder = Self {
            bytes: Vec::new(),
            now: Instant::ZERO,
            overflowed: 0,
        };
        recorder.bytes.extend_from_slice(&MAGIC);
        recorder.bytes.extend_from_slice(&VERSION.to_le_bytes());
        recorder.frame(|out| config.put(out));
        recorder
    }

    /// Writes one call down, after it was made.
    pub fn append(&mut self, now: Instant, call: &Call<'_>) {
        let passed = now
            .as_nanos()
            .wrapping_sub(self.now.as_nanos())
            .cast_signed();
        self.frame(|out| {
            out.push(call.code());
            zigzag(passed).put(out);
            call.put(out);
        });
        self.now = now;
    }

    /// What was written since the last [`clear`](Self::clear).
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was written; its memory is used again.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Calls with more in them than fits into a frame of [`FRAME_MAX`]: the record cannot be replayed beyond the first of them.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Writes what `body` writes as one frame.
    fn frame(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        body(&mut self.bytes);
        let length = self.bytes.len() - start - 4;
        if length > FRAME_MAX {
            // An empty frame is malformed: a reader stops here instead of going on without the call.
            self.bytes.truncate(start + 4);
            self.overflowed += 1;
            return;
        }
        self.bytes[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    }
}

/// A difference as a number that is small if the difference is small, whichever its sign.
pub(super) const fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

/// What [`zigzag`] was given.
pub(super) const fn unzigzag(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}

/// A [`Layer`] that writes its record if it is asked to. Its methods are the layer's; without a recorder they cost one test more.
#[derive(Debug)]
pub struct Recorded {
    layer: Layer,
    recorder: Option<Recorder>,
}

impl Recorded {
    /// A new layer; `record` says whether its calls are recorded.
    ///
    /// # Errors
    /// As [`Layer::new`].
    pub fn new(config: Config, record: bool) -> Result<Self, ConfigError> {
        let recorder = record.then(|| Recorder::new(&config));
        Ok(Self {
            layer: Layer::new(config)?,
            recorder,
        })
    }

    /// The layer: its counters and gauges.
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// The layer, to [`listen`](Layer::listen) to it and to [`drain`](Layer::drain) it. Calls made into it directly are missing in
    /// the record.
    pub fn layer_mut(&mut self) -> &mut Layer {
        &mut self.layer
    }

    /// The record, if one is made: to be written out and cleared now and then.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_mut()
    }

    /// As [`Layer::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(&mut self, now: Instant, spec: StreamSpec) -> Result<StreamId, OpenError> {
        let result = self.layer.open(now, spec);
        self.append(now, &Call::Open { spec, result });
        result
    }

    /// As [`Layer::close`].
    pub fn close(&mut self, now: Instant, stream: StreamId) {
        self.layer.close(now, stream);
        self.append(now, &Call::Close { stream });
    }

    /// As [`Layer::hold`].
    pub fn hold(&mut self, now: Instant, stream: StreamId, held: bool) {
        self.layer.hold(now, stream, held);
        self.append(now, &Call::Hold { stream, held });
    }

    /// As [`Layer::cancel`].
    pub fn cancel(&mut self, now: Instant, stream: StreamId, cookie: Cookie) -> bool {
        let found = self.layer.cancel(now, stream, cookie);
        self.append(
            now,
            &Call::Cancel {
                stream,
                cookie,
                found,
            },
        );
        found
    }

    /// As [`Layer::submit`].
    ///
    /// # Errors
    /// As there.
    pub fn submit(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejected> {
        let result = self.layer.submit(now, batch);
        self.append(now, &Call::Submit { batch, result });
        result
    }

    /// As [`Layer::complete`].
    pub fn complete(&mut self, now: Instant, batch: &[Completion]) {
        self.layer.complete(now, batch);
        self.append(now, &Call::Complete { batch });
    }

    /// As [`Layer::change`].
    ///
    /// # Errors
    /// As there.
    pub fn change(&mut self, now: Instant, edits: &[Edit]) -> Result<Promised, Refusal> {
        let result = self.layer.change(now, edits);
        self.append(now, &Call::Change { edits, result });
        result
    }

    /// As [`Layer::poll`].
    pub fn poll(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        let before = out.len();
        let wake = self.layer.poll(now, out);
        self.append(
            now,
            &Call::Poll {
                outputs: &out[before..],
                wake,
            },
        );
        wake
    }

    #[inline]
    fn append(&mut self, now: Instant, call: &Call<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.append(now, call);
        }
    }
}
