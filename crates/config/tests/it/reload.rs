//! Reloads: the edits from one file to the next while the server runs.

use crate::common::held;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use weir_config::{DrivePlan, DriveReload, Problem, Server, parse, plan, reload};
use weir_core::{Contract, Edit, GroupId, Instant, Knobs, Layer, SpaceId, Span};

fn read(text: &str) -> Server {
    match parse("weir.toml", text) {
        Ok(server) => server,
        Err(problems) => panic!("{problems:?} in\n{text}"),
    }
}

fn plans(server: &Server) -> Vec<DrivePlan> {
    server
        .drives
        .iter()
        .map(|d| plan(server, &d.name).unwrap())
        .collect()
}

const RUNNING: &str = r#"
[drive.x]
capacity = { read = "100MB/s", write = "100MB/s" }
limits = { volumes = 4, tenants = 2 }
[drive.y]
policy = "bfq"
[listen]
nbd = ["unix:/run/weir/nbd.sock"]
metrics = "127.0.0.1:9809"
[limits]
connections = 64
[tenant.t]
drive = "x"
min = "50MB/s"
[volume.a]
drive = "x"
file = "/a"
size = "1GiB"
tenant = "t"
min = "30MB/s"
[volume.b]
drive = "x"
memory = true
size = "1MiB"
[volume.d]
drive = "y"
memory = true
size = "1MiB"
listen = { vhost = "/run/weir/d.sock" }
"#;

