//! The block layer, call by call: the requests and completions that a scheduler receives, and its
//! decisions.

use crate::error::{usage, wrong};
use crate::source::{PyDrive, PyPolicy, PyScenario};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_config::scenario::Choice;
use weir_core::{
    Completion, Flags, Instant, Layer, Op, Outcome, Output, Sizes, StreamId, StreamSpec, Tag,
};
use weir_sim::SimRun;

/// The minimum number of live requests for which each client has space, even if its program in the
/// scenario has fewer.
const PER_STREAM: u32 = 256;

/// The maximum number of requests that tables can hold.
const REQUESTS_MAX: u32 = 1 << 24;

/// The error code of a piece that failed.
const EIO: u16 = 5;

/// The layer between a scenario's clients and its drive: the contracts, limits and elevator of a
/// policy. It contains neither the clients' programs nor a drive. The caller provides the time, in
/// nanoseconds.
#[pyclass(module = "weir", name = "Elevator")]
#[derive(Debug)]
pub(crate) struct PyElevator {
    layer: Layer,
    clients: Vec<LayerClient>,
    now: u64,
    cookies: u64,
    outputs: Vec<Output>,
}

#[derive(Debug)]
struct LayerClient {
    name: String,
    stream: StreamId,
    space: weir_core::SpaceId,
}

/// A request of a client.
#[pyclass(frozen, eq, get_all, from_py_object, module = "weir", name = "Request")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PyRequest {
    /// The name of the client.
    client: String,
    /// The operation: "read", "write", "flush", "discard", "write-zeroes" or "extents".
    op: String,
    /// The first byte of the request in its space.
    offset: u64,
    /// The length in bytes, which is zero only for a flush.
    length: u32,
    /// True if the client waits for the request. Reads always count as such.
    sync: bool,
}

#[pymethods]
impl PyRequest {
    #[new]
    #[pyo3(signature = (client, op = "read", offset = 0, length = 4096, *, sync = false))]
    fn new(client: String, op: &str, offset: u64, length: u32, sync: bool) -> PyResult<Self> {
        find(op)?;
        let op = op.to_owned();
        Ok(Self {
            client,
            op,
            offset,
            length,
            sync,
        })
    }

    fn __repr__(&self) -> String {
        let Self {
            client,
            op,
            offset,
            length,
            sync,
        } = self;
        format!(
            "Request({client:?}, {op:?}, {offset}, {length}, sync={})",
            word(*sync)
        )
    }
}

/// A piece of a request that must be sent to the drive now.
#[pyclass(frozen, eq, get_all, module = "weir", name = "Dispatch")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PyDispatch {
    /// The tag to pass to `complete`.
    tag: u32,
    /// The hardware queue of the drive.
    queue: u16,
    /// The client that sent the request.
    client: String,
    /// The number of the request, as returned by `submit`.
    cookie: u64,
    /// The operation of the request.
    op: &'static str,
    /// The first byte of the piece in its space.
    offset: u64,
    /// The length of the piece in bytes.
    length: u32,
}

#[pymethods]
impl PyDispatch {
    fn __repr__(&self) -> String {
        let Self {
            tag,
            client,
            cookie,
            op,
            offset,
            length,
            ..
        } = self;
        format!("<Dispatch tag={tag} client={client:?} cookie={cookie} {op} {length}@{offset}>")
    }
}

/// A completed request. Times are in nanoseconds. The three waits add up to the request's whole
/// time.
#[pyclass(frozen, eq, get_all, module = "weir", name = "Done")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PyCompletion {
    /// The client that sent the request.
    client: String,
    /// The number of the request, as returned by `submit`.
    cookie: u64,
    /// The operation of the request.
    op: &'static str,
    /// The length of the request in bytes.
    length: u32,
    /// The result: "ok", "error" or "cancelled".
    outcome: &'static str,
    /// The time at which the request was submitted.
    submitted: u64,
    /// The time for which controllers throttled the request.
    limit: u64,
    /// The time that the request spent in the elevator.
    elevator: u64,
    /// The time that the request spent in the drive.
    drive: u64,
}

#[pymethods]
impl PyCompletion {
    fn __repr__(&self) -> String {
        let Self {
            client,
            cookie,
            op,
            length,
            outcome,
            ..
        } = self;
        format!("<Done client={client:?} cookie={cookie} {op} {length} {outcome}>")
    }
}

