//! Tests of whole screens, and of keys and news in any order.

use super::draw::draw;
use super::look::ScreenStyle;
use super::once;
use super::row::TopRow;
use super::state::{KeyPress, LoopFlow, TopState};
use super::watch::ServerNews;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::fs;
use std::path::Path;
use weir_manage::api::{
    Budget, Contract, Drive, DriveFigures, Event, Latency, Second, SecondCounts, ShortSecond,
    Status, Tenant, TenantFigures, Volume, VolumeFigures,
};

const PLAIN: ScreenStyle = ScreenStyle { colour: false };

fn volume(name: &str, mut contract: Contract, now: VolumeFigures) -> Volume {
    contract.share = 100;
    "best-effort".clone_into(&mut contract.class);
    Volume {
        name: name.to_owned(),
        drive: "fast".to_owned(),
        size_bytes: 1 << 30,
        contract,
        now: VolumeFigures {
            name: name.to_owned(),
            connections: 1,
            share: 0.25,
            ..now
        },
        ..Volume::default()
    }
}

fn busy(mb_per_s: f64, latency: [f64; 3], queue: u32, limited_by: &str) -> VolumeFigures {
    let [limit_us, elevator_us, drive_us] = latency;
    VolumeFigures {
        bytes_per_second: (mb_per_s * 1e6) as u64,
        requests_per_second: (mb_per_s * 1e6 / 65_536.0) as u64,
        got: mb_per_s / 160.0,
        latency: Some(Latency {
            limit_us,
            elevator_us,
            drive_us,
        }),
        queue,
        limited_by: Some(limited_by.to_owned()),
        ..VolumeFigures::default()
    }
}

fn promised(min: u64, min_iops: u64, max: u64) -> Contract {
    Contract {
        min_bytes_per_second: min,
        min_requests_per_second: min_iops,
        max_bytes_per_second: max,
        ..Contract::default()
    }
}

fn drive() -> Drive {
    Drive {
        name: "fast".to_owned(),
        budget: Some(Budget {
            bytes_per_second: 160_000_000,
            requests_per_second: 40_000,
            promised_bytes_per_second: 20_000_000,
            promised_requests_per_second: 500,
            left_bytes_per_second: 118_605_276,
            left_requests_per_second: 25_845,
            promised_millionths: 139_924,
        }),
        now: DriveFigures {
            name: "fast".to_owned(),
            bytes_per_second: 157_400_000,
            requests_per_second: 2_401,
            busy: 0.98,
            queue: 43,
            in_flight: 8,
        },
        ..Drive::default()
    }
}

fn tenant() -> Tenant {
    Tenant {
        name: "acme".to_owned(),
        config: [("drive".to_owned(), "fast".into())].into_iter().collect(),
        contract: Contract {
            share: 100,
            class: "best-effort".to_owned(),
            ..promised(60_000_000, 0, 0)
        },
        now: TenantFigures {
            name: "acme".to_owned(),
            bytes_per_second: 43_600_000,
            requests_per_second: 664,
            queue: 10,
            short: None,
        },
        ..Tenant::default()
    }
}

/// Returns six volumes, each with another cause that limits it or another state.
fn volumes() -> Vec<Volume> {
    let waits = busy(13.4, [0.0, 4_210.0, 388.0], 8, "neighbour");
    let mut orders = volume("orders-db", promised(20_000_000, 0, 0), waits);
    orders.tenant = Some("acme".to_owned());
    orders.now.short = Some("neighbour".to_owned());
    orders.now.oldest_ms = 12;
    orders.seconds = SecondCounts {
        promised: 100,
        kept: 95,
        unasked: 0,
        short: [("slow-drive".to_owned(), 2), ("neighbour".to_owned(), 3)].into(),
        excused: [].into(),
    };
    let reads = busy(30.2, [0.0, 310.5, 1_100.0], 2, "own-depth");
    let mut web = volume("web", promised(0, 500, 0), reads);
    web.tenant = Some("acme".to_owned());
    let none = || promised(0, 0, 0);
    let mut failed = volume("scratch", none(), VolumeFigures::default());
    failed.now.sync_failed = true;
    let streams = busy(93.8, [0.0, 61_000.0, 24_800.0], 8, "neighbour");
    let held = busy(20.0, [130_000.0, 0.0, 512.0], 16, "own-max");
    vec![
        orders,
        web,
        volume("nightly-backup", none(), streams),
        Volume {
            block_device: Some("/dev/ublkb7".to_owned()),
            ..volume("build-cache", promised(0, 0, 20_000_000), held)
        },
        failed,
        volume("spare", none(), VolumeFigures::default()),
    ]
}

/// Returns the status of a drive with a tenant and the six volumes.
fn some() -> Status {
    Status {
        version: "0.2.0".to_owned(),
        uptime_seconds: 11_520,
        ready: true,
        drives: vec![drive()],
        tenants: vec![tenant()],
        volumes: volumes(),
        ..Status::default()
    }
}

