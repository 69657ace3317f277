//! Finds the kernel of a guest, and downloads it from Debian if necessary.

use crate::guest::error::GuestError;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The versions that can be downloaded by name: the name, and the release of Debian that has the
/// version.
pub const VERSIONS: [(&str, &str); 3] = [("6.1", "bookworm"), ("6.12", "trixie"), ("7", "sid")];

/// Debian's metapackage of the kernel for virtual machines.
const META: &str = "linux-image-cloud-amd64";

/// The directories of a kernel's modules that a guest can need.
const NEEDED: [&str; 10] = [
    "arch",
    "block",
    "crypto",
    "drivers/block",
    "drivers/cdrom",
    "drivers/md",
    "drivers/scsi",
    "drivers/virtio",
    "fs",
    "lib",
];

/// A kernel on this machine, in one of two forms. The first is a program (User-mode Linux). The
/// second is a directory with `vmlinuz` and `modules`. It can also have the list of built-in
/// modules in `builtin` and the kernel's release in `release`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    directory: PathBuf,
    release: String,
}

impl Kernel {
    /// Finds the kernel of a version (see [`VERSIONS`]), directory or program.
    ///
    /// A version that is not on this machine is downloaded from Debian into `WEIR_GUEST`, or by
    /// default into `weir/guest` in the user's cache. `WEIR_DEBIAN_MIRROR` sets another mirror.
    /// `tell` gets a line before the download.
    ///
    /// # Errors
    /// Returns an error if the name is unknown, or if the kernel cannot be downloaded.
    pub fn find(name: &str, tell: impl FnOnce(&str)) -> Result<Self, GuestError> {
        // A name with a slash is a path.
        if name.contains('/') {
            let directory = PathBuf::from(name);
            if !directory.is_file() && !directory.join("vmlinuz").exists() {
                return Err(GuestError::NoKernel(name.to_owned()));
            }
            return Ok(Self::at(directory));
        }
        let Some((version, suite)) = VERSIONS.iter().find(|(version, _)| *version == name) else {
            return Err(GuestError::NoKernel(name.to_owned()));
        };
        let directory = cache().join(version);
        // `release` is written last, and the directory appears by a rename, so that it is complete.
        if !directory.join("release").exists() {
            tell(&format!("downloading Linux {version} for guests, once"));
            fetch(suite, &directory)?;
        }
        Ok(Self::at(directory))
    }

    /// Reads the release: a program prints it, a directory has it recorded. Without a record, the
    /// directory's name is used.
    fn at(directory: PathBuf) -> Self {
        let release = if directory.is_file() {
            // User-mode Linux prints its release.
            command_output("linux", "none", Command::new(&directory).arg("--version")).ok()
        } else {
            fs::read_to_string(directory.join("release")).ok()
        };
        let name = || directory.display().to_string();
        let release = release.map_or_else(name, |text| text.trim().to_owned());
        Self { directory, release }
    }

    /// Returns the path of a kernel that is a program, or `None`.
    /// [`Lockstep`](crate::guest::Lockstep) boots such a kernel.
    pub fn program(&self) -> Option<&Path> {
        Some(self.directory.as_path()).filter(|file| file.is_file())
    }

    /// Returns the path of the kernel's image.
    pub fn image(&self) -> PathBuf {
        self.directory.join("vmlinuz")
    }

    /// Returns the directory with the kernel's modules, `NAME.ko` each.
    pub fn modules(&self) -> PathBuf {
        self.directory.join("modules")
    }

    /// Returns the names of the modules that are built in, or nothing if there is no record of
    /// them.
    pub(crate) fn builtin(&self) -> Vec<String> {
        let recorded = fs::read_to_string(self.directory.join("builtin"));
        let paths = recorded.unwrap_or_default();
        let names = paths.lines().filter_map(|path| path.rsplit('/').next());
        let names = names.filter_map(|file| file.strip_suffix(".ko"));
        names.map(|name| name.replace('-', "_")).collect()
    }

