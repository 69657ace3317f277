//! The kernel's reaction to a write to a file of a cgroup.

use super::{FakeHost, FakeNode, HostFiles, queue};
use crate::knob::Knob;
use rustix::io::Errno;
use std::io;

/// Makes a cgroup, with the files that its parent's controllers give it.
pub(super) fn make(fake: &mut FakeHost, path: &str) {
    let (parent, _) = path.rsplit_once('/').unwrap_or(("", ""));
    let controllers = fake.text(&format!("{parent}/cgroup.subtree_control"));
    let controllers = controllers.unwrap_or_default().to_owned();
    fake.nodes.insert(path.to_owned(), FakeNode::Folder);
    for file in ["cgroup.procs", "cgroup.subtree_control"] {
        fake.set(format!("{path}/{file}"), "");
    }
    if controllers.split_whitespace().any(|c| c == "io") {
        add_files(fake, path);
    }
    fake.nodes.insert(
        format!("{path}/cgroup.controllers"),
        FakeNode::Fixed(controllers),
    );
}

/// Removes an empty cgroup. Like rmdir on cgroupfs, this takes its files along.
pub(super) fn remove(fake: &mut FakeHost, path: &str) -> io::Result<()> {
    let is_busy = !children(fake, path).is_empty() || has_processes(fake, path);
    if is_busy {
        return Err(Errno::BUSY.into());
    }
    fake.remove_tree(path);
    Ok(())
}

/// Returns the cgroups directly below this one.
fn children(fake: &FakeHost, path: &str) -> Vec<String> {
    let names = fake.names(path).into_iter();
    let below = names.map(|name| format!("{path}/{name}"));
    below
        .filter(|path| fake.nodes.contains_key(&format!("{path}/cgroup.procs")))
        .collect()
}

fn has_processes(fake: &FakeHost, path: &str) -> bool {
    let text = fake.text(&format!("{path}/cgroup.procs"));
    !text.unwrap_or_default().trim().is_empty()
}

/// Returns true if this is the root, whose parent is not a cgroup.
fn is_root(fake: &FakeHost, path: &str) -> bool {
    let (parent, _) = path.rsplit_once('/').unwrap_or(("", ""));
    !fake.nodes.contains_key(&format!("{parent}/cgroup.procs"))
}

