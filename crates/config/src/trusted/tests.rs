//! Tests of files in directories that other users can or cannot change. Some of them require root.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// A user other than root, and in all probability other than the user of the test (`nobody` on most
/// systems).
const OTHER: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns the reason why a file or directory was refused.
fn why<T: std::fmt::Debug>(refused: io::Result<T>) -> Untrusted {
    let error = refused.unwrap_err();
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<Untrusted>());
    inner.unwrap_or_else(|| panic!("{error}")).clone()
}

fn read(dir: &Dir, name: &str) -> io::Result<File> {
    dir.read(name.as_ref())
}

#[test]
fn files_are_made_replaced_and_removed_by_name() {
    let base = tempfile::tempdir().unwrap();
    let dir = Dir::create_trusted(&base.path().join("a/b"), 0o755).unwrap();
    let name = OsStr::new("file");
    dir.create(name, 0o600).unwrap().write_all(b"one").unwrap();
    assert_eq!(
        io::read_to_string(dir.create(name, 0o600).unwrap()).unwrap(),
        "one"
    );
    assert_eq!(
        dir.create_new(name, 0o600).unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    fs::write(
        dir.path().join(".file.weir-new"),
        "left by a killed process",
    )
    .unwrap();
    dir.replace(name, b"two", 0o640).unwrap();
    assert_eq!(io::read_to_string(dir.read(name).unwrap()).unwrap(), "two");
    assert_eq!(dir.metadata(name).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(dir.names().unwrap(), ["file"]);
    // The second removal finds no file, which is not an error.
    for _ in 0..2 {
        dir.remove(name).unwrap();
    }
    // None of these is a single component.
    for name in ["", ".", "..", "/", "a/b", "file/", "../file"] {
        let error = dir.create_new(name.as_ref(), 0o600).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::INVAL), "{name:?}");
    }
    assert!(dir.names().unwrap().is_empty());
}

#[test]
fn files_that_another_user_could_have_planted_are_not_opened() {
    let base = tempfile::tempdir().unwrap();
    let at = |name: &str| base.path().join(name);
    fs::write(at("secret"), "secret").unwrap();
    symlink(at("secret"), at("link")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RWXU).unwrap();
    let dir = Dir::trusted(base.path()).unwrap();
    assert!(read(&dir, "secret").is_ok());
    for write in [false, true] {
        let open = |name: &str| {
            if write {
                dir.create(name.as_ref(), 0o600)
            } else {
                dir.read(name.as_ref())
            }
        };
        assert_eq!(why(open("link")), Untrusted::Link(at("link")));
        assert_eq!(
            why(open("directory")),
            Untrusted::Kind(at("directory"), "a directory")
        );
        assert_eq!(why(open("pipe")), Untrusted::Kind(at("pipe"), "a pipe"));
    }
    // Replacing a link must not write to its target.
    dir.replace("link".as_ref(), b"mine", 0o600).unwrap();
    assert_eq!(fs::read_to_string(at("secret")).unwrap(), "secret");
    // A file that the group can write is refused, and so is a second name.
    set_mode(&at("secret"), 0o620);
    assert_eq!(why(read(&dir, "secret")), Untrusted::Shared(at("secret")));
    set_mode(&at("secret"), 0o600);
    fs::hard_link(at("secret"), at("second")).unwrap();
    assert_eq!(why(read(&dir, "second")), Untrusted::Names(at("second")));
}

#[test]
fn every_directory_of_a_path_must_be_trusted() {
    let base = tempfile::tempdir().unwrap();
    let (shared, below) = (base.path().join("shared"), base.path().join("shared/below"));
    fs::create_dir_all(&below).unwrap();
    symlink(&below, base.path().join("link")).unwrap();
    symlink("below", shared.join("link")).unwrap();
    let links = ["link", "shared/link", "shared/below/../link"].map(|l| base.path().join(l));
    // As long as only this user can write, links on the path are followed.
    for link in &links {
        assert_eq!(
            Dir::trusted(link).unwrap().path(),
            below.canonicalize().unwrap()
        );
    }
    // In a sticky directory, other users cannot exchange `below`, but they can add files to
    // `shared` itself.
    set_mode(&shared, 0o1777);
    assert_eq!(Dir::trusted(&below).unwrap().path(), below);
    assert_eq!(
        why(Dir::trusted(&shared)),
        Untrusted::Shared(shared.clone())
    );
    // Third stage: other users can exchange entries of the directory.
    set_mode(&shared, 0o777);
    for path in [&below, &links[0], &links[1]] {
        assert_eq!(why(Dir::trusted(path)), Untrusted::Shared(shared.clone()));
    }
    // Only the link in the directory that others can write is refused, not the one above it.
    assert!(Dir::open(&below).is_ok() && Dir::open(&links[0]).is_ok());
    assert_eq!(
        why(Dir::open(&links[1])),
        Untrusted::Link(shared.join("link"))
    );
    symlink("loop", base.path().join("loop")).unwrap();
    let error = Dir::trusted(&base.path().join("loop")).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::LOOP));
}