    /// Returns the kernel's release as in `uname -r`, or the directory's name if the release is not
    /// recorded.
    pub fn release(&self) -> &str {
        &self.release
    }
}

/// Returns the directory of downloaded kernels.
fn cache() -> PathBuf {
    if let Some(place) = env::var_os("WEIR_GUEST") {
        return place.into();
    }
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    cache.join("weir/guest")
}

/// Downloads the kernel of a Debian release. The directory is complete, or does not exist.
fn fetch(suite: &str, directory: &Path) -> Result<(), GuestError> {
    let parent = directory.parent().unwrap_or(directory);
    fs::create_dir_all(parent).map_err(GuestError::file(parent))?;
    // It must be in the same file system, because it is renamed later.
    let scratch = tempfile::Builder::new()
        .prefix(".kernel-")
        .tempdir_in(parent);
    let scratch = scratch.map_err(GuestError::file(parent))?;
    let apt = Apt::new(suite, scratch.path())?;
    apt.run("apt-get", &["update", "-q"])?;
    let kernels = apt.kernels()?;
    let names: Vec<&str> = kernels.iter().map(String::as_str).collect();
    apt.run("apt-get", &[&["download", "-q"][..], &names].concat())?;
    let new = scratch.path().join("new");
    unpack(scratch.path(), &new)?;
    match fs::rename(&new, directory) {
        // Another process has downloaded the same kernel at the same time.
        Err(_) if directory.join("release").exists() => Ok(()),
        renamed => renamed.map_err(GuestError::file(directory)),
    }
}

/// apt with its own lists and packages, so that the state of this machine does not change.
struct Apt<'a> {
    place: &'a Path,
    options: Vec<String>,
}

impl<'a> Apt<'a> {
    /// Prepares the directories and the list of sources for a Debian release.
    fn new(suite: &str, place: &'a Path) -> Result<Self, GuestError> {
        // apt does not make these directories itself.
        for directory in ["lists/partial", "cache/archives/partial"] {
            let directory = place.join(directory);
            fs::create_dir_all(&directory).map_err(GuestError::file(&directory))?;
        }
        let mirror = env::var("WEIR_DEBIAN_MIRROR");
        let mirror = mirror.unwrap_or_else(|_| "http://deb.debian.org/debian".to_owned());
        let sources = place.join("debian.sources");
        let text = format!(
            "Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        );
        fs::write(&sources, text).map_err(GuestError::file(&sources))?;
        let option = |key: &str, value: &Path| format!("-o{key}={}", value.display());
        let options = vec![
            option("Dir::Etc::sourcelist", &sources),
            option("Dir::Etc::sourceparts", Path::new("/dev/null")),
            option("Dir::State::lists", &place.join("lists")),
            option("Dir::Cache", &place.join("cache")),
            // Guests are x86-64, whatever this machine is.
            "-oAPT::Architecture=amd64".to_owned(),
            // apt's own user `_apt` cannot write to the scratch directory, which belongs to the
            // caller.
            "-oAPT::Sandbox::User=root".to_owned(),
        ];
        Ok(Self { place, options })
    }

    fn run(&self, program: &'static str, words: &[&str]) -> Result<String, GuestError> {
        let mut command = Command::new(program);
        command
            .current_dir(self.place)
            .args(&self.options)
            .args(words);
        command_output(program, "apt", &mut command)
    }

    /// Returns the packages with the kernel and its modules. There is one up to Linux 6, and there
    /// are several from Linux 7 on.
    fn kernels(&self) -> Result<Vec<String>, GuestError> {
        let words = ["depends", "--recurse", "--important", META];
        let all = self.run("apt-cache", &words)?;
        // The packages have a version after the prefix, and the metapackages do not.
        let is_kernel = |name: &&str| {
            let parts = ["image", "binary", "modules", "base"].map(|p| format!("linux-{p}-"));
            let version = parts
                .iter()
                .find_map(|part| name.strip_prefix(part.as_str()));
            version.is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()))
        };
        let names: Vec<String> = all.lines().filter(is_kernel).map(str::to_owned).collect();
        if names.is_empty() {
            return Err(GuestError::Failed {
                program: "apt-cache",
                said: format!("{META} depends on no kernel"),
            });
        }
        Ok(names)
    }
}

