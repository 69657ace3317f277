//! Upgrades in place that clients of the interface request. The program that runs the server
//! carries them out, because it has the command line for the successor.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::api::Upgraded;
use crate::error::RequestRefusal;

/// The result of an upgrade for a client.
pub(crate) type UpgradeResult = Result<Upgraded, RequestRefusal>;

/// A function that tells the program that an upgrade is requested.
type Callback = Box<dyn Fn() + Send>;

/// The requests that wait for the result of an upgrade.
#[derive(Default)]
pub(crate) struct UpgradeRequests {
    requests: Mutex<WaitingRequests>,
    /// Notified once another process has taken over.
    handed_over: Notify,
}

#[derive(Default)]
struct WaitingRequests {
    /// `None` if the program does not carry out upgrades.
    notify: Option<Callback>,
    waiting: Vec<WaitingRequest>,
    /// True once another process has taken over, so that no result follows.
    is_handed_over: bool,
}

struct WaitingRequest {
    /// The client, as in [`Change::by`](crate::api::Change::by).
    by: String,
    result: oneshot::Sender<UpgradeResult>,
}

impl UpgradeRequests {
    /// Accepts requests, of which `notify` tells the program.
    pub(crate) fn accepting(notify: Callback) -> Self {
        let requests = Self::default();
        requests.lock().notify = Some(notify);
        requests
    }

    /// Requests an upgrade for the client `by`, and waits for its result.
    pub(crate) async fn request(&self, by: String) -> UpgradeResult {
        let (result, waits) = oneshot::channel();
        {
            let mut requests = self.lock();
            if requests.is_handed_over {
                return Err(RequestRefusal::handed_over());
            }
            let Some(notify) = &requests.notify else {
                return Err(RequestRefusal::conflict(
                    "this server cannot be upgraded, because no program runs it that could start another",
                ));
            };
            // The program answers from another thread, which waits for the lock until the request
            // is registered.
            notify();
            requests.waiting.push(WaitingRequest { by, result });
        }
        waits.await.map_err(|_| RequestRefusal::ending())?
    }

    /// Returns the clients that wait for the result of an upgrade, or `None` if there are none.
    pub(crate) fn clients(&self) -> Option<String> {
        let requests = self.lock();
        let clients: Vec<&str> = requests
            .waiting
            .iter()
            .map(|waiting| &*waiting.by)
            .collect();
        (!clients.is_empty()).then(|| clients.join(", "))
    }

    /// Passes the result of an upgrade to all requests that wait for it.
    pub(crate) fn answer(&self, result: &UpgradeResult) {
        let waiting = {
            let mut requests = self.lock();
            requests.is_handed_over = result.is_ok();
            std::mem::take(&mut requests.waiting)
        };
        if result.is_ok() {
            self.handed_over.notify_one();
        }
        for waiting in waiting {
            // The client may have disconnected.
            let _ = waiting.result.send(result.clone());
        }
    }

    /// Waits until another process has taken over.
    pub(crate) async fn handed_over(&self) {
        self.handed_over.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, WaitingRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for UpgradeRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.lock().waiting.len();
        f.debug_struct("UpgradeRequests")
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}