/// The decisions of the layer at one time, and the time of the next poll if nothing happens before.
#[pyclass(frozen, get_all, module = "weir", name = "Step")]
#[derive(Debug)]
pub(crate) struct PyStep {
    /// Pieces that must be sent to the drive.
    dispatched: Vec<Py<PyDispatch>>,
    /// Requests that have completed.
    done: Vec<Py<PyCompletion>>,
    /// Clients that must not send further requests for now.
    paused: Vec<String>,
    /// Clients that may send requests again.
    resumed: Vec<String>,
    /// The time at which to call `poll` again even if nothing happens, or `None` if that is not
    /// necessary.
    wake: Option<u64>,
    /// The reason for `wake`.
    why: Option<String>,
}

#[pymethods]
impl PyElevator {
    /// Creates the layer of a scenario's clients on a drive under a policy, at time 0.
    #[new]
    #[pyo3(signature = (scenario, policy, drive, case = None))]
    fn new(
        scenario: &PyScenario,
        policy: &PyPolicy,
        drive: &PyDrive,
        case: Option<&str>,
    ) -> PyResult<Self> {
        let script = scenario.one()?;
        // A scenario with cases uses the first one by default.
        let cases = script.cases();
        if let Some(unknown) = case.filter(|case| !cases.iter().any(|c| c == case)) {
            let (name, all) = (script.name(), cases.join(", "));
            return Err(usage(format!(
                "unknown case {unknown}: {name} has the cases {all}"
            )));
        }
        let config = &drive.profile.drive;
        let choice = Choice {
            drive: config,
            // Admission must hold for the whole drive, so that its worst case is the capacity.
            capacity: config.worst_case(u64::MAX).ok().flatten(),
            case: case.or_else(|| cases.first().map(String::as_str)),
            policy: &policy.policy.name,
            seconds: None,
        };
        let refuse = |problems: Vec<_>| wrong(&problems);
        let mut tuned = policy.policy.clone();
        let scenario = script.scenario(&choice).map_err(refuse)?;
        script.tune(&choice, &mut tuned).map_err(refuse)?;
        let scenario = scenario.under(&tuned);
        let mut config = SimRun::config(&scenario, &tuned);
        // The caller may send more requests than the scenario's programs do.
        config.sizes = roomy(config.sizes);
        let mut layer = Layer::new(config).map_err(usage)?;
        let edits = SimRun::edits(&scenario, &tuned);
        // Refused promises are an error of the caller.
        layer.change(Instant::ZERO, &edits).map_err(usage)?;
        let clients = scenario.clients.iter().map(|client| {
            let spec = StreamSpec {
                group: client.group,
                priority: client.priority,
            };
            let stream = layer.open(Instant::ZERO, spec).map_err(usage)?;
            let (name, space) = (client.name.clone(), client.space);
            Ok(LayerClient {
                name,
                stream,
                space,
            })
        });
        let clients = clients.collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            layer,
            clients,
            now: 0,
            cookies: 0,
            outputs: Vec::new(),
        })
    }

    /// The names of the clients.
    #[getter]
    fn clients(&self) -> Vec<&str> {
        self.clients.iter().map(|c| c.name.as_str()).collect()
    }

    /// The time of the last call, in nanoseconds.
    #[getter]
    fn now(&self) -> u64 {
        self.now
    }

    /// The number of pieces in the drive.
    #[getter]
    fn in_flight(&self) -> u32 {
        self.layer.in_flight()
    }

    /// Submits requests at `now`, all at once. Returns their numbers, which identify them when they
    /// complete. If a request is refused, those before it are accepted.
    fn submit(&mut self, now: u64, requests: Vec<PyRequest>) -> PyResult<Vec<u64>> {
        // All requests are converted before the first is submitted, so that an unknown name submits
        // none.
        let batch = requests.iter().enumerate().map(|(at, request)| {
            let client = self.client(&request.client)?;
            let flags = if request.sync {
                Flags::SYNC
            } else {
                Flags::NONE
            };
            Ok(weir_core::Request {
                stream: client.stream,
                space: client.space,
                op: find(&request.op)?,
                flags,
                offset: request.offset,
                length: request.length,
                cookie: self.cookies + at as u64,
                within: 0,
            })
        });
        let batch = batch.collect::<PyResult<Vec<_>>>()?;
        let at = self.at(now)?;
        let first = self.cookies;
        let submitted = self.layer.submit(at, &batch);
        let accepted = submitted.map_or_else(|r| r.accepted, |()| batch.len());
        // Numbers of refused requests are used again.
        self.cookies += accepted as u64;
        match submitted {
            Ok(()) => Ok((first..self.cookies).collect()),
            Err(refused) => Err(usage(format!(
                "{:?} was refused after {} others were accepted: {:?}",
                requests[accepted], accepted, refused.reason
            ))),
        }
    }

    /// Completes pieces at `now`, all at once. Set `failed` if the drive could not carry them out.
    /// Tags that are not in flight are counted and ignored.
    #[pyo3(signature = (now, tags, *, failed = false))]
    fn complete(&mut self, now: u64, tags: Vec<u32>, failed: bool) -> PyResult<()> {
        let completion = |tag| {
            if failed {
                Completion::error(Tag(tag), EIO)
            } else {
                Completion::ok(Tag(tag))
            }
        };
        let batch: Vec<_> = tags.into_iter().map(completion).collect();
        let at = self.at(now)?;
        self.layer.complete(at, &batch);
        Ok(())
    }

    /// Returns the decisions of the layer at `now`.
    fn poll(&mut self, py: Python<'_>, now: u64) -> PyResult<PyStep> {
        let at = self.at(now)?;
        let wake = self.layer.poll(at, &mut self.outputs);
        let mut step = PyStep {
            dispatched: Vec::new(),
            done: Vec::new(),
            paused: Vec::new(),
            resumed: Vec::new(),
            wake: wake.map(|w| w.at.as_nanos()),
            why: wake.map(|w| format!("{:?}", w.reason)),
        };
        for output in std::mem::take(&mut self.outputs) {
            match output {
                Output::Dispatch(d) => step.dispatched.push(Py::new(py, self.dispatch(&d))?),
                Output::Done(d) => step.done.push(Py::new(py, self.done(&d))?),
                Output::Pause(stream) => step.paused.push(self.name(stream)),
                Output::Resume(stream) => step.resumed.push(self.name(stream)),
            }
        }
        Ok(step)
    }

    /// The number of completions whose tags were not in flight.
    #[getter]
    fn stray(&self) -> u64 {
        self.layer.counters().stray
    }
}