/// Makes the directory of a kernel from the packages in a directory.
fn unpack(packages: &Path, to: &Path) -> Result<(), GuestError> {
    let root = packages.join("root");
    for entry in fs::read_dir(packages)
        .map_err(GuestError::file(packages))?
        .flatten()
    {
        if entry.path().extension().is_some_and(|e| e == "deb") {
            let mut command = Command::new("dpkg-deb");
            command.arg("-x").arg(entry.path()).arg(&root);
            command_output("dpkg-deb", "dpkg", &mut command)?;
        }
    }
    let modules = to.join("modules");
    fs::create_dir_all(&modules).map_err(GuestError::file(&modules))?;
    let (mut image, mut release) = (None, None);
    visit(&root, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("vmlinuz") {
            image = Some(path.to_owned());
        } else if name == "modules.builtin" {
            release = path.parent().and_then(Path::file_name).map(OsStr::to_owned);
            let builtin = to.join("builtin");
            fs::copy(path, &builtin).map_err(GuestError::file(&builtin))?;
        } else if is_needed(path) {
            let module = modules.join(&*name);
            fs::copy(path, &module).map_err(GuestError::file(&module))?;
            if module.extension().is_some_and(|e| e == "xz") {
                command_output("xz", "xz-utils", Command::new("xz").arg("-d").arg(&module))?;
            }
        }
        Ok(())
    })?;
    let (image, release) = image.zip(release).ok_or_else(|| GuestError::Failed {
        program: "dpkg-deb",
        said: "the packages have no vmlinuz, or no modules.builtin".to_owned(),
    })?;
    let (vmlinuz, recorded) = (to.join("vmlinuz"), to.join("release"));
    fs::copy(&image, &vmlinuz).map_err(GuestError::file(&vmlinuz))?;
    let release = release.to_string_lossy().into_owned() + "\n";
    fs::write(&recorded, release).map_err(GuestError::file(&recorded))
}

/// Returns true if a file is a module in one of the [`NEEDED`] directories.
fn is_needed(file: &Path) -> bool {
    let path = file.to_string_lossy();
    let name = path.strip_suffix(".xz").unwrap_or(&path);
    let module = name
        .strip_suffix(".ko")
        .and_then(|n| n.rsplit_once("/kernel/"));
    module.is_some_and(|(_, inside)| NEEDED.iter().any(|n| Path::new(inside).starts_with(n)))
}

/// Calls `each` for each regular file below a directory.
fn visit(
    directory: &Path,
    each: &mut dyn FnMut(&Path) -> Result<(), GuestError>,
) -> Result<(), GuestError> {
    for entry in fs::read_dir(directory)
        .map_err(GuestError::file(directory))?
        .flatten()
    {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => visit(&entry.path(), each)?,
            Ok(kind) if kind.is_file() => each(&entry.path())?,
            _ => {}
        }
    }
    Ok(())
}

/// Runs a program, and returns its standard output.
pub(crate) fn command_output(
    program: &'static str,
    package: &'static str,
    command: &mut Command,
) -> Result<String, GuestError> {
    let absent = |source| GuestError::Program {
        program,
        source,
        package,
    };
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(absent)?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&stderr);
    let last: Vec<&str> = said.lines().rev().take(3).collect();
    let said = last.into_iter().rev().collect::<Vec<_>>().join("; ");
    Err(GuestError::Failed { program, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kernel_name_is_refused_with_the_known_names() {
        for name in ["6.2", "", "/nowhere", "sid"] {
            let error = Kernel::find(name, |line| panic!("{line}")).unwrap_err();
            assert!(error.to_string().contains("use 6.1, 6.12 or 7"), "{error}");
        }
    }
}
