//! Looks at the shards once a second, for everybody that asks: however often that is, the shards are asked no more often.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::api::Event;
use tokio::sync::broadcast;
use weir_config::Room;
use weir_serve::{Detail, Watch};

use crate::history::History;
use crate::now_ms;
use crate::sample::Sample;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Events that a client that reads slowly may be behind, before some are left out.
const BEHIND: usize = 64;
/// Metrics that are younger are given again.
const FRESH: Duration = Duration::from_millis(500);

/// An event as it goes to every client.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) name: &'static str,
    pub(crate) data: String,
}

/// What was seen last, and those that hear of the next.
#[derive(Debug)]
pub(crate) struct Watcher {
    watch: Watch,
    began: Instant,
    last: RwLock<Arc<Sample>>,
    history: Mutex<History>,
    ready: std::sync::atomic::AtomicBool,
    events: broadcast::Sender<Arc<Sent>>,
    /// When they were asked for last, how much of them, and they.
    metrics: Mutex<Option<(Instant, Detail, Arc<str>)>>,
}

impl Watcher {
    pub(crate) fn new(watch: Watch) -> Self {
        Self {
            watch,
            began: Instant::now(),
            last: RwLock::default(),
            history: Mutex::default(),
            ready: std::sync::atomic::AtomicBool::new(false),
            events: broadcast::channel(BEHIND).0,
            metrics: Mutex::default(),
        }
    }

    /// The last sample.
    pub(crate) fn last(&self) -> Arc<Sample> {
        Arc::clone(&self.last.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last hour.
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every thread that serves runs.
    pub(crate) fn is_running(&self) -> bool {
        self.watch.is_running()
    }

    /// Whether every shard answered when they were asked last.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Since the start, seconds.
    pub(crate) fn uptime_seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Every event from now on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<Sent>> {
        self.events.subscribe()
    }

    /// Tells everybody that listens.
    pub(crate) fn tell(&self, event: &Event) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let data = match event {
            Event::Second(second) => serde_json::to_string(second),
            Event::Short(short) => serde_json::to_string(short),
            Event::Change(change) => serde_json::to_string(change),
        };
        let Ok(data) = data else { return };
        let name = event.name();
        // Those that listen may have gone just now.
        let _ = self.events.send(Arc::new(Sent { name, data }));
    }

    /// All metrics. Asks the shards, unless somebody did just now. It blocks.
    pub(crate) fn metrics(
        &self,
        rooms: &BTreeMap<String, Room>,
        detail: Detail,
    ) -> Option<Arc<str>> {
        let mut kept = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, kept, text)) = &*kept
            && at.elapsed() < FRESH
            && *kept == detail
        {
            return Some(Arc::clone(text));
        }
        let text: Arc<str> = self.watch.metrics(rooms, detail)?.into();
        *kept = Some((Instant::now(), detail, Arc::clone(&text)));
        Some(text)
    }

    /// Looks once. It blocks, for a second at most.
    pub(crate) fn look(&self) {
        let drives = self.watch.figures();
        self.ready
            .store(drives.is_some(), std::sync::atomic::Ordering::Relaxed);
        let Some(drives) = drives else { return };
        let at = (self.began.elapsed().as_nanos() as u64, now_ms());
        let sample = Arc::new(Sample::after(&self.last(), at, drives));
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&sample);
        self.history().add(&sample);
        sample.events().for_each(|event| self.tell(&event));
    }
}

/// Looks again and again; ends if a look panics.
pub(crate) async fn run(watcher: Arc<Watcher>) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let watcher = Arc::clone(&watcher);
        // A shard that has failed is said by its absence.
        let looked = tokio::task::spawn_blocking(move || watcher.look()).await;
        if looked.is_err() {
            return;
        }
    }
}
