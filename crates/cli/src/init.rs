//! `weir init` writes a first configuration, with the results of `weir calibrate` if there are any.

use crate::calibrate::{lines, state, unit_error_text};
use crate::failure::Failure;
use crate::output;
use crate::serve::quoted;
use clap::Args;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{self, Path, PathBuf};
use weir_config::toml_key;
use weir_config::units::{ByteSize, BytesPerSecond};
use weir_lab::calibrate::{Calibration, MeasuredCapacity, floor_to_three};

/// The arguments of `weir init`.
#[derive(Debug, Args)]
pub(crate) struct InitOptions {
    /// The configuration file to write. An existing file is not overwritten
    #[arg(default_value = "weir.toml")]
    file: PathBuf,
    /// The name of the drive
    #[arg(long, value_name = "NAME", default_value = "disk")]
    drive: String,
    /// A volume and its size. Can be repeated [default: disk=10GiB]
    #[arg(long = "volume", value_name = "NAME=SIZE", value_parser = volume)]
    volumes: Vec<VolumeOption>,
    /// The results of `weir calibrate`: its state file, or the file that it wrote with --json
    /// [default: the state file in this directory]
    #[arg(long, value_name = "FILE")]
    calibrated: Option<PathBuf>,
    /// The directory for the volumes' image files [default: the directory of the measured file, or
    /// else of the configuration]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// The address at which clients connect: an IP address and a port, or `unix:` and a path
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10809")]
    listen: String,
}

/// The name and the size of a volume.
#[derive(Clone, Debug)]
struct VolumeOption {
    name: String,
    size: ByteSize,
}

/// Parses the option `--volume`.
fn volume(text: &str) -> Result<VolumeOption, String> {
    let (name, size) = (text.rsplit_once('='))
        .filter(|(name, _)| !name.is_empty())
        .ok_or("write a name and a size, for example alpha=10GiB")?;
    let size = size.parse().map_err(|e| unit_error_text(&e))?;
    let name = name.to_owned();
    Ok(VolumeOption { name, size })
}

pub(crate) fn run(options: &InitOptions) -> Result<(), Failure> {
    let file = &options.file;
    // `weir serve` recognises a configuration by this ending.
    if file.extension().is_none_or(|e| e != "toml") {
        let shown = file.display();
        let reason = format!("{shown}: the name of a configuration must end in .toml");
        return Err(Failure::Usage(reason));
    }
    let known = match &options.calibrated {
        Some(path) => Some(state::load(path)?.ok_or_else(|| {
            let path = path.display();
            Failure::Run(format!(
                "{path} does not exist; run `weir calibrate` to create it"
            ))
        })?),
        None => calibration_here()?,
    };
    each_once(&options.volumes)?;
    let text = text(options, known.as_ref())?;
    // Errors in a name, a size or an address are reported before the file is written.
    if let Err(problems) = weir_config::parse("", &text) {
        let lines = problems.iter().map(|p| format!("{}: {}", p.key, p.message));
        return Err(Failure::Usage(lines.collect::<Vec<_>>().join("\n")));
    }
    write(file, &text)?;
    let shown = file.display();
    output::print_message(&format!(
        "wrote {shown}; run `weir check {shown}` to validate it"
    ));
    Ok(())
}

/// Returns the results of `weir calibrate` in the current directory, if they are of a single
/// target.
fn calibration_here() -> Result<Option<Calibration>, Failure> {
    let mut known = Vec::new();
    for path in state::all()? {
        known.extend(state::load(&path)?.map(|found| (path, found)));
    }
    // The figures of the wrong drive would lead to promises that cannot be kept.
    if known.len() > 1 {
        let lines = known.iter().map(|(path, found)| {
            let of = found.target.path.escape_default();
            format!("--calibrated {} (measured on {of})", path.display())
        });
        return Err(Failure::Usage(format!(
            "this directory contains results of several drives; choose one with:\n{}",
            lines.collect::<Vec<_>>().join("\n")
        )));
    }
    Ok(known.pop().map(|(path, found)| {
        let path = path.display();
        output::print_message(&format!(
            "note: the figures of the drive are taken from {path}"
        ));
        found
    }))
}

/// Refuses two volumes with the same name.
fn each_once(volumes: &[VolumeOption]) -> Result<(), Failure> {
    for (number, volume) in volumes.iter().enumerate() {
        if volumes[..number].iter().any(|v| v.name == volume.name) {
            let reason = format!("--volume {}: the name is used twice", volume.name);
            return Err(Failure::Usage(reason));
        }
    }
    Ok(())
}

/// Writes the configuration to a new file.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::file("write", path, error);
    // A configuration that exists is never overwritten.
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let shown = path.display();
            let reason = format!("{shown} already exists and is not overwritten; use another name");
            return Err(Failure::Run(reason));
        }
        Err(error) => return Err(failed(&error)),
    };
    file.write_all(text.as_bytes()).map_err(|error| {
        // An incomplete configuration must not remain. The error of writing is the one that
        // matters.
        let _ = fs::remove_file(path);
        failed(&error)
    })
}

