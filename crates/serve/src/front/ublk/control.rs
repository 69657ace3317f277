//! Commands to the control device of the ublk driver.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_uring::Errno;
use weir_wire::ublk::{
    CONTROL_LEN, ControlCommand, DeviceInfo, DeviceParams, INFO_LEN, PARAMS_LEN, PATH_CONTROL,
    Verb, feature,
};

use super::node::{DeviceProblem, PAUSE, name, unopened};

/// The time limit for commands that do not depend on users of the device.
const AT_ONCE: Duration = Duration::from_secs(10);

/// The control device, with the features of the driver.
#[derive(Debug)]
pub(super) struct ControlDevice {
    commands: weir_uring::DriverControl,
    features: u64,
}

impl ControlDevice {
    /// Opens the control device, and checks that the driver has the required features.
    pub(super) fn open() -> Result<Self, DeviceProblem> {
        let mut commands = weir_uring::DriverControl::open(Path::new(PATH_CONTROL))
            .map_err(|e| unopened(PATH_CONTROL, &e))?;
        let mut features = [0; 8];
        let asked = command(Verb::GetFeatures, u32::MAX, features.len(), 0);
        commands
            .call(
                Verb::GetFeatures.code(),
                &asked,
                (ControlCommand::ADDRESS, &mut features),
                AT_ONCE,
            )
            .map_err(|errno| failed("report its features", errno))?;
        let features = u64::from_ne_bytes(features);
        if features & feature::NEEDED == feature::NEEDED {
            return Ok(Self { commands, features });
        }
        Err("requires Linux 6.12 or later, because an older ublk driver supports neither copies by the server nor recovery".to_owned())
    }

    /// Calls the driver with an argument that it reads or overwrites, and waits for the result.
    fn call(
        &mut self,
        verb: Verb,
        (number, datum): (u32, u64),
        argument: &mut [u8],
        within: Duration,
    ) -> Result<(), Errno> {
        let bytes = command(verb, number, argument.len(), datum);
        let argument = (ControlCommand::ADDRESS, argument);
        let ended = self.commands.call(verb.code(), &bytes, argument, within);
        ended.map(drop)
    }

    /// Adds a device. Returns it with the properties that the driver has chosen.
    pub(super) fn add(&mut self, device: &DeviceInfo) -> Result<DeviceInfo, DeviceProblem> {
        let mut info = device.encode();
        self.call(Verb::Add, (device.number, 0), &mut info, AT_ONCE)
            .map_err(|errno| match errno {
                Errno::EXIST => format!(
                    "cannot create the block device: {} belongs to another program; use another ublk_number",
                    name(device.number)
                ),
                errno => failed("add a device", errno),
            })?;
        Ok(DeviceInfo::parse(&info))
    }

    /// Returns the state of a device, or `None` if there is no device with this number.
    pub(super) fn info(&mut self, number: u32) -> Result<Option<DeviceInfo>, DeviceProblem> {
        let mut info = [0; INFO_LEN];
        match self.call(Verb::GetInfo, (number, 0), &mut info, AT_ONCE) {
            Ok(()) => Ok(Some(DeviceInfo::parse(&info))),
            Err(Errno::NODEV | Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(
                &format!("report the state of {}", name(number)),
                errno,
            )),
        }
    }

    /// Sets the parameters of a device that has not been started.
    pub(super) fn set_params(
        &mut self,
        number: u32,
        params: &DeviceParams,
    ) -> Result<(), DeviceProblem> {
        let mut bytes = params.encode();
        self.call(Verb::SetParams, (number, 0), &mut bytes, AT_ONCE)
            .map_err(|errno| failed(&format!("create a device of {params:?}"), errno))
    }

    /// Returns the parameters of a device, or `None` if they were never set or are invalid.
    pub(super) fn params(&mut self, number: u32) -> Result<Option<DeviceParams>, DeviceProblem> {
        let mut bytes = [0; PARAMS_LEN];
        // The caller has to set the length of the structure (Linux: `ublk_ctrl_get_params`).
        bytes[0..4].copy_from_slice(&(PARAMS_LEN as u32).to_ne_bytes());
        self.call(Verb::GetParams, (number, 0), &mut bytes, AT_ONCE)
            .map_err(|errno| {
                failed(&format!("report the parameters of {}", name(number)), errno)
            })?;
        Ok(DeviceParams::parse(&bytes))
    }

    /// Starts a device, or ends its recovery. Users can then use it, and requests that wait for a
    /// server are sent again. All places must have been fetched.
    pub(super) fn start(&mut self, number: u32, recovers: bool) -> Result<(), DeviceProblem> {
        let verb = if recovers {
            Verb::EndRecovery
        } else {
            Verb::Start
        };
        let process = u64::from(std::process::id());
        self.call(verb, (number, process), &mut [], AT_ONCE)
            .map_err(|errno| failed(&format!("start {}", name(number)), errno))
    }

    /// Prepares the recovery of a device whose server has ended.
    pub(super) fn start_recovery(&mut self, number: u32) -> Result<(), DeviceProblem> {
        let end = Instant::now() + AT_ONCE;
        loop {
            match self.call(Verb::StartRecovery, (number, 0), &mut [], AT_ONCE) {
                // Linux 6.12 returns EINVAL if a server began the recovery and was killed before it
                // fetched any request. The device is ready in that case.
                Ok(()) | Err(Errno::INVAL) => return Ok(()),
                // The killed process has not closed all its files yet.
                Err(Errno::BUSY) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(errno) => return Err(failed(&format!("recover {}", name(number)), errno)),
            }
        }
    }

    /// Stops a device. New requests are refused, and the call returns when all requests have
    /// completed.
    pub(super) fn stop(&mut self, number: u32, within: Duration) -> Result<(), DeviceProblem> {
        self.call(Verb::Stop, (number, 0), &mut [], within)
            .map_err(|errno| failed(&format!("stop {}", name(number)), errno))
    }

    /// Deletes a stopped device.
    pub(super) fn delete(&mut self, number: u32) -> Result<(), DeviceProblem> {
        self.call(Verb::Delete, (number, 0), &mut [], AT_ONCE)
            .map_err(|errno| failed(&format!("remove {}", name(number)), errno))
    }

    /// Changes the size of a device to that of its volume. Returns the reason if that fails.
    pub(super) fn resize(&mut self, number: u32, sectors: u64) -> Result<(), String> {
        if self.features & feature::UPDATE_SIZE == 0 {
            return Err("resizing requires Linux 6.16 or later".to_owned());
        }
        self.call(Verb::UpdateSize, (number, sectors), &mut [], AT_ONCE)
            .map_err(|errno| refused(&format!("change the size of {}", name(number)), errno))
    }
}

fn command(verb: Verb, device: u32, argument: usize, datum: u64) -> [u8; CONTROL_LEN] {
    ControlCommand {
        verb,
        device,
        argument: argument as u16,
        datum,
    }
    .encode()
}

/// Returns the reason why a device cannot be created: the driver failed to do `what`.
fn failed(what: &str, errno: Errno) -> DeviceProblem {
    format!("cannot create the block device: {}", refused(what, errno))
}

/// Returns the error of a failed command, with advice if a permission is missing.
fn refused(what: &str, errno: Errno) -> String {
    let error = weir_config::os_error::message(&errno.into());
    let help = match errno {
        Errno::PERM | Errno::ACCESS => "; give the server CAP_SYS_ADMIN",
        _ => "",
    };
    format!("the kernel failed to {what}: {error}{help}")
}
