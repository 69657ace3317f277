//! The files of a host, real or recorded.

use rustix::fs::FileType;
use rustix::io::Errno;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use weir_config::trusted::{self, Dir};

/// The files of a host by their absolute paths. Files of `/sys` and of cgroups are read and written as the kernel wants it: whole, by one
/// system call.
pub trait Files {
    /// The text of a file.
    ///
    /// # Errors
    /// As the system says.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes this to a file that exists, in one call.
    ///
    /// # Errors
    /// As the system says: among others that the kernel does not take the value.
    fn write(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// As the system says.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// What a symbolic link says.
    ///
    /// # Errors
    /// As the system says.
    fn link(&self, path: &str) -> io::Result<String>;

    /// The number of the block device that a path names, as `8:16`.
    ///
    /// # Errors
    /// There is nothing of that name, or it is no block device.
    fn number(&self, path: &str) -> io::Result<String>;

    /// Whether something is there; a link leads to what it names.
    fn exists(&self, path: &str) -> bool;

    /// An extended attribute, `None` where there is none.
    fn attribute(&self, path: &str, name: &str) -> Option<String>;

    /// Makes a directory: a cgroup, where that is one.
    ///
    /// # Errors
    /// As the system says.
    fn make(&mut self, path: &str) -> io::Result<()>;

    /// Removes a directory without others in it: a cgroup with its files.
    ///
    /// # Errors
    /// As the system says.
    fn remove(&mut self, path: &str) -> io::Result<()>;

    /// Makes an ordinary file with this text, or puts the text in place of that of one that exists, so that after a crash it has one or the
    /// other.
    ///
    /// # Errors
    /// As the system says.
    fn replace(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Removes an ordinary file.
    ///
    /// # Errors
    /// As the system says.
    fn unlink(&mut self, path: &str) -> io::Result<()>;

    /// Makes systemd read the files of its units again.
    ///
    /// # Errors
    /// It could not be asked, or it refused.
    fn reload_units(&mut self) -> io::Result<()>;
}

/// The files below a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The files below `root`; `/` for those of this host.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self::new("/")
    }
}

impl Files for Tree {
    fn read(&self, path: &str) -> io::Result<String> {
        let bytes = fs::read(self.at(path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(self.at(path))?;
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
        let mut tree = Tree::new(&root);
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
