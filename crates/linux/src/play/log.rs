//! Reads the output of fio: the log of requests of each job, and the report.

use serde::Deserialize;
use weir_core::Op;

/// The requests of one job, in the order of completion.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FioLog {
    /// The reads and writes of the job.
    pub entries: Vec<LoggedRequest>,
    /// The number of flushes. fio reports them only in sum, not in its log.
    pub flushes: u64,
    /// The mean time of a flush, in nanoseconds.
    pub flush_ns: u64,
}

/// One request in a log of fio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedRequest {
    /// The time of completion in milliseconds since 1970.
    pub ended_ms: u64,
    /// The time from submission to completion, in nanoseconds.
    pub latency_ns: u64,
    /// The operation: a read or a write.
    pub op: Op,
    /// The length of the request in bytes.
    pub bytes: u64,
}

/// The error of output that is not fio's, or of a job that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FioLogError {
    /// A line of a log cannot be parsed.
    #[error(
        "line {line} of fio's log of {job} is not of the form \"time, latency, direction, bytes\": {text}"
    )]
    Line {
        /// The name of the job.
        job: String,
        /// The number of the line, from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// The report cannot be parsed, or does not fit the jobs.
    #[error("fio's report is invalid: {0}")]
    Report(String),
    /// A job ended with an error.
    #[error("fio's job {job} ended with error {code} ({meaning})")]
    Failed {
        /// The name of the job.
        job: String,
        /// The number of the error (errno).
        code: i32,
        /// The system's message for the error.
        meaning: String,
    },
}

/// The parts of fio's JSON report that are used.
#[derive(Deserialize)]
struct Report {
    jobs: Vec<Reported>,
}

#[derive(Deserialize)]
struct Reported {
    jobname: String,
    #[serde(default)]
    error: i32,
    #[serde(default)]
    sync: FioSyncs,
}

#[derive(Deserialize, Default)]
struct FioSyncs {
    #[serde(default)]
    lat_ns: FioLatency,
}

#[derive(Deserialize, Default)]
struct FioLatency {
    #[serde(default)]
    mean: f64,
    #[serde(rename = "N", default)]
    count: u64,
}

/// Reads fio's report and the logs of its jobs, in their order. The report is JSON, which can
/// follow notices.
///
/// # Errors
/// Returns an error if a text is not in fio's format, or if a job failed.
pub fn read(report: &str, logs: &[String]) -> Result<Vec<FioLog>, FioLogError> {
    // Notices precede the report.
    let begins = report.find('{').unwrap_or(0);
    let parsed: Report =
        serde_json::from_str(&report[begins..]).map_err(|e| FioLogError::Report(e.to_string()))?;
    if parsed.jobs.len() != logs.len() {
        let (jobs, logs) = (parsed.jobs.len(), logs.len());
        return Err(FioLogError::Report(format!(
            "fio reports {jobs} jobs, but {logs} were played"
        )));
    }
    let read = parsed.jobs.iter().zip(logs).map(|(job, text)| {
        if job.error != 0 {
            return Err(FioLogError::Failed {
                job: job.jobname.clone(),
                code: job.error,
                meaning: std::io::Error::from_raw_os_error(job.error).to_string(),
            });
        }
        let lines = (1..).zip(text.lines());
        let entries = lines.map(|(line, text)| {
            entry(text).ok_or_else(|| FioLogError::Line {
                job: job.jobname.clone(),
                line,
                text: text.to_owned(),
            })
        });
        Ok(FioLog {
            entries: entries.collect::<Result<_, _>>()?,
            flushes: job.sync.lat_ns.count,
            flush_ns: job.sync.lat_ns.mean as u64,
        })
    });
    read.collect()
}

/// Parses a line of the form `time, latency, direction, bytes`. Further fields are ignored.
fn entry(line: &str) -> Option<LoggedRequest> {
    let mut words = line.split(',').map(|word| word.trim().parse::<u64>().ok());
    let mut next = || words.next().flatten();
    let (ended_ms, latency_ns) = (next()?, next()?);
    let op = match next()? {
        // fio's DDIR_READ and DDIR_WRITE.
        0 => Op::Read,
        1 => Op::Write,
        _ => return None,
    };
    Some(LoggedRequest {
        ended_ms,
        latency_ns,
        op,
        bytes: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"fio: a notice
{"jobs":[{"jobname":"w","error":0,"sync":{"lat_ns":{"mean":2752770.3,"N":341}}}]}"#;

    #[test]
    fn a_log_contains_requests_and_the_report_contains_flushes() {
        // Time in ms, latency in ns, direction, bytes, offset, priority.
        let text =
            "1767225602835, 389203, 1, 8192, 0, 0\n1767225602838, 194032, 0, 4096, 8192, 0\n";
        let logs = read(REPORT, &[text.to_owned()]).unwrap();
        assert_eq!((logs[0].flushes, logs[0].flush_ns), (341, 2_752_770));
        let first = LoggedRequest {
            ended_ms: 1_767_225_602_835,
            latency_ns: 389_203,
            op: Op::Write,
            bytes: 8192,
        };
        assert_eq!(logs[0].entries[0], first);
        assert_eq!(logs[0].entries[1].op, Op::Read);
    }

    #[test]
    fn errors_name_the_job_and_the_line() {
        let said = |report: &str, logs: &[&str]| {
            let logs: Vec<String> = logs.iter().map(|&l| l.to_owned()).collect();
            read(report, &logs).unwrap_err().to_string()
        };
        let line = said(REPORT, &["1, 2, 1, 4\n1, 2\n"]);
        assert!(
            line.starts_with("line 2 of fio's log of w is not"),
            "{line}"
        );
        assert!(said(REPORT, &[]).contains("1 jobs, but 0 were played"));
        assert!(said("fio: out of memory", &[""]).starts_with("fio's report is invalid: "));
        let failed = r#"{"jobs":[{"jobname":"a","error":5}]}"#;
        assert!(said(failed, &[""]).contains("job a ended with error 5"));
    }
}