impl PyElevator {
    fn at(&mut self, now: u64) -> PyResult<Instant> {
        // The layer would clamp the time, which would hide the mistake of the caller.
        if now < self.now {
            let last = self.now;
            let reason = format!("now: {now} must not be before {last}, the time of the last call");
            return Err(PyValueError::new_err(reason));
        }
        self.now = now;
        Ok(Instant::from_nanos(now))
    }

    fn client(&self, name: &str) -> PyResult<&LayerClient> {
        let found = self.clients.iter().find(|c| c.name == name);
        found.ok_or_else(|| {
            let all = self.clients().join(", ");
            usage(format!("unknown client {name:?}; use one of {all}"))
        })
    }

    fn name(&self, stream: StreamId) -> String {
        let client = self.clients.iter().find(|c| c.stream == stream);
        // Streams are opened only at the beginning, so that each one has a client.
        client.map_or_else(String::new, |c| c.name.clone())
    }

    fn dispatch(&self, d: &weir_core::Dispatch) -> PyDispatch {
        PyDispatch {
            tag: d.tag.0,
            queue: d.queue.0,
            client: self.name(d.stream),
            cookie: d.cookie,
            op: name(d.op),
            offset: d.offset,
            length: d.length,
        }
    }

    fn done(&self, d: &weir_core::Done) -> PyCompletion {
        PyCompletion {
            client: self.name(d.stream),
            cookie: d.cookie,
            op: name(d.op),
            length: d.length,
            outcome: match d.outcome {
                Outcome::Ok => "ok",
                Outcome::Error(_) => "error",
                Outcome::Cancelled => "cancelled",
            },
            submitted: d.submitted.as_nanos(),
            limit: d.waits.limit.as_nanos(),
            elevator: d.waits.elevator.as_nanos(),
            drive: d.waits.drive.as_nanos(),
        }
    }
}

/// Enlarges tables so that callers can send more requests than the scenario's programs need.
fn roomy(sizes: Sizes) -> Sizes {
    // Saturation and the maximum only concern scenarios of more than 65,536 clients.
    let room = sizes.streams.saturating_mul(PER_STREAM).min(REQUESTS_MAX);
    Sizes {
        per_stream: sizes.per_stream.max(PER_STREAM),
        requests: sizes.requests.max(room),
        ..sizes
    }
}

/// Returns the name of an operation.
fn name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
        Op::WriteZeroes => "write-zeroes",
        Op::Extents => "extents",
    }
}

/// Returns the operation with a name.
fn find(op: &str) -> PyResult<Op> {
    Op::ALL.into_iter().find(|o| name(*o) == op).ok_or_else(|| {
        let all = Op::ALL.map(name).join(", ");
        usage(format!("unknown op {op:?}; use one of {all}"))
    })
}

/// Returns a truth value as Python writes it.
fn word(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}
