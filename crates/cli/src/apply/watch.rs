//! `weir apply --watch` restores the settings when other programs change them.

use crate::failure::Failure;
use crate::output;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_config::apply::KernelHost;
use weir_linux::{ApplyJournal, HostFiles, HostPlan, StepReport};

/// The interval between two checks of a host.
const LOOK: Duration = Duration::from_secs(1);
/// The interval in which a signal is noticed.
const NOTICE: Duration = Duration::from_millis(100);

/// Returns a flag that SIGTERM and SIGINT set, if it is wanted. From then on, these signals do not
/// end the process in the middle of a step.
pub(super) fn ending_flag(wanted: bool) -> Result<Option<Arc<AtomicBool>>, Failure> {
    if !wanted {
        return Ok(None);
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        let registered = flag::register(signal, Arc::clone(&ended));
        registered.map_err(|e| Failure::Run(format!("cannot watch for signals: {e}")))?;
    }
    Ok(Some(ended))
}

/// Restores settings that other programs change, until a signal ends the command. A line is printed
/// for each change, and once for each problem.
pub(super) fn watch(
    files: &mut dyn HostFiles,
    host: &KernelHost,
    journal: &mut ApplyJournal,
    ended: &AtomicBool,
) -> Result<(), Failure> {
    output::print_message(
        "watching the settings; SIGTERM ends the command and leaves them in place",
    );
    let mut trouble = String::new();
    loop {
        let mut waited = Duration::ZERO;
        while waited < LOOK {
            if ended.load(Ordering::Relaxed) {
                output::print_message("ended; the settings stay in place");
                return Ok(());
            }
            thread::sleep(NOTICE);
            waited += NOTICE;
        }
        let now = check_and_restore(files, host, journal);
        // A problem is printed when it begins, changes or ends, and not once per second.
        if now != trouble {
            match now.as_str() {
                "" => output::print_message("the problem no longer exists"),
                now => output::print_message(&format!("warning: {now}")),
            }
            trouble = now;
        }
    }
}

/// Checks a host once and restores its settings. Returns the problems, or an empty text if there
/// are none.
fn check_and_restore(
    files: &mut dyn HostFiles,
    host: &KernelHost,
    journal: &mut ApplyJournal,
) -> String {
    let plan = HostPlan::new(files, host);
    if let Some(problem) = plan.problems.first() {
        // A device or a unit that is missing can appear again. The settings of the others are not
        // changed for it.
        return problem.to_string();
    }
    // Settings that cannot be made are reported in every check. They are returned as a problem,
    // which is printed only once.
    let mut wrong = Vec::new();
    let mut say = |said: &StepReport| match said {
        StepReport::Left { .. } => wrong.push(said.to_string()),
        _ => output::print_message(&said.to_string()),
    };
    let done = weir_linux::apply(files, &plan, journal, &mut say);
    wrong.extend(done.err().map(|failed| failed.to_string()));
    wrong.join("; ")
}
