//! Requests the state of the shards once a second, on behalf of all clients.
//!
//! Clients read the last sample ([`Watcher::last`]) or subscribe to events ([`Watcher::listen`]),
//! so that their number does not affect the shards.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::api::Event;
use tokio::sync::broadcast;
use weir_config::DriveRoom;
use weir_serve::{Detail, ServerMonitor};

use crate::history::FigureHistory;
use crate::now_ms;
use crate::sample::ServerSample;

/// The interval between two samples.
const PERIOD: Duration = Duration::from_secs(1);
/// The number of events that a client can be behind before it misses some.
const BEHIND: usize = 64;
/// The age up to which metrics are reused.
const FRESH: Duration = Duration::from_millis(500);

/// An event in the form in which all clients receive it.
#[derive(Debug)]
pub(crate) struct EncodedEvent {
    pub(crate) name: &'static str,
    pub(crate) data: String,
}

/// The last sample, and the subscribers to the next ones.
#[derive(Debug)]
pub(crate) struct Watcher {
    watch: ServerMonitor,
    began: Instant,
    last: RwLock<Arc<ServerSample>>,
    history: Mutex<FigureHistory>,
    ready: std::sync::atomic::AtomicBool,
    events: broadcast::Sender<Arc<EncodedEvent>>,
    /// The time, the detail and the text of the last metrics.
    metrics: Mutex<Option<(Instant, Detail, Arc<str>)>>,
}

impl Watcher {
    pub(crate) fn new(watch: ServerMonitor) -> Self {
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

    /// Returns the last sample.
    pub(crate) fn last(&self) -> Arc<ServerSample> {
        Arc::clone(&self.last.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the history of the last hour.
    pub(crate) fn history(&self) -> MutexGuard<'_, FigureHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if all threads that serve are running.
    pub(crate) fn is_running(&self) -> bool {
        self.watch.is_running()
    }

    /// Returns true if every shard replied to the last request.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the seconds since the start.
    pub(crate) fn uptime_seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Subscribes to the events from now on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<EncodedEvent>> {
        self.events.subscribe()
    }

    /// Sends an event to all subscribers.
    pub(crate) fn send_event(&self, event: &Event) {
        // Without subscribers, nothing has to be serialised.
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
        // An error means that the last subscriber has just left.
        let _ = self.events.send(Arc::new(EncodedEvent { name, data }));
    }

    /// Returns all metrics. Requests them from the shards, unless they were requested just before.
    /// Blocks.
    pub(crate) fn metrics(
        &self,
        rooms: &BTreeMap<String, DriveRoom>,
        detail: Detail,
    ) -> Option<Arc<str>> {
        // The lock is held until the shards have replied, so that concurrent requests share one
        // result.
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

    /// Takes one sample. Blocks for at most a second.
    pub(crate) fn take_sample(&self) {
        let drives = self.watch.figures();
        self.ready
            .store(drives.is_some(), std::sync::atomic::Ordering::Relaxed);
        // If a shard does not reply, the last sample stays.
        let Some(drives) = drives else { return };
        let at = (self.began.elapsed().as_nanos() as u64, now_ms());
        let sample = Arc::new(ServerSample::after(&self.last(), at, drives));
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&sample);
        self.history().add(&sample);
        sample.events().for_each(|event| self.send_event(&event));
    }
}

/// Takes samples for ever. Ends if taking a sample panics.
pub(crate) async fn run(watcher: Arc<Watcher>) {
    let mut tick = tokio::time::interval(PERIOD);
    // After a delay, missed samples are skipped instead of being taken in a burst.
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let watcher = Arc::clone(&watcher);
        // A failed shard shows in the absence of its figures.
        let looked = tokio::task::spawn_blocking(move || watcher.take_sample()).await;
        if looked.is_err() {
            return;
        }
    }
}
