use super::*;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-journal-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn made(folder: &str) -> HostChange {
    HostChange::Make {
        folder: folder.to_owned(),
    }
}

#[test]
fn changes_that_are_not_undone_are_read_again_without_an_incomplete_line() {
    let folder = folder("again");
    let path = folder.join("journal");
    let mut journal = ApplyJournal::open(&path).unwrap();
    for name in ["a", "b", "c"] {
        journal.change("boot", None, made(name)).unwrap();
    }
    journal.done(2, "is".into()).unwrap();
    journal.undone(1).unwrap();
    assert!(matches!(
        ApplyJournal::open(&path),
        Err(JournalError::Busy(_))
    ));
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    // At any length, the file is what a crash could have left: an incomplete last line does not
    // count.
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let journal = ApplyJournal::read(&path).unwrap();
        assert!(journal.damage().is_none() && journal.entries().len() <= 3);
    }
    std::fs::write(&path, [&whole[..], b"{\"change\":{\"id\":3"].concat()).unwrap();
    let mut journal = ApplyJournal::open(&path).unwrap();
    let names: Vec<&str> = journal.entries().map(|e| e.change.path()).collect();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(journal.entries().nth(1).unwrap().now.as_deref(), Some("is"));
    assert_eq!(journal.change("boot", None, made("d")).unwrap(), 3);
    let again = ApplyJournal::read(&path).unwrap();
    assert!(again.entries().eq(journal.entries()));
    for id in [0, 2, 3] {
        journal.undone(id).unwrap();
    }
    journal.close().unwrap();
    assert!(!path.exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_invalid_line_is_reported_and_the_others_are_read() {
    let folder = folder("damaged");
    let path = folder.join("journal");
    let mut journal = ApplyJournal::open(&path).unwrap();
    journal.change("boot", None, made("a")).unwrap();
    journal.change("boot", None, made("b")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("{\"folder\":\"a\"}", "{\"fol")).unwrap();
    drop(journal);
    let mut journal = ApplyJournal::open(&path).unwrap();
    assert!(
        journal
            .damage()
            .unwrap()
            .to_string()
            .contains("journal:2: is not a valid line")
    );
    assert_eq!(journal.entries().len(), 1);
    journal.undone(1).unwrap();
    journal.close().unwrap();
    assert!(path.exists(), "it is kept to be looked at");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_journal_does_not_grow_without_end() {
    let folder = folder("short");
    let path = folder.join("journal");
    let mut journal = ApplyJournal::open(&path).unwrap();
    for name in ["a", "b"] {
        journal.change("boot", None, made(name)).unwrap();
    }
    journal.undoing(1).unwrap();
    // Each turn adds a line, so that the file is rewritten at least once.
    for turn in 0..2 * LINES_MAX {
        journal.done(0, turn.to_string()).unwrap();
    }
    let again = ApplyJournal::read(&path).unwrap();
    assert!(again.lines < LINES_MAX + 16, "{}", again.lines);
    assert_eq!(again.lines, journal.lines);
    assert!(again.entries().eq(journal.entries()));
    assert_eq!(journal.change("boot", None, made("c")).unwrap(), 2);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_disk_without_room_refuses() {
    let folder = folder("full");
    let path = folder.join("journal");
    let mut journal = ApplyJournal::open(&path).unwrap();
    journal.change("boot", None, made("a")).unwrap();
    // Writes to /dev/full return ENOSPC (full(4)).
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    journal.file = Some(full);
    let error = journal.change("boot", None, made("b")).unwrap_err();
    assert!(error.to_string().contains("Free some space"), "{error}");
    assert_eq!(
        journal.entries().len(),
        1,
        "it is not believed to be on disk"
    );
    journal.change("boot", None, made("c")).unwrap();
    assert!(
        ApplyJournal::read(&path)
            .unwrap()
            .entries()
            .eq(journal.entries())
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_journal_that_another_user_can_have_made_is_refused() {
    let folder = folder("links");
    let (path, secret) = (folder.join("journal"), folder.join("secret"));
    let refused = |why: &str| {
        for error in [
            ApplyJournal::open(&path).unwrap_err(),
            ApplyJournal::read(&path).unwrap_err(),
        ] {
            assert!(error.to_string().contains(why), "{error}");
        }
    };
    std::fs::create_dir(&folder).unwrap();
    let lock = folder.join("journal.lock");
    std::os::unix::fs::symlink(&secret, &lock).unwrap();
    let error = ApplyJournal::open(&path).unwrap_err().to_string();
    assert!(error.contains("journal.lock is a symbolic link"), "{error}");
    assert!(!secret.exists());
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&secret, "").unwrap();
    std::os::unix::fs::symlink(&secret, &path).unwrap();
    refused("is a symbolic link");
    std::fs::remove_file(&path).unwrap();
    std::fs::hard_link(&secret, &path).unwrap();
    refused("has a second name");
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    refused("is a pipe");
    let shared = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder, shared).unwrap();
    refused("other users can write");
    std::fs::remove_dir_all(folder).unwrap();
}