#[test]
fn the_link_of_another_user_does_not_lead_to_a_file() {
    let base = tempfile::tempdir().unwrap();
    let (shared, secret) = (base.path().join("shared"), base.path().join("secret"));
    fs::create_dir(&shared).unwrap();
    fs::write(&secret, "secret").unwrap();
    symlink("../secret", shared.join("link")).unwrap();
    symlink("shared/link", base.path().join("own")).unwrap();
    let file =
        |name: &str| Dir::of_file(&base.path().join(name)).map(|(dir, name)| dir.path.join(name));
    // As long as only this user can write, all links are followed.
    for name in ["own", "shared/link", "secret", "shared/../own"] {
        assert_eq!(file(name).unwrap(), secret.canonicalize().unwrap());
    }
    assert_eq!(file("none").unwrap(), base.path().join("none"));
    set_mode(&shared, 0o777);
    // Second stage: other users can change `shared`, so a link in it is refused, even if another
    // link leads to it.
    for name in ["own", "shared/link"] {
        assert_eq!(why(file(name)), Untrusted::Link(shared.join("link")));
    }
    // Third stage: the number of names matters only if other users can change the directory.
    let names = |path: &Path, links| Dir::open(path).unwrap().check_names("x".as_ref(), links);
    assert_eq!(names(base.path(), 2), Ok(()));
    assert_eq!(names(&shared, 1), Ok(()));
    assert_eq!(names(&shared, 2), Err(Untrusted::Names(shared.join("x"))));
    symlink("loop", base.path().join("loop")).unwrap();
    let error = file("loop").unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::LOOP));
}

#[test]
fn files_belong_to_the_expected_owner() {
    if !is_root() {
        return; // Only root can change the owner of a file.
    }
    let base = tempfile::tempdir().unwrap();
    let of_other = base.path().join("of-other");
    fs::create_dir(&of_other).unwrap();
    for name in ["own", "root"] {
        fs::write(of_other.join(name), name).unwrap();
    }
    let give = |path: &Path| chown(path, Some(OTHER), None).unwrap();
    give(&of_other.join("own"));
    let dir = Dir::trusted(&of_other).unwrap();
    let (own, root) = (of_other.join("own"), of_other.join("root"));
    let refused = |path: &Path, owner, expected| Untrusted::Owner {
        path: path.to_owned(),
        owner,
        expected,
    };
    assert_eq!(why(read(&dir, "own")), refused(&own, OTHER, 0));
    assert!(read(&dir, "root").is_ok());
    // Second stage: in a directory of another user, only that user's files are opened.
    give(&of_other);
    let of_owner = refused(&of_other, OTHER, 0);
    assert_eq!(why(Dir::trusted(&of_other)), of_owner);
    assert_eq!(
        why(Dir::create_trusted(&of_other.join("new"), 0o755)),
        of_owner
    );
    assert!(!of_other.join("new").exists());
    let dir = Dir::open(&of_other).unwrap();
    assert!(read(&dir, "own").is_ok());
    assert_eq!(why(read(&dir, "root")), refused(&root, 0, OTHER));
}

#[test]
fn a_path_is_split_into_directory_and_name() {
    for (path, directory) in [
        ("a", "."),
        ("a/", "."),
        ("./a", "."),
        ("../a", ".."),
        ("/a", "/"),
    ] {
        let (found, name) = split(Path::new(path)).unwrap();
        assert_eq!(
            (found, name),
            (Path::new(directory), OsStr::new("a")),
            "{path}"
        );
        assert!(Dir::open(found).is_ok(), "{path}");
    }
    for path in ["", "/", "..", "a/.."] {
        assert!(split(Path::new(path)).is_err(), "{path}");
    }
}
