//! Checks each record by itself, and against the other records of its run.

use crate::agree::faults::Faults;
use serde_json::Value;

/// The record of a client in one run.
pub(crate) type JsonRecord = Value;

/// The records of one run: those of the clients, and that of the total.
pub(crate) type RunRecords = Vec<JsonRecord>;

/// Returns the runs of each policy, in the order in which they are written.
pub(crate) fn cells(json: &str) -> Vec<(String, Vec<RunRecords>)> {
    let mut cells: Vec<(String, Vec<RunRecords>)> = Vec::new();
    for line in json.lines() {
        let record: JsonRecord = serde_json::from_str(line).expect("an object a line");
        let policy = record["policy"].as_str().expect("a name").to_owned();
        let repeat = record["repeat"].as_u64().expect("a number");
        // The records of a policy follow each other, and so do those of a run.
        if cells.last().is_none_or(|(last, _)| *last != policy) {
            cells.push((policy, Vec::new()));
        }
        let runs = &mut cells.last_mut().expect("one was added").1;
        if runs.last().is_none_or(|run| run[0]["repeat"] != repeat) {
            runs.push(Vec::new());
        }
        runs.last_mut().expect("one was added").push(record);
    }
    cells
}

pub(crate) fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or(0.0)
}

pub(crate) fn count(of: &Value) -> u64 {
    of.as_u64().unwrap_or(0)
}

pub(crate) fn name(record: &JsonRecord) -> &str {
    record["client"].as_str().expect("a name")
}

/// Returns the fate of the client's promise, if it has one.
pub(crate) fn fate(record: &JsonRecord) -> Option<&str> {
    record["promise"].as_str()
}

/// Returns true if a promise with this fate fails an expectation.
pub(crate) fn is_failure(fate: &str) -> bool {
    !matches!(fate, "kept" | "excused")
}

/// Returns the longest wait of a request of the client, in microseconds.
pub(crate) fn longest_us(record: &JsonRecord) -> Option<f64> {
    let answered = record["latency_us"]["max"].as_f64();
    let waiting = record["unanswered_us"].as_f64();
    answered.into_iter().chain(waiting).reduce(f64::max)
}

/// Checks every record of every run.
pub(crate) fn check(cells: &[(String, Vec<RunRecords>)], faults: &mut Faults) {
    let none = cells.iter().find(|(policy, _)| policy == "none");
    let none = none.map_or(&[][..], |(_, runs)| runs);
    for (policy, runs) in cells {
        for run in runs {
            let (clients, total) = (&run[..run.len() - 1], &run[run.len() - 1]);
            let before = match none {
                // If `none` was played once, every repetition is compared with that run.
                [only] => Some(only),
                all => all.iter().find(|r| r[0]["repeat"] == run[0]["repeat"]),
            };
            for (at, record) in clients.iter().enumerate() {
                let head = format!("{policy}, run {}, {}", record["repeat"], name(record));
                let before = before.filter(|_| policy != "none").map(|run| &run[at]);
                faults.within(&head, |faults| {
                    alone(record, faults);
                    promise(record, faults);
                    starves(record, before, faults);
                });
            }
            faults.within(&format!("{policy}, total"), |faults| {
                faults.same("its name", name(total), "total");
                alone(total, faults);
                for key in ["requests", "bytes"] {
                    let sum: u64 = clients.iter().map(|r| count(&r[key])).sum();
                    faults.same(key, count(&total[key]), sum);
                }
            });
        }
    }
}

/// Checks the figures of one record.
fn alone(record: &JsonRecord, faults: &mut Faults) {
    nulls("", record, faults);
    let (requests, bytes) = (count(&record["requests"]), count(&record["bytes"]));
    let latency = &record["latency_us"];
    faults.same(
        "latency is null where nothing was answered",
        latency.is_null(),
        requests == 0,
    );
    // Percentiles must not decrease.
    let order = ["min", "p50", "p90", "p99", "p999", "max"].map(|key| number(&latency[key]));
    faults.check(order.is_sorted(), || format!("{latency} is in order"));
    let between = (order[0]..=order[5]).contains(&number(&latency["mean"]));
    faults.check(between, || format!("the mean lies within {latency}"));
    let (seconds, got) = (
        number(&record["seconds"]),
        number(&record["bandwidth_mb_per_s"]),
    );
    // The length is known to three digits only.
    if seconds > 0.1 {
        let off = (got - bytes as f64 / 1e6 / seconds).abs();
        // The tolerance has two parts: the rounding of the rate, and that of the length.
        let known = off <= 0.001 + got * 0.000_6 / seconds;
        faults.check(known, || format!("{got} MB/s are {bytes} in {seconds} s"));
    }
    let worst = record["worst_second_mb_per_s"].as_f64();
    faults.check(worst.is_none_or(|worst| worst <= got), || {
        format!("the worst second, {worst:?} MB/s, is not above the mean of {got}")
    });
    let kinds: Vec<&Value> = (["reads", "writes", "flushes"].iter())
        .filter_map(|kind| record.get(kind))
        .collect();
    for kind in &kinds {
        let none = count(&kind["requests"]) == 0;
        faults.same("latency of a kind", kind["latency_us"].is_null(), none);
    }
    if !kinds.is_empty() {
        let sum = |key: &str| kinds.iter().map(|kind| count(&kind[key])).sum::<u64>();
        faults.same("requests of all kinds", sum("requests"), requests);
        faults.same("bytes of all kinds", sum("bytes"), bytes);
    }
}