/// Returns the text of the configuration.
fn text(options: &InitOptions, known: Option<&Calibration>) -> Result<String, Failure> {
    let default = [VolumeOption {
        name: "disk".to_owned(),
        size: ByteSize(10 << 30),
    }];
    let volumes = match &options.volumes[..] {
        [] => &default,
        some => some,
    };
    let mut text = String::from(
        "# A configuration for `weir serve`. `weir check` says what is wrong with it, and what is promised of what;\n\
         # docs/configuration.md has every key.\n\n",
    );
    text += &drive(&options.drive, known);
    let listen = quoted(&options.listen);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n[listen]\nnbd = [{listen}]\n# metrics = \"127.0.0.1:9809\"\n"
    );
    let directory = directory(options, known)?;
    let part = even_part(known, volumes.len());
    for volume in volumes {
        let image = directory.join(format!("{}.img", volume.name));
        // The server would overwrite the file, or serve the measurement's data.
        if known.is_some_and(|known| Path::new(&known.target.path) == image) {
            let reason = format!(
                "volume {} would use {}, which was measured; use another volume name, or set --directory",
                volume.name,
                image.display()
            );
            return Err(Failure::Usage(reason));
        }
        text += &described(volume, &options.drive, &directory, part)?;
    }
    Ok(text)
}

/// Returns the table of the drive, with measured values if there are any.
fn drive(name: &str, known: Option<&Calibration>) -> String {
    let mut text = format!(
        "# What shares one physical drive.\n[drive.{}]\n",
        toml_key(name)
    );
    match known {
        Some(known) => {
            let path = known.target.path.escape_default();
            let _ = writeln!(text, "# As weir calibrate measured {path}:");
            text += &lines::drive(known);
        }
        None => {
            text += "# Nothing can be promised before this is known; `weir calibrate` finds it.\n\
                     # capacity = { read = \"160MB/s\", write = \"120MB/s\" }\n";
        }
    }
    text + "# How it is shared; `weir policies` lists the ways.\n# policy = \"contract\"\n"
}

/// Returns the table of a volume. `part` is the min that is proposed for it.
fn described(
    volume: &VolumeOption,
    drive: &str,
    directory: &Path,
    part: Option<u64>,
) -> Result<String, Failure> {
    let image = directory.join(format!("{}.img", volume.name));
    let image = image.to_str().ok_or_else(|| {
        Failure::Usage(format!(
            "{} is not UTF-8; rename the image",
            directory.display()
        ))
    })?;
    let mut text = format!(
        "\n[volume.{}]\ndrive = {}\nfile = {}\nsize = \"{}\"\n",
        toml_key(&volume.name),
        quoted(drive),
        quoted(image),
        volume.size
    );
    let _ = match part {
        Some(part) => writeln!(
            text,
            "# Promised in every second in which requests wait. An even part of what can be promised:\n# min = \"{}\"",
            BytesPerSecond(part)
        ),
        None => writeln!(
            text,
            "# Promised in every second in which requests wait; takes a capacity of the drive.\n# min = \"10MB/s\""
        ),
    };
    // The proposed max is twice the min, or an example if nothing is known.
    let most = BytesPerSecond(part.map_or(100_000_000, |part| part.saturating_mul(2)));
    let _ = writeln!(
        text,
        "# Its weight in what promises leave, and what it never exceeds.\nshare = 100\n# max = {{ bandwidth = \"{most}\" }}"
    );
    Ok(text)
}

/// Returns the directory for the image files, as an absolute path.
fn directory(options: &InitOptions, known: Option<&Calibration>) -> Result<PathBuf, Failure> {
    let measured = known.map(|known| Path::new(&known.target.path));
    let beside = |path: &Path| path.parent().map(Path::to_owned);
    let chosen = match (&options.directory, measured) {
        (Some(directory), _) => directory.clone(),
        (None, Some(path)) if path.is_file() => beside(path).unwrap_or_default(),
        (None, _) => beside(&options.file).unwrap_or_default(),
    };
    // The parent of a file name without a directory is empty.
    let chosen = if chosen.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        chosen
    };
    let whole = path::absolute(&chosen).map_err(|e| Failure::file("find", &chosen, &e))?;
    // Resolves `.` and `..`, which `path::absolute` keeps. A directory that does not exist yet is
    // kept as it is.
    Ok(fs::canonicalize(&whole).unwrap_or(whole))
}

/// Returns the min in bytes per second with which all volumes can be promised the same, or `None`
/// if the capacity is not completely known.
fn even_part(known: Option<&Calibration>, volumes: usize) -> Option<u64> {
    let capacity = MeasuredCapacity::of(known?);
    // Admission compares promises with the slower direction.
    let slower = capacity.read?.least.min(capacity.write?.least);
    // Admission permits promises of up to 90 % of the drive's time.
    let part = floor_to_three(floor_to_three(slower) as f64 * 0.9 / volumes as f64);
    (part > 0 && lines::is_whole(&capacity)).then_some(part)
}
