//! A modelled drive in real time: jobs wait as long as the drive would take, then the memory behind it carries them out.

use weir_core::{Dispatch, Instant, Op, Span, Tag};
use weir_model::drive::{Busy, Drive};

use crate::backend::Job;

/// The timing of a drive, in front of volumes in memory.
#[derive(Debug)]
pub(crate) struct Model {
    drive: Box<dyn Drive>,
    /// What the way from a client and back takes: answers come sooner by it.
    path: Span,
    /// The latest time of the drive's own at which something has ended: nothing begins before it any more.
    reached: Instant,
    /// By tag: the volume and its job.
    jobs: Vec<Option<(u32, Job)>>,
    /// By space: the size of the volume there, and where on the drive it begins. They lie one behind the other.
    places: Vec<(u64, u64)>,
}

impl Model {
    /// A drive for `spaces` spaces.
    pub(crate) fn new(
        config: &weir_model::drive::Config,
        path: Span,
        spaces: u32,
    ) -> Result<Self, weir_core::rule::Broken> {
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

    /// A volume of `size` bytes comes to a space; one of none has left it. Those behind it move, which takes no time: their data
    /// is in memory, and what the model makes of a place is how far the next one is.
    pub(crate) fn place(&mut self, space: u32, size: u64) {
        self.places[space as usize].0 = size;
        let mut behind = 0u64;
        for (size, base) in &mut self.places {
            *base = behind;
            behind = behind.saturating_add(*size);
        }
    }

    /// Takes a job in.
    ///
    /// # Errors
    /// The drive's queue is full.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        dispatch: &Dispatch,
        job: Job,
    ) -> Result<(), Busy> {
        let mut placed = *dispatch;
        if dispatch.op != Op::Flush {
            let base = self.places[dispatch.space.0 as usize].1;
            placed.offset = placed.offset.saturating_add(base);
        }
        self.drive.submit(now.max(self.reached), &placed)?;
        self.jobs[dispatch.tag.0 as usize] = Some((dispatch.space.0, job));
        Ok(())
    }

    /// The next job whose time has come, with its volume. What the model says of its outcome is always success.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(u32, Job)> {
        let until = now + self.path;
        // At its own time and not at the end of the path: what comes in between is not later than the drive.
        while let Some(at) = self.drive.next_completion().filter(|at| *at <= until) {
            self.reached = self.reached.max(at);
            if let Some(ended) = self.drive.pop(at.max(now)) {
                let Tag(tag) = ended.completion.tag;
                return self.jobs[tag as usize].take();
            }
        }
        None
    }

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
    fn volumes_lie_one_behind_the_other_whoever_comes_and_goes() {
        let config = weir_model::drive::Config::Null(weir_model::drive::null::Config::demo());
        let mut model = Model::new(&config, Span::ZERO, 4).unwrap();
        let bases = |model: &Model| -> Vec<u64> { model.places.iter().map(|p| p.1).collect() };
        for (space, size) in [(1, 10), (0, 5), (3, 7), (2, 1)] {
            model.place(space, size);
        }
        assert_eq!(bases(&model), [0, 5, 15, 16]);
        model.place(1, 0);
        assert_eq!(bases(&model), [0, 5, 5, 6]);
    }
}