/// Checks that the only null is the latency of a client without completed requests.
fn nulls(key: &str, value: &Value, faults: &mut Faults) {
    match value {
        Value::Null => faults.check(key == "latency_us", || format!("{key} is null")),
        Value::Object(all) => {
            for (key, value) in all {
                nulls(key, value, faults);
            }
        }
        Value::Array(all) => {
            for value in all {
                nulls(key, value, faults);
            }
        }
        _ => {}
    }
}

/// Checks the verdicts on a promise.
fn promise(record: &JsonRecord, faults: &mut Faults) {
    let is_promised = ["promised_mb_per_s", "promised_iops"].map(|key| record.get(key).is_some());
    let is_promised = is_promised.contains(&true);
    faults.same("a fate", fate(record).is_some(), is_promised);
    let Some(fate) = fate(record) else {
        return;
    };
    let all = &record["promise_seconds"];
    let of = |key: &str| count(&all[key]);
    let (kept, short, excused) = (of("kept"), of("short"), of("excused"));
    faults.same("promised seconds", of("promised"), kept + short + excused);
    // Promised seconds are those of the measurement, of which the client's own time is a part.
    // Their number follows from the number of complete windows.
    let windows = record["series_mb_per_s"].as_array().map_or(0, Vec::len);
    let whole = (windows as f64 * number(&record["series_step_s"]) + 0.000_6).floor() as u64;
    faults.same("whole seconds", of("promised"), whole);
    let sum = |key: &str| {
        let counts = all[key].as_object();
        counts.map_or(0, |counts| counts.values().map(count).sum::<u64>())
    };
    faults.same("short seconds with a cause", sum("short_by"), short);
    faults.same("excused seconds with a reason", sum("excused_by"), excused);
    faults.check(sum("neighbours") <= short, || {
        "a neighbour has a short second".into()
    });
    faults.check(of("unasked") <= kept, || {
        "a second without requests was kept".into()
    });
    let empty = Vec::new();
    let at = all["short_at"].as_array().unwrap_or(&empty);
    faults.same("short seconds", at.len() as u64, short);
    for (cause, counted) in all["short_by"].as_object().into_iter().flatten() {
        let some = at.iter().filter(|second| second["cause"] == cause.as_str());
        faults.same(cause, some.count() as u64, count(counted));
    }
    let ordered = at.is_sorted_by(|a, b| count(&a["second"]) < count(&b["second"]));
    faults.check(ordered, || "short seconds are in order".into());
    let last = at.last().map_or(0, |last| count(&last["second"]) + 1);
    // A short second must be within the measurement.
    faults.check(last <= whole, || format!("second {last} of {whole}"));
    let part = at
        .iter()
        .all(|second| (1..=count(&second["owed"])).contains(&count(&second["lacking"])));
    faults.check(part, || {
        format!("lacking is a part of what is owed: {at:?}")
    });
    let lacking: u64 = at.iter().map(|second| count(&second["lacking"])).sum();
    let key = match record.get("promised_mb_per_s") {
        Some(_) => "lacking_bytes",
        None => "lacking_requests",
    };
    faults.same(key, of(key), lacking);
    let met = (kept + short > 0).then(|| kept as f64 / (kept + short) as f64);
    let shown = record["windows_met"].as_f64();
    // Figures have three digits, so they differ by at most 0.0005 from the exact value.
    let near = |a: f64, b: f64| (a - b).abs() < 0.000_6;
    let same = met.zip(shown).map_or(met == shown, |(a, b)| near(a, b));
    faults.check(same, || format!("windows_met is {shown:?}, not {met:?}"));
    judged(
        record,
        fate,
        (kept, short, count(&all["excused_by"]["own-depth"])),
        faults,
    );
}

/// Checks the fate of a promise that was kept in `kept` seconds, short in `short`, and excused
/// because of the queue depth in `depth`.
fn judged(
    record: &JsonRecord,
    fate: &str,
    (kept, short, depth): (u64, u64, u64),
    faults: &mut Faults,
) {
    let promised = count(&record["promise_seconds"]["promised"]);
    let wanted = match (short, kept) {
        _ if promised == 0 => "not judged",
        (0, kept) if depth > kept => "out of reach",
        (0, 0) => "excused",
        (0, _) => "kept",
        _ => match is_beyond(record) {
            Some(true) => "out of reach",
            None if fate == "out of reach" => fate,
            Some(false) | None => "broken",
        },
    };
    faults.same("its promise", fate, wanted);
}

/// Returns true if the client would not get its min even with the drive to itself. `None` if the
/// record does not contain enough information.
fn is_beyond(record: &JsonRecord) -> Option<bool> {
    let promised = record["promised_mb_per_s"].as_f64()?;
    let Some(alone) = record["alone_mb_per_s"].as_f64() else {
        return Some(false);
    };
    // A promise counts as missed if more than 1 % is missing.
    let enough = promised * 0.99;
    // Figures are known to three digits, so a smaller difference is not conclusive.
    ((alone - enough).abs() > 0.002).then_some(alone < enough)
}

/// Checks whether a client starves, compared with its bandwidth under `none`.
fn starves(record: &JsonRecord, before: Option<&JsonRecord>, faults: &mut Faults) {
    let got = number(&record["bandwidth_mb_per_s"]);
    let least = before.map(|before| number(&before["bandwidth_mb_per_s"]) / 100.0);
    let waits = longest_us(record).is_some_and(|us| us > 1e6);
    let is_limited = record["limited_by"] == "limit";
    let wanted = match least {
        _ if is_limited => None,
        // Figures are known to three digits, so a smaller difference is not conclusive.
        Some(least) if (got - least).abs() < 0.001 && least > 0.0 => return,
        Some(least) if got < least => Some("bandwidth"),
        _ if waits => Some("wait"),
        _ => None,
    };
    faults.same("starved", record["starved"].as_str(), wanted);
}