fn words(fake: &FakeHost, path: &str) -> Vec<String> {
    let text = fake.text(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Adds the files of the controller `io` with their initial content.
fn add_files(fake: &mut FakeHost, path: &str) {
    for (file, text) in [
        ("io.max", ""),
        ("io.latency", ""),
        ("io.weight", "default 100"),
        ("io.bfq.weight", "default 100"),
        ("io.prio.class", "no-change"),
    ] {
        if fake.built.contains(file) || file == "io.max" {
            fake.set(format!("{path}/{file}"), text);
        }
    }
}

/// Returns the cgroups that have the controller `io`.
fn controlled(fake: &FakeHost) -> Vec<String> {
    let files = fake.nodes.keys();
    files
        .filter_map(|p| p.strip_suffix("/io.max"))
        .map(str::to_owned)
        .collect()
}

/// Adds the file of bfq to all cgroups, as loading its module does.
pub(super) fn load_weights(fake: &mut FakeHost) {
    fake.built.insert("io.bfq.weight".to_owned());
    for path in controlled(fake) {
        fake.set(format!("{path}/io.bfq.weight"), "default 100");
    }
}

/// Removes the weights of a device that loses bfq.
pub(super) fn forget_weights(fake: &mut FakeHost, device: &str) {
    let Ok(number) = fake.text(&format!("{device}/dev")).map(str::to_owned) else {
        return;
    };
    for path in controlled(fake) {
        put_line(fake, &format!("{path}/io.bfq.weight"), number.trim(), None);
    }
}

/// Returns true if io.cost is enabled for a device.
pub(super) fn has_cost(fake: &FakeHost, device: &str) -> bool {
    let number = fake.text(&format!("{device}/dev")).unwrap_or_default();
    let mut files = fake.nodes.iter();
    files.any(|(path, node)| {
        matches!(node, FakeNode::File(text) if path.ends_with("/io.cost.qos")
            && Knob::CostQos.value(text, number.trim()).starts_with("enable=1"))
    })
}

/// Replaces the line of a device in a file, or removes it if `value` is `None`.
fn put_line(fake: &mut FakeHost, path: &str, number: &str, value: Option<&str>) {
    let Ok(text) = fake.text(path) else { return };
    let other = text
        .lines()
        .filter(|line| line.split_once(' ').map(|(first, _)| first) != Some(number));
    let own = value.map(|value| format!("{number} {value}"));
    let lines: Vec<String> = other.map(str::to_owned).chain(own).collect();
    fake.set(path, lines.join("\n"));
}

/// Handles a write to a file of a cgroup.
pub(super) fn write(fake: &mut FakeHost, folder: &str, name: &str, text: &str) -> io::Result<()> {
    let path = format!("{folder}/{name}");
    match name {
        "cgroup.subtree_control" => control(fake, folder, text),
        "cgroup.procs" => {
            fake.set(path, text);
            Ok(())
        }
        "io.prio.class" => {
            Knob::PrioClass.check(text).map_err(|_| Errno::INVAL)?;
            fake.set(path, text);
            Ok(())
        }
        _ => of_device(fake, &path, name, text),
    }
}

/// Enables or disables the controller for the cgroups below: `+io` and `-io`.
fn control(fake: &mut FakeHost, folder: &str, text: &str) -> io::Result<()> {
    let path = format!("{folder}/cgroup.subtree_control");
    let mut on = words(fake, &path);
    let has = |list: &[String]| list.iter().any(|c| c == "io");
    match text.trim() {
        "+io" => {
            // A cgroup can pass a controller on only if it has it.
            if !has(&words(fake, &format!("{folder}/cgroup.controllers"))) {
                return Err(Errno::NOENT.into());
            }
            // cgroups(7), "no internal processes": only the root may have both processes and
            // controllers.
            if !is_root(fake, folder) && has_processes(fake, folder) {
                return Err(Errno::BUSY.into());
            }
            if !has(&on) {
                on.push("io".to_owned());
                for child in children(fake, folder) {
                    add_files(fake, &child);
                }
            }
        }
        "-io" => {
            let below = children(fake, folder);
            let used = |c: &String| has(&words(fake, &format!("{c}/cgroup.subtree_control")));
            // A parent cannot drop a controller that one of its children still passes on.
            if below.iter().any(used) {
                return Err(Errno::BUSY.into());
            }
            on.retain(|c| c != "io");
            // The files disappear together with the settings in them.
            for child in below {
                for file in fake.names(&child) {
                    if file.starts_with("io.") {
                        fake.remove_tree(&format!("{child}/{file}"));
                    }
                }
            }
        }
        _ => return Err(Errno::INVAL.into()),
    }
    let on = on.join(" ");
    for child in children(fake, folder) {
        let controllers = format!("{child}/cgroup.controllers");
        fake.nodes.insert(controllers, FakeNode::Fixed(on.clone()));
    }
    fake.set(path, on);
    Ok(())
}

/// Handles a file that has one line for each device.
fn of_device(fake: &mut FakeHost, path: &str, name: &str, text: &str) -> io::Result<()> {
    let (number, value) = text.split_once(' ').ok_or(Errno::INVAL)?;
    let device = device(fake, number)?;
    let value = value.trim();
    match name {
        "io.weight" | "io.bfq.weight" => weight(fake, path, (name, &device), number, value),
        "io.max" => limits(fake, path, number, value),
        "io.latency" => {
            let target = value.strip_prefix("target=").ok_or(Errno::INVAL)?;
            let is_off = target == "max" || target == "0";
            put_line(fake, path, number, (!is_off).then_some(value));
            Ok(())
        }
        "io.cost.qos" => {
            // Without `ctrl=user`, the kernel takes the parameters from its own profile of the
            // device.
            let on = value.contains("enable=1");
            let line = if value.contains("ctrl=user") {
                value.to_owned()
            } else {
                format!(
                    "enable={} ctrl=auto rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min=1.00 max=10000.00",
                    u8::from(on)
                )
            };
            // io.cost switches write-back throttling off, and restores it when io.cost is switched
            // off (`ioc_qos_write`).
            put_line(fake, path, number, Some(&line));
            queue::throttle_writeback(fake, &device, !on);
            Ok(())
        }
        "io.cost.model" => {
            put_line(fake, path, number, Some(value));
            Ok(())
        }
        _ => Err(Errno::ACCESS.into()),
    }
}

/// Returns the directory of the whole device with a number.
fn device(fake: &FakeHost, number: &str) -> io::Result<String> {
    for name in fake.list("/sys/block")? {
        let device = fake.resolve(&format!("/sys/block/{name}"));
        if fake
            .text(&format!("{device}/dev"))
            .is_ok_and(|t| t.trim() == number)
        {
            return Ok(device);
        }
    }
    Err(Errno::NODEV.into())
}

/// Sets or removes the weight of a device.
fn weight(
    fake: &mut FakeHost,
    path: &str,
    (name, device): (&str, &str),
    number: &str,
    value: &str,
) -> io::Result<()> {
    let knob = Knob::find(name).ok_or(Errno::INVAL)?;
    if name == "io.bfq.weight" && queue::scheduler(fake, device) != "bfq" {
        return Err(Errno::OPNOTSUPP.into());
    }
    knob.check(value).map_err(|_| Errno::RANGE)?;
    put_line(fake, path, number, (value != "default").then_some(value));
    Ok(())
}

/// Changes the limits that the text mentions. The others stay.
fn limits(fake: &mut FakeHost, path: &str, number: &str, value: &str) -> io::Result<()> {
    let before = Knob::Max.value(fake.text(path)?, number);
    let mut limits: Vec<(String, String)> = before
        .split(' ')
        .filter_map(|w| w.split_once('='))
        .map(|(name, limit)| (name.to_owned(), limit.to_owned()))
        .collect();
    for word in value.split_whitespace() {
        let (name, limit) = word.split_once('=').ok_or(Errno::INVAL)?;
        let known = limits.iter_mut().find(|(n, _)| n == name);
        let (_, place) = known.ok_or(Errno::INVAL)?;
        // `tg_set_limit` refuses 0 with ERANGE.
        if limit != "max" && limit.parse::<u64>().map_err(|_| Errno::INVAL)? == 0 {
            return Err(Errno::RANGE.into());
        }
        limit.clone_into(place);
    }
    let line: Vec<String> = limits.iter().map(|(n, l)| format!("{n}={l}")).collect();
    let line = line.join(" ");
    put_line(
        fake,
        path,
        number,
        // A device without limits has no line.
        (line != Knob::NO_LIMITS).then_some(&line),
    );
    Ok(())
}