/// Returns the status of six drives with 1000 volumes, with names of up to 259 bytes.
fn many() -> Status {
    let one = some();
    let mut status = Status {
        drives: vec![one.drives[0].clone(); 6],
        ..one
    };
    status.volumes = (0..1000)
        .map(|number| {
            let mut name = format!("customer-{number:04}-");
            name += &"long-".repeat(number % 50);
            let mb_per_s = f64::from(number as u32 % 97) / 10.0;
            let now = busy(mb_per_s, [0.0, mb_per_s * 100.0, 250.0], 3, "neighbour");
            volume(&name, promised(1_000_000, 0, 0), now)
        })
        .collect();
    status
}

/// Returns a second with the figures of the status, scaled by a factor that depends on its number.
fn second(status: &Status, number: u64) -> ServerNews {
    let wave = [10, 7, 4, 9, 2, 5, 10, 8][number as usize % 8];
    let mut second = Second {
        at_ms: 1000 * number,
        drives: status.drives.iter().map(|d| d.now.clone()).collect(),
        volumes: status.volumes.iter().map(|v| v.now.clone()).collect(),
        ..Second::default()
    };
    for volume in &mut second.volumes {
        volume.bytes_per_second = volume.bytes_per_second * wave / 10;
    }
    for drive in &mut second.drives {
        drive.busy = drive.busy * wave as f64 / 10.0;
    }
    ServerNews::Event(Event::Second(second))
}

fn played(status: Status, seconds: u64) -> TopState {
    let all = status.clone();
    let mut state = TopState::new(status);
    for number in (0..=seconds).rev() {
        // The last second has a number that is a multiple of 8, whose factor is 1.
        state.on_news(second(&all, 8 * seconds - number));
    }
    state
}

