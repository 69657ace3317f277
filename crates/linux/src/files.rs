//! Access to the files of a host, real or recorded.
//!
//! Everything in this crate reads and changes a host through the trait [`HostFiles`], so that tests
//! can use a recorded host instead.

use rustix::fs::FileType;
use rustix::io::Errno;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use weir_config::trusted::{self, Dir};

/// The files of a host by their absolute paths. A file of `/sys` or of a cgroup is written as the
/// kernel requires it: whole, with one system call.
pub trait HostFiles {
    /// Returns the content of a file.
    ///
    /// # Errors
    /// Returns the system's error.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes text to a file that exists, with one system call.
    ///
    /// # Errors
    /// Returns the system's error, for example if the kernel does not accept the value.
    fn write(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Returns the names in a directory, sorted.
    ///
    /// # Errors
    /// Returns the system's error.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// Returns the system's error.
    fn link(&self, path: &str) -> io::Result<String>;

    /// Returns the number of the block device at a path, for example `8:16`.
    ///
    /// # Errors
    /// Returns an error if the path does not exist or is not a block device.
    fn number(&self, path: &str) -> io::Result<String>;

    /// Returns true if a path exists. Symbolic links are followed.
    fn exists(&self, path: &str) -> bool;

    /// Returns an extended attribute, or `None` if it does not exist.
    fn attribute(&self, path: &str, name: &str) -> Option<String>;

    /// Makes a directory. In a cgroup, that makes a cgroup.
    ///
    /// # Errors
    /// Returns the system's error.
    fn make(&mut self, path: &str) -> io::Result<()>;

    /// Removes a directory that contains no others. In a cgroup, that removes the cgroup with its
    /// files.
    ///
    /// # Errors
    /// Returns the system's error.
    fn remove(&mut self, path: &str) -> io::Result<()>;

    /// Writes an ordinary file. If the file exists, its content is replaced atomically, so that
    /// after a crash it has either the old or the new content.
    ///
    /// # Errors
    /// Returns the system's error.
    fn replace(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Removes an ordinary file.
    ///
    /// # Errors
    /// Returns the system's error.
    fn unlink(&mut self, path: &str) -> io::Result<()>;

    /// Makes systemd read its unit files again.
    ///
    /// # Errors
    /// Returns an error if `systemctl` cannot be started or fails.
    fn reload_units(&mut self) -> io::Result<()>;
}

/// The files below a directory of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileTree {
    root: PathBuf,
}

impl FileTree {
    /// The files below `root`. Use `/` for those of this host.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the path below the root.
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl Default for FileTree {
    fn default() -> Self {
        Self::new("/")
    }
}

impl HostFiles for FileTree {
    fn read(&self, path: &str) -> io::Result<String> {
        let bytes = fs::read(self.at(path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(self.at(path))?;
        // The kernel parses each write(2) to an attribute as a whole value, so that the rest of a
        // short write must not follow in a second call.
        match file.write(text.as_bytes())? {
            all if all == text.len() => Ok(()),
            part => Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("took {part} of {} bytes", text.len()),
            )),
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.at(path))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        // The order of read_dir depends on the file system.
        names.sort_unstable();
        Ok(names)
    }

    fn link(&self, path: &str) -> io::Result<String> {
        let target = fs::read_link(self.at(path))?;
        Ok(target.to_string_lossy().into_owned())
    }

    fn number(&self, path: &str) -> io::Result<String> {
        let stat = rustix::fs::stat(self.at(path))?;
        if !FileType::from_raw_mode(stat.st_mode).is_block_device() {
            return Err(Errno::NOTBLK.into());
        }
        let (major, minor) = (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        );
        Ok(format!("{major}:{minor}"))
    }

    fn exists(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    fn attribute(&self, path: &str, name: &str) -> Option<String> {
        // The attributes that are read have one character (`cgroups::is_delegated`).
        let mut value = [0_u8; 256];
        let length = rustix::fs::getxattr(self.at(path), name, &mut value).ok()?;
        Some(String::from_utf8_lossy(&value[..length]).into_owned())
    }

    fn make(&mut self, path: &str) -> io::Result<()> {
        fs::create_dir(self.at(path))
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.at(path))
    }

    fn replace(&mut self, path: &str, text: &str) -> io::Result<()> {
        let path = self.at(path);
        let (folder, name) = trusted::split(&path)?;
        // The file is replaced atomically, and only in a directory that no other user can change.
        Dir::trusted(folder)?.replace(name, text.as_bytes(), 0o644)
    }

    fn unlink(&mut self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn reload_units(&mut self) -> io::Result<()> {
        let output = std::process::Command::new("systemctl")
            .arg("daemon-reload")
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!(
            "systemctl daemon-reload: {}",
            said.trim().replace('\n', "; ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_the_files_below_its_root() {
        let root = std::env::temp_dir().join(format!("weir-tree-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        let mut tree = FileTree::new(&root);
        tree.make("/a").unwrap();
        assert!(
            tree.write("/a/knob", "1").is_err(),
            "a knob is there, or is none"
        );
        tree.replace("/a/knob", "1\n").unwrap();
        tree.write("/a/knob", "2").unwrap();
        assert_eq!(tree.read("/a/knob").unwrap(), "2\n");
        tree.replace("/a/knob", "3").unwrap();
        std::os::unix::fs::symlink("knob", root.join("a/link")).unwrap();
        assert_eq!(tree.list("/a").unwrap(), ["knob", "link"]);
        assert_eq!(tree.link("/a/link").unwrap(), "knob");
        assert_eq!(tree.read("/a/link").unwrap(), "3");
        assert!(tree.number("/a/knob").is_err() && !tree.exists("/b"));
        assert!(tree.remove("/a").is_err());
        tree.unlink("/a/link").unwrap();
        tree.unlink("/a/knob").unwrap();
        tree.remove("/a").unwrap();
        assert_eq!(tree.attribute("/", "user.none"), None);
        fs::remove_dir(&root).unwrap();
    }
}
