//! Prints the features of a host as a table.

use crate::failure::Failure;
use crate::output;
use weir_lab::report::{Column, ReportTable};
use weir_linux::{HostDevice, HostFiles, HostPlan, StackKind};

/// Returns a table of a host's block devices, and a line on its cgroups.
pub(super) fn table(files: &dyn HostFiles, plan: &HostPlan) -> Result<String, Failure> {
    let devices = HostDevice::all(files);
    let devices = devices.map_err(|e| Failure::Run(format!("cannot list /sys/block: {e}")))?;
    let mut table = ReportTable::new([
        Column::text("device"),
        Column::text("number"),
        Column::text("elevators"),
        Column::text("is"),
        Column::text("above it"),
        Column::text("drive"),
    ]);
    for device in &devices {
        let target = plan.devices.iter().find(|t| t.device.name == device.name);
        let is = match device.layer {
            Some(StackKind::Mapper) => format!("device mapper on {}", device.below.join(", ")),
            Some(StackKind::Raid) => format!("md on {}", device.below.join(", ")),
            None => String::new(),
        };
        let elevators = files.read(&format!("{}/queue/scheduler", device.directory()));
        let elevators = elevators.unwrap_or_default();
        table.row([
            device.name.clone(),
            device.number.clone(),
            if device.schedulers.is_empty() {
                "none of its own".to_owned()
            } else {
                elevators.trim().to_owned()
            },
            is,
            device.above.join(", "),
            target.map(|t| t.drive.clone()).unwrap_or_default(),
        ]);
    }
    let cgroups = match (&plan.cgroups.root, plan.cgroups.systemd) {
        (None, _) => "cgroups of version 2 are not mounted".to_owned(),
        (Some(root), true) => format!("cgroups at {root}, systemd's"),
        (Some(root), false) => format!("cgroups at {root}"),
    };
    Ok(format!("{}{cgroups}\n", table.text(output::width())))
}