fn screen(state: &mut TopState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, PLAIN)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width)).map(|line| {
        let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Compares a text with `tests/golden/NAME.txt`, or writes the file if `WEIR_BLESS=1` is set.
fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("WEIR_BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, actual).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == actual,
        "{name} differs:\n--- golden\n{wanted}\n--- actual\n{actual}"
    );
}

fn press(state: &mut TopState, keys: &[KeyPress]) {
    for key in keys {
        assert_eq!(state.on_key(*key), LoopFlow::On, "{key:?}");
    }
}

fn chosen(state: &TopState) -> String {
    let rows: Vec<TopRow<'_>> = state.rows();
    rows[state.place(&rows)].name.to_owned()
}

#[test]
fn screens_of_a_drive_with_some_volumes() {
    let mut state = played(some(), 40);
    golden("top-80x24", &screen(&mut state, 80, 24));
    golden("top-120x40", &screen(&mut state, 120, 40));
    press(&mut state, &[KeyPress::Tab]);
    golden("top-tenants", &screen(&mut state, 80, 24));
    press(&mut state, &[KeyPress::Char('?')]);
    golden("top-help", &screen(&mut state, 80, 24));
    golden("top-once", &once::tables(&state, 80));
}

#[test]
fn a_narrow_screen_has_fewer_columns_and_whole_numbers() {
    let mut state = played(some(), 40);
    golden("top-60x20", &screen(&mut state, 60, 20));
    for width in 19..80 {
        let screen = screen(&mut state, width, 24);
        let once = once::tables(&state, usize::from(width));
        // In the last second, `web` has 30.2 MB/s in requests of 64 KiB, which are 460 per second.
        for (row, got) in [("orders-d", " 13.4MB/s"), ("web", " 460r/s")] {
            for shown in [&screen, &once] {
                let mut lines = shown.lines();
                let line = lines.find(|line| line.starts_with(row)).unwrap_or_default();
                assert!(line.contains(got), "{width} columns:\n{shown}");
            }
        }
    }
}

#[test]
fn the_part_of_a_shared_min_is_shown() {
    let mut status = some();
    let orders = &mut status.volumes[0];
    orders.now.part = Some(0.4);
    // 40 % of the min of 20 MB/s are promised by this server.
    assert_eq!(orders.promised(), (8_000_000, 0));
    let mut state = played(status, 1);
    press(&mut state, &[KeyPress::Rows(2)]);
    assert_eq!(chosen(&state), "orders-db");
    let screen = screen(&mut state, 120, 40);
    for words in ["min 20.0MB/s of which 40.0 % here", " 8.00MB/s 13.4MB/s "] {
        assert!(screen.contains(words), "{screen}");
    }
}

#[test]
fn screens_of_a_thousand_volumes_with_long_names() {
    let mut state = played(many(), 40);
    // The rows are sorted by throughput, and the second screen of rows is shown.
    press(
        &mut state,
        &[KeyPress::Right, KeyPress::Right, KeyPress::Pages(1)],
    );
    golden("top-many-80x24", &screen(&mut state, 80, 24));
    golden("top-many-120x40", &screen(&mut state, 120, 40));
}

#[test]
fn a_row_stays_chosen_wherever_it_moves() {
    let mut state = played(some(), 1);
    press(
        &mut state,
        &[KeyPress::Rows(2), KeyPress::Char('k'), KeyPress::Char('j')],
    );
    let name = chosen(&state);
    assert_eq!(name, "orders-db");
    // The row moves to other places in the table.
    press(
        &mut state,
        &[KeyPress::Right, KeyPress::Char('r'), KeyPress::Left],
    );
    assert_eq!(chosen(&state), name);
    press(&mut state, &[KeyPress::End]);
    assert_eq!(chosen(&state), "build-cache", "names are reversed");
}

#[test]
fn the_filter_matches_name_tenant_and_cause() {
    let mut state = played(some(), 1);
    let names = |state: &TopState| {
        let rows = state.rows();
        rows.iter().map(|r| r.name.to_owned()).collect::<Vec<_>>()
    };
    let typed = |state: &mut TopState, text: &str| {
        press(state, &[KeyPress::Escape, KeyPress::Char('/')]);
        text.chars()
            .for_each(|c| press(state, &[KeyPress::Char(c)]));
        press(state, &[KeyPress::Enter]);
    };
    typed(&mut state, "ACME");
    assert_eq!(names(&state), ["orders-db", "web"]);
    typed(&mut state, "own-max");
    assert_eq!(names(&state), ["build-cache"]);
    typed(&mut state, "q");
    assert_eq!(names(&state), [""; 0], "letters are text while one types");
    // An empty table has a text, so that it does not look like a lost connection.
    assert!(screen(&mut state, 80, 24).contains("nothing to show"));
    press(&mut state, &[KeyPress::Escape]);
    assert_eq!(names(&state).len(), 6);
}

#[test]
fn a_lost_connection_is_shown_until_the_server_is_back() {
    let mut state = played(some(), 1);
    state.on_news(ServerNews::Lost("the server has ended".to_owned()));
    let shown = screen(&mut state, 80, 24);
    assert!(
        shown.starts_with("NOT CONNECTED, trying again: the server has ended"),
        "{shown}"
    );
    assert!(shown.contains("orders-db"), "the last figures stay");
    state.on_news(ServerNews::Status(Box::new(some())));
    assert!(screen(&mut state, 80, 24).starts_with("weir 0.2.0"));
}

#[test]
fn a_short_second_is_counted_when_its_event_arrives() {
    let mut state = played(some(), 1);
    state.on_news(ServerNews::Event(Event::Short(ShortSecond {
        of: "volume.orders-db".to_owned(),
        cause: "slow-drive".to_owned(),
        neighbour: None,
        ..ShortSecond::default()
    })));
    let shown = screen(&mut state, 100, 24);
    assert!(
        shown.contains("last short: volume.orders-db (slow-drive)"),
        "{shown}"
    );
    // The volume had five short seconds before, and the mark stands for its short last second.
    assert!(shown.contains("!6"), "{shown}");
}

fn any_key() -> impl Strategy<Value = KeyPress> {
    prop_oneof![
        "[a-z/?]".prop_map(|text| KeyPress::Char(text.chars().next().unwrap_or('x'))),
        any::<char>()
            .prop_filter("no control", |c| !c.is_control())
            .prop_map(KeyPress::Char),
        (-3..4_isize).prop_map(KeyPress::Rows),
        (-2..3_isize).prop_map(KeyPress::Pages),
        prop::sample::select(vec![
            KeyPress::Enter,
            KeyPress::Escape,
            KeyPress::Backspace,
            KeyPress::Tab,
            KeyPress::Left,
            KeyPress::Right,
            KeyPress::Home,
            KeyPress::End,
        ]),
    ]
}

/// Returns a strategy for a step: a key, or the number of volumes that exist from now on.
fn any_step() -> impl Strategy<Value = Result<KeyPress, usize>> {
    prop_oneof![4 => any_key().prop_map(Ok), 1 => (0..7_usize).prop_map(Err)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_and_news_in_any_order_leave_a_screen(
        steps in prop::collection::vec(any_step(), 0..60),
        width in 1..200_u16,
        height in 1..60_u16,
    ) {
        let mut state = TopState::new(some());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Ok(key) => {
                    state.on_key(key);
                }
                Err(volumes) => {
                    let mut status = some();
                    status.volumes.truncate(volumes);
                    state.on_news(second(&status, number as u64));
                    state.on_news(ServerNews::Status(Box::new(status)));
                }
            }
            screen(&mut state, width, height);
            let rows = state.rows();
            // The selected row is always one of the rows, even if its volume was removed.
            prop_assert!(rows.is_empty() || state.place(&rows) < rows.len());
        }
        prop_assert_eq!(state.on_key(KeyPress::Interrupt), LoopFlow::End);
    }
}
