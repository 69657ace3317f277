//! Contracts for the kernel of a host: the file that `weir apply` reads.

use crate::check;
use crate::document::Document;
use crate::file::{tables, text};
use crate::key::APPLIES;
use crate::problem::Problem;
use crate::read;
use std::path::Path;

pub use crate::host::{Cgroup, CgroupContract, KernelDrive, KernelHost, Queue, UNITS};

/// Reads and checks a file, without access to the host that it describes.
///
/// # Errors
/// Everything that is wrong with the file, as for [`crate::load`].
pub fn load(path: &Path) -> Result<KernelHost, Vec<Problem>> {
    let (file, text) = text(path)?;
    parse(&file, &text)
}

/// Reads and checks the text of a file. `file` is its name in problems and can be empty.
///
/// # Errors
/// The problems of the text, as [`load`] returns them.
pub fn parse(file: &str, text: &str) -> Result<KernelHost, Vec<Problem>> {
    let mut doc = Document::new(file, text);
    doc.family = APPLIES;
    let Some(table) = tables(&mut doc, text) else {
        return Err(doc.into_problems());
    };
    let (mut draft, drives) = read::host(&mut doc, &table);
    check::check(&mut doc, &mut draft, None);
    if doc.problem_count() > 0 {
        return Err(doc.into_problems());
    }
    let mut server = draft.server;
    server.places = std::mem::take(&mut doc.places);
    Ok(KernelHost { drives, server })
}

/// Returns the parts of contracts that the policies of their drives do not keep. The help names
/// only policies that a kernel has.
pub fn unkept(host: &KernelHost) -> Vec<Problem> {
    check::unkept(&host.server, |part| {
        match part.key {
        "min" | "min_iops" | "class" => {
            "no policy of the kernel keeps it, and it counts against the capacity; serve the drive by `weir serve`, \
             which keeps it"
                .to_owned()
        }
        "share" => "policies \"bfq\" and \"io.cost\" keep it, on a device that queues requests itself: \
                    not on a device mapper or an md"
            .to_owned(),
        "low" => "remove it; io.low was removed from Linux in 6.10, and policies \"bfq\" and \"io.cost\" work by weights".to_owned(),
        _ => part.help,
    }
    })
}

#[cfg(test)]
mod tests;
