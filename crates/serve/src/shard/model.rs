//! A modelled drive in real time. Jobs are delayed as long as the drive would take, and are then
//! carried out by the memory behind it.

use weir_core::{Dispatch, Instant, Op, Span, Tag};
use weir_model::drive::{DriveModel, QueueFull};

use crate::backend::BackendJob;

/// The timing model of a drive, in front of volumes in memory.
#[derive(Debug)]
pub(crate) struct ModelledDrive {
    drive: Box<dyn DriveModel>,
    /// The time that a request takes from the client to the drive and back. Answers are advanced by
    /// it.
    path: Span,
    /// The latest end of a job so far, in the time of the model. The model accepts no submission
    /// before that time.
    reached: Instant,
    /// The jobs in the drive by their tag, each with the space of its volume.
    jobs: Vec<Option<(u32, BackendJob)>>,
    /// The size of each volume and its first byte on the drive, by space. The volumes are
    /// contiguous.
    places: Vec<(u64, u64)>,
}

impl ModelledDrive {
    /// Creates a drive for `spaces` spaces.
    pub(crate) fn new(
        config: &weir_model::drive::DriveConfig,
        path: Span,
        spaces: u32,
    ) -> Result<Self, weir_core::rule::RuleViolation> {
        let drive = config.build()?;
        let shape = drive.shape();
        let tags = usize::from(shape.queues) * usize::from(shape.tags);
        Ok(Self {
            drive,
            path,
            reached: Instant::ZERO,
            jobs: std::iter::repeat_with(|| None).take(tags).collect(),
            places: vec![(0, 0); spaces as usize],
        })
    }

    /// Sets the size of the volume in a space, which is 0 if the volume was removed. Volumes behind
    /// it move. That takes no time, because the data is in memory, and the model uses positions
    /// only for distances.
    pub(crate) fn place(&mut self, space: u32, size: u64) {
        self.places[space as usize].0 = size;
        let mut behind = 0u64;
        for (size, base) in &mut self.places {
            *base = behind;
            behind = behind.saturating_add(*size);
        }
    }

    /// Submits a job to the modelled drive.
    ///
    /// # Errors
    /// Returns [`QueueFull`] if the drive's queue is full.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        dispatch: &Dispatch,
        job: BackendJob,
    ) -> Result<(), QueueFull> {
        let mut placed = *dispatch;
        if dispatch.op != Op::Flush {
            let base = self.places[dispatch.space.0 as usize].1;
            placed.offset = placed.offset.saturating_add(base);
        }
        // Answers are advanced by `path`, so the model can be ahead of the clock.
        self.drive.submit(now.max(self.reached), &placed)?;
        self.jobs[dispatch.tag.0 as usize] = Some((dispatch.space.0, job));
        Ok(())
    }

    /// Returns the next job that is due, with its space. The model always reports success, so the
    /// outcome is that of the memory.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(u32, BackendJob)> {
        let until = now + self.path;
        // Each completion is processed at its own time instead of `until`, so that a job that is
        // submitted in between does not begin later than it would on the drive.
        while let Some(at) = self.drive.next_completion().filter(|at| *at <= until) {
            self.reached = self.reached.max(at);
            if let Some(ended) = self.drive.pop(at.max(now)) {
                let Tag(tag) = ended.completion.tag;
                return self.jobs[tag as usize].take();
            }
        }
        None
    }

    /// Returns the time of the next job, in the time of the server.
    pub(crate) fn next(&self) -> Option<Instant> {
        let next = self.drive.next_completion()?;
        Some(Instant::from_nanos(
            next.as_nanos().saturating_sub(self.path.as_nanos()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_stay_contiguous_when_others_come_and_go() {
        let config =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let mut model = ModelledDrive::new(&config, Span::ZERO, 4).unwrap();
        let bases =
            |model: &ModelledDrive| -> Vec<u64> { model.places.iter().map(|p| p.1).collect() };
        for (space, size) in [(1, 10), (0, 5), (3, 7), (2, 1)] {
            model.place(space, size);
        }
        // Volumes of 5, 10, 1 and 7 bytes in the order of the spaces.
        assert_eq!(bases(&model), [0, 5, 15, 16]);
        model.place(1, 0);
        // Without the 10 bytes of space 1, the last two begin 10 bytes earlier.
        assert_eq!(bases(&model), [0, 5, 5, 6]);
    }
}
