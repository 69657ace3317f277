//! Conversion of jobs to the text of a scenario's file, with comments where contracts can be added.

use super::job::FioJob;
use super::replay::JobReplay;
use super::{DRIVE, other_priority};
use crate::scenario::MergeSettings;
use crate::scenario::print::{print_kind, print_times};
use crate::scenario::trace::TraceKind;
use crate::text::Quoted;
use crate::units::{ByteSize as Bytes, Time};
use crate::words::Words;
use std::fmt::{self, Write};
use weir_core::{Priority, Span};
use weir_model::load::{Arrival, Program};

/// Returns the text of a scenario's file that plays these jobs.
pub(super) fn written(name: &str, jobs: &[FioJob]) -> String {
    let mut text = String::new();
    print(&mut text, name, jobs).expect("a String takes anything");
    text
}

fn print(f: &mut String, name: &str, jobs: &[FioJob]) -> fmt::Result {
    // A run has a single warm-up, so the longest ramp time of the jobs applies.
    let warm_up = jobs.iter().map(|j| j.ramp).max().unwrap_or(Span::ZERO);
    let ends = jobs
        .iter()
        .map(|j| j.program.start + j.program.start_spread + j.runtime);
    // One millisecond is the minimum of the key.
    let duration = ends.max().unwrap_or(Span::ZERO).max(Span::from_millis(1));
    writeln!(f, "name = {}", Quoted(name))?;
    writeln!(f, "drives = [{}]", Quoted(DRIVE))?;
    writeln!(f, "policies = [\"none\", \"bfq\", \"contract\"]")?;
    writeln!(f, "repetitions = 10")?;
    writeln!(f, "duration = \"{}\"", Time(duration))?;
    writeln!(f, "run_in = \"3s\"")?;
    writeln!(f, "warm_up = \"{}\"", Time(warm_up))?;
    writeln!(f, "layout = \"files\"")?;
    writeln!(
        f,
        "# With \"each\" every client has a group and a contract of its own, with \"none\" all share the root group."
    )?;
    let is_each = other_priority(jobs).is_none();
    let grouping = if is_each { "each" } else { "none" };
    writeln!(f, "grouping = \"{grouping}\"\n")?;
    writeln!(f, "# The host as Linux has it.\n[host]")?;
    writeln!(f, "nr_requests = \"linux\"\nadapter = \"linux\"")?;
    writeln!(f, "nomerges = {}", MergeSettings::LINUX.nomerges)?;
    for job in jobs {
        print_job(f, job, jobs)?;
    }
    writeln!(f, "\n# What is asked of the result, with contracts:")?;
    writeln!(f, "# [[expect]]\n# promise = \"all\"")
}

fn print_job(f: &mut String, job: &FioJob, all: &[FioJob]) -> fmt::Result {
    let program = &job.program;
    let name = &job.names[0];
    writeln!(f, "\n[[client]]")?;
    match job.names.len() {
        1 => writeln!(f, "name = {}", Quoted(name))?,
        several => {
            // `numjobs` appends the numbers to the name again.
            let base = name.rsplit_once('-').map_or(name.as_str(), |n| n.0);
            writeln!(f, "name = {}\nnumjobs = {several}", Quoted(base))?;
        }
    }
    match &job.replay {
        Some(replay) => print_replay(f, replay, program)?,
        None => print_kind(f, program)?,
    }
    print_place(f, job, all)?;
    writeln!(f, "direct = {}", !job.buffered)?;
    if job.replay.is_some() {
        // The times of the requests are those of the recorded load.
        let arrival = Arrival::Closed { think: Span::ZERO };
        print_times(
            f,
            &Program {
                arrival,
                ..*program
            },
        )?;
    } else {
        print_times(f, program)?;
    }
    if job.priority != Priority::default() {
        let class = job.priority.class.word();
        writeln!(f, "ionice = \"{class}:{}\"", job.priority.level)?;
    }
    writeln!(f, "# A contract, if grouping is \"each\":")?;
    writeln!(
        f,
        "# min = \"20MB/s\"\n# max = {{ bandwidth = \"50MB/s\" }}\n# share = 100"
    )
}

/// Prints the recorded load that a job plays.
fn print_replay(f: &mut String, replay: &JobReplay, program: &Program) -> fmt::Result {
    let options = &replay.options;
    writeln!(f, "read_iolog = {}", Quoted(&replay.name))?;
    writeln!(f, "replay_no_stall = {}", options.fast)?;
    writeln!(f, "replay_time_scale = {}", options.speed)?;
    writeln!(f, "replay_scale = {}", options.scale)?;
    if options.align > 1 {
        writeln!(f, "replay_align = \"{}\"", Bytes(options.align))?;
    }
    if !options.skip.is_empty() {
        writeln!(f, "replay_skip = \"{}\"", TraceKind::words(&options.skip))?;
    }
    writeln!(f, "iodepth = {}", program.depth)
}

/// Prints the position of a job's requests.
fn print_place(f: &mut String, job: &FioJob, all: &[FioJob]) -> fmt::Result {
    writeln!(f, "size = \"{}\"", Bytes(job.region.length))?;
    for (key, bytes) in [
        ("offset", job.region.start),
        ("offset_increment", job.increment),
    ] {
        if bytes > 0 {
            writeln!(f, "{key} = \"{}\"", Bytes(bytes))?;
        }
    }
    if let Some(file) = &job.file {
        // A path is not a valid name for a file in a scenario. Files are named after the first job
        // that uses them.
        let first = all.iter().find(|c| c.file.as_ref() == Some(file));
        let name = first.map_or("", |c| c.names[0].as_str());
        // All files and devices of a recorded load become one.
        let is_redirected = job.replay.as_ref().is_some_and(|r| r.options.together);
        let key = if is_redirected {
            "replay_redirect"
        } else {
            "file"
        };
        writeln!(f, "{key} = {}  # {}", Quoted(name), Quoted(file))?;
    }
    if job.program.files > 1 {
        writeln!(f, "nrfiles = {}", job.program.files)?;
    }
    Ok(())
}