/// Returns the changes that result from replacements in the running file.
fn after<S: AsRef<str>>(replaced: &[(S, S)]) -> Result<Vec<DriveReload>, Vec<Problem>> {
    let old = read(RUNNING);
    let text = replaced
        .iter()
        .fold(RUNNING.to_owned(), |text, (from, to)| {
            let (from, to) = (from.as_ref(), to.as_ref());
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
    Ok(reload(&old, &plans(&old), &read(&text))?.drives)
}

#[test]
fn an_unchanged_file_changes_nothing() {
    for drive in after::<&str>(&[]).unwrap() {
        assert_eq!(drive.edits, []);
        assert!(drive.added.is_empty() && drive.removed.is_empty() && drive.changed.is_empty());
    }
}

#[test]
fn contracts_and_capacity_change() {
    let to = [
        ("min = \"30MB/s\"", "share = 200"),
        ("min = \"50MB/s\"", "min = \"60MB/s\""),
        ("read = \"100MB/s\"", "read = \"90MB/s\", write_iops = 300"),
    ];
    let drives = after(&to).unwrap();
    assert_eq!(drives[0].changed, ["a"]);
    // The other drive is unchanged.
    assert_eq!(drives[1].edits, []);
    let [
        Edit::SetCapacity(Some(capacity)),
        Edit::SetContract {
            id: t,
            contract: of_t,
        },
        Edit::SetContract {
            id: a,
            contract: of_a,
        },
    ] = drives[0].edits[..]
    else {
        panic!("{:?}", drives[0].edits)
    };
    assert_eq!((capacity.read, capacity.write_iops), (90_000_000, 300));
    assert_eq!((t, of_t.min), (drives[0].plan.tenants["t"], 60_000_000));
    assert_eq!(
        (a, of_a.min, of_a.share),
        (drives[0].plan.volumes["a"].group, 0, 200)
    );
}

#[test]
fn a_target_is_a_knob_and_leaves_the_contract_alone() {
    let with = |target: &str| {
        let to = format!("min = \"30MB/s\"\nlatency = \"{target}\"");
        RUNNING.replacen("min = \"30MB/s\"", &to, 1)
    };
    let set = |us| Edit::SetKnobs {
        id: GroupId(2),
        knobs: Knobs {
            latency: Span::from_micros(us),
            ..Knobs::NONE
        },
    };
    let drives = after(&[("min = \"30MB/s\"", "min = \"30MB/s\"\nlatency = \"5ms\"")]).unwrap();
    // There is no edit of the contract.
    assert_eq!(drives[0].edits, [set(5_000)]);
    assert_eq!(drives[0].changed, ["a"]);
    let (old, new) = (read(&with("5ms")), read(&with("7us")));
    let plans = plans(&old);
    assert!(plans[0].edits.contains(&set(5_000)), "{:?}", plans[0].edits);
    // Second stage: a reload that changes only the target.
    let drives = reload(&old, &plans, &new).unwrap().drives;
    assert_eq!(drives[0].edits, [set(7)]);
}

/// Group 1 is the tenant. Groups 2 and 3 are the volumes a and b, in spaces 0 and 1.
#[test]
fn existing_volumes_keep_their_slots_and_added_volumes_take_free_ones() {
    let drives = after(&[("[volume.b]", "[volume.aa]")]).unwrap();
    assert_eq!(
        (&drives[0].added[..], &drives[0].removed[..]),
        (&["aa".into()][..], &["b".into()][..])
    );
    let expected = [
        Edit::SetSpace {
            id: SpaceId(1),
            size: None,
        },
        Edit::RemoveGroup(GroupId(3)),
        // The slots of volume b stay free until the next reload, so volume aa gets group 4 and
        // space 2.
        Edit::add_group(GroupId(4), GroupId(0), Contract::DEFAULT),
        Edit::SetSpace {
            id: SpaceId(2),
            size: Some(1 << 20),
        },
    ];
    assert_eq!(drives[0].edits, expected);
    assert_eq!(drives[0].plan.volumes["a"].group, GroupId(2));
}

/// Returns the replacements of a case of the golden file: its lines `"FROM" -> "TO"`.
fn replaced(case: &str) -> Vec<(String, String)> {
    let plain = |text: &str| {
        let inner = text.trim().strip_prefix('"')?.strip_suffix('"')?;
        Some(inner.replace("\\n", "\n").replace("\\\"", "\""))
    };
    let pairs = case.lines().filter_map(|line| line.split_once(" -> "));
    pairs
        .filter_map(|(from, to)| plain(from).zip(plain(to)))
        .collect()
}

#[test]
fn a_volume_comes_and_goes_with_its_socket() {
    let come = "[volume.e]\ndrive = \"y\"\nmemory = true\nsize = \"1MiB\"\nlisten = { vhost = \"/run/weir/e.sock\" }\n[volume.d]";
    assert_eq!(after(&[("[volume.d]", come)]).unwrap()[1].added, ["e"]);
    // Second stage: volume f replaces volume d at another path.
    let gone = after(&[
        ("[volume.d]", come),
        ("[volume.d]", "[volume.f]"),
        ("/run/weir/d.sock", "/run/weir/f.sock"),
    ]);
    assert_eq!(gone.unwrap()[1].removed, ["d"]);
}

/// `tests/golden/reload.txt` has the replacements and the problems. The last two cases need a path
/// and a slot that become free only when the volume is removed.
#[test]
fn changes_that_need_a_restart_are_refused() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/reload.txt");
    let held = fs::read_to_string(&golden).expect("part of the source");
    let mut all = String::new();
    for case in held.split_terminator("\n\n") {
        let replaced = replaced(case);
        for (from, to) in &replaced {
            writeln!(all, "{from:?} -> {to:?}").unwrap();
        }
        let problems = after(&replaced).expect_err("not while it runs");
        for problem in problems {
            writeln!(all, "{problem}").unwrap();
        }
        all.push('\n');
    }
    held::check(golden, &all);
}

/// The state of a layer: groups with their parents, contracts and knobs, and spaces with their
/// sizes.
#[derive(Clone, PartialEq, Debug, Default)]
struct LayerState {
    groups: BTreeMap<GroupId, (GroupId, Contract, Knobs)>,
    spaces: BTreeMap<SpaceId, u64>,
}

impl LayerState {
    /// Returns the state after the edits, each of which must be possible at its place.
    fn apply(mut self, edits: &[Edit]) -> Self {
        for edit in edits {
            match *edit {
                Edit::AddGroup {
                    id,
                    parent,
                    contract,
                } => assert_eq!(
                    self.groups.insert(id, (parent, contract, Knobs::NONE)),
                    None,
                    "{edits:?}"
                ),
                Edit::SetContract { id, contract } => {
                    self.groups.get_mut(&id).expect("it is there").1 = contract;
                }
                Edit::SetKnobs { id, knobs } => {
                    self.groups.get_mut(&id).expect("it is there").2 = knobs;
                }
                Edit::RemoveGroup(id) => {
                    assert!(self.groups.remove(&id).is_some());
                    assert!(self.groups.values().all(|g| g.0 != id), "{edits:?}");
                }
                Edit::SetSpace { id, size } => {
                    let before = match size {
                        Some(size) => self.spaces.insert(id, size),
                        None => self.spaces.remove(&id),
                    };
                    let grows = before.is_some() && size > before;
                    // A space is added, removed, or grows.
                    assert!(before.is_some() == size.is_none() || grows, "{edits:?}");
                }
                Edit::SetCapacity(_) => {}
                Edit::SetDebt { .. } => panic!("a reload keeps debts: {edits:?}"),
            }
        }
        self
    }
}

/// The volumes and tenants of a file by number: the tenant and the min of each volume, and the min
/// of each tenant.
type DrawnTables = (BTreeMap<u8, (Option<u8>, u8)>, BTreeMap<u8, u8>);

/// Draws valid files. A volume has the same tenant in all of them.
fn drawn() -> impl Strategy<Value = DrawnTables> {
    let volumes = prop::collection::btree_map(0_u8..12, 0_u8..4, 0..10);
    let tenants = prop::collection::btree_map(0_u8..4, 0_u8..2, 0..4);
    (volumes, tenants).prop_map(|(volumes, tenants)| {
        // The number of a volume determines its tenant, if that exists. Volumes from 8 on have
        // none.
        let tenant = |v: u8| Some(v / 2).filter(|t| *t < 4);
        let kept = volumes
            .into_iter()
            .filter(|(v, _)| tenant(*v).is_none_or(|t| tenants.contains_key(&t)));
        (
            kept.map(|(v, min)| (v, (tenant(v), min))).collect(),
            tenants.clone(),
        )
    })
}

/// Returns the text of the nth file. Every second volume grows from one file to the next.
fn written(nth: usize, (volumes, tenants): &DrawnTables) -> String {
    let mut text = String::from(
        "[drive.d]\ncapacity = { read = \"1GB/s\", write = \"1GB/s\" }\nlimits = { volumes = 24, tenants = 8 }\n[listen]\nnbd = [\"127.0.0.1:0\"]\n",
    );
    let min = |text: &mut String, min: u8| {
        if min > 0 {
            writeln!(text, "min = \"{min}MB/s\"").unwrap();
        }
    };
    for (tenant, promised) in tenants {
        writeln!(text, "[tenant.t{tenant}]\ndrive = \"d\"").unwrap();
        min(&mut text, promised * 10);
    }
    for (volume, (tenant, promised)) in volumes {
        // A running volume can grow but not shrink.
        let size = 1 + nth * usize::from(volume % 2);
        writeln!(
            text,
            "[volume.v{volume}]\ndrive = \"d\"\nmemory = true\nsize = \"{size}MiB\""
        )
        .unwrap();
        if let Some(tenant) = tenant {
            writeln!(text, "tenant = \"t{tenant}\"").unwrap();
        }
        min(&mut text, *promised);
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Checks a sequence of reloads: after each, the edits bring the running layer to the state of
    /// a start with the same slots.
    #[test]
    fn edits_lead_where_a_fresh_start_would(files in prop::collection::vec(drawn(), 2..6)) {
        let mut server = read(&written(0, &files[0]));
        let mut plan = plan(&server, "d").unwrap();
        let mut layer = Layer::new(plan.config.clone()).unwrap();
        prop_assert!(layer.change(Instant::ZERO, &plan.edits).is_ok());
        let mut state = LayerState::default().apply(&plan.edits);
        for (nth, file) in files.iter().enumerate().skip(1) {
            let next = read(&written(nth, file));
            let drive = reload(&server, &[plan], &next).unwrap().drives.remove(0);
            prop_assert!(layer.change(Instant::ZERO, &drive.edits).is_ok());
            state = state.apply(&drive.edits);
            prop_assert_eq!(&state, &LayerState::default().apply(&drive.plan.edits));
            for (name, slot) in &drive.plan.volumes {
                let contract = next.volume(name).unwrap().contract;
                prop_assert_eq!(state.groups[&slot.group].1, contract);
                prop_assert!(state.spaces.contains_key(&slot.space));
            }
            prop_assert_eq!(state.spaces.len(), next.volumes.len());
            prop_assert_eq!(state.groups.len(), next.volumes.len() + next.tenants.len());
            (server, plan) = (next, drive.plan);
        }
    }
}
