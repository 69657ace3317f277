//! A modelled drive in real time: jobs wait as long as the drive would take, then the memory behind it carries them out.

use weir_core::{Dispatch, Instant, Tag};
use weir_drive::Drive;

use crate::backend::Job;

/// The timing of a drive, in front of volumes in memory.
#[derive(Debug)]
pub(crate) struct Model {
    drive: Box<dyn Drive>,
    /// By tag: the volume and its job.
    jobs: Vec<Option<(u32, Job)>>,
}

impl Model {
    pub(crate) fn new(config: &weir_drive::Config) -> Result<Self, weir_drive::ConfigError> {
        let drive = config.build()?;
        let shape = drive.shape();
        let tags = usize::from(shape.queues) * usize::from(shape.tags);
        Ok(Self {
            drive,
            jobs: std::iter::repeat_with(|| None).take(tags).collect(),
        })
    }

    /// Takes a job in; gives it back when the drive's queue is full.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        dispatch: &Dispatch,
        job: Job,
    ) -> Result<(), Box<Job>> {
        if self.drive.submit(now, dispatch).is_err() {
            return Err(Box::new(job));
        }
        self.jobs[dispatch.tag.0 as usize] = Some((dispatch.space.0, job));
        Ok(())
    }

    /// The next job whose time has come, with its volume. What the model says of its outcome is always success.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(u32, Job)> {
        let Tag(tag) = self.drive.pop(now)?.completion.tag;
        self.jobs[tag as usize].take()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.drive.next_completion()
    }
}
