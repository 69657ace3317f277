//! Turns the texts that a kernel reports into quantities over time.
//!
//! The quantities of io.cost have the names and units that the simulator gives them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The text that marks the beginning of a run among the events of a trace. A number of nanoseconds
/// follows, which is the time from the mark to the beginning.
pub(super) const MARK: &str = "weir begins in ";

/// The name of the pressure of some tasks.
const PRESSURE: &str = "some io.pressure";

/// The vrate of 100 %, in units of vtime per microsecond: a second has 2^37 units of vtime
/// (`VTIME_PER_SEC`).
const VRATE_ONE: f64 = (1u64 << 37) as f64 / 1e6;

/// The weight of 1 in a tracepoint (`WEIGHT_ONE`).
const WEIGHT_ONE: f64 = 65536.0;

/// The number of windows into which the events of a run are divided.
const WINDOWS: u64 = 200;

/// The size of a sector of `/sys/block/NAME/stat`, in bytes.
const SECTOR: u64 = 512;

/// One quantity of a kernel over time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KernelSeries {
    /// The name of the quantity, such as `vrate`.
    pub state: String,
    /// The number of the group from 1, or `None` for the drive.
    pub group: Option<u32>,
    /// The unit, or an empty string for a number of things.
    pub unit: String,
    /// The points: nanoseconds from the beginning of the run, and the value at that time.
    pub points: Vec<(u64, f64)>,
}

/// The counters of a device or a group since the boot: the bytes that were read and written.
pub(super) type IoBytes = Option<(u64, u64)>;

/// The counters and the text of the pressure at one time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KernelSample {
    /// Nanoseconds from the beginning of the run.
    pub(super) at_ns: u64,
    /// The counters of the drive, and the pressure of all tasks.
    pub(super) drive: (IoBytes, String),
    /// The counters and the pressure of each group.
    pub(super) groups: Vec<(IoBytes, String)>,
}

/// Parses the line of a device in `io.stat`, such as `8:16 rbytes=4096 wbytes=0 rios=1 ...`.
pub(super) fn of_device(stat: &str, number: &str) -> IoBytes {
    let line = stat
        .lines()
        .find_map(|line| line.strip_prefix(number)?.strip_prefix(' '));
    // A group that has sent no request yet has no line.
    let line = line.unwrap_or_default();
    let value = |key: &str| match word(line, key) {
        None => Some(0),
        Some(value) => value.parse().ok(),
    };
    Some((value("rbytes=")?, value("wbytes=")?))
}

/// Parses `/sys/block/NAME/stat`, whose third and seventh numbers are sectors.
pub(super) fn of_drive(stat: &str) -> IoBytes {
    let numbers: Vec<u64> = stat
        .split_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    Some((numbers.get(2)? * SECTOR, numbers.get(6)? * SECTOR))
}

/// Parses a line of `io.pressure`: the time for which tasks were stalled since the boot, in
/// microseconds. `kind` is `some` or `full`.
fn stalled(pressure: &str, kind: &str) -> Option<u64> {
    let line = pressure.lines().find(|line| line.starts_with(kind))?;
    word(line, "total=")?.parse().ok()
}

/// Returns the text after a key in a line of words, up to the end of its word.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(key))
}

/// Returns the rates and pressures between each two samples, for the drive and the groups.
pub(super) fn of_samples(samples: &[KernelSample]) -> Vec<KernelSeries> {
    let mut all = Vec::new();
    let groups = samples.first().map_or(0, |sample| sample.groups.len());
    for subject in std::iter::once(None).chain((0..groups).map(Some)) {
        let of = |sample: &KernelSample| match subject {
            None => sample.drive.clone(),
            Some(group) => sample.groups.get(group).cloned().unwrap_or_default(),
        };
        let mb_per_s = |counter: fn((u64, u64)) -> u64| {
            rate(samples, |sample| Some(counter(of(sample).0?)), 1e3)
        };
        // Microseconds of stall in a nanosecond of time, as per cent.
        let percent = |kind: &str| rate(samples, |s| stalled(&of(s).1, kind), 1e5);
        for (state, unit, points) in [
            ("io.stat reads", "MB/s", mb_per_s(|(reads, _)| reads)),
            ("io.stat writes", "MB/s", mb_per_s(|(_, writes)| writes)),
            (PRESSURE, "%", percent("some ")),
            ("full io.pressure", "%", percent("full ")),
        ] {
            if !points.is_empty() {
                all.push(KernelSeries {
                    state: state.to_owned(),
                    group: subject.map(|group| group as u32 + 1),
                    unit: unit.to_owned(),
                    points,
                });
            }
        }
    }
    // The quantities of all subjects are neighbours, and the drive is the first subject of each.
    all.sort_by(|a, b| a.state.cmp(&b.state));
    all
}

/// Returns the increase of a counter between each two samples, per nanosecond and times `scale`.
/// Each point is at the end of its interval.
fn rate(
    samples: &[KernelSample],
    counter: impl Fn(&KernelSample) -> Option<u64>,
    scale: f64,
) -> Vec<(u64, f64)> {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let points = pairs.filter_map(|(before, after)| {
        let time = after
            .at_ns
            .checked_sub(before.at_ns)
            .filter(|time| *time > 0)?;
        let more = counter(after)?.saturating_sub(counter(before)?);
        Some((after.at_ns, more as f64 * scale / time as f64))
    });
    points.collect()
}

/// An event of a trace.
struct TraceEvent<'a> {
    /// The time in nanoseconds of the trace's clock.
    at_ns: u64,
    name: &'a str,
    text: &'a str,
}

/// Parses a line of `trace_pipe`, such as `fio-70 [000] d.s2. 3.512345: NAME: TEXT`.
fn event(line: &str) -> Option<TraceEvent<'_>> {
    let (head, rest) = line.split_once(": ")?;
    let (name, text) = rest.split_once(": ")?;
    let (seconds, fraction) = head.split_whitespace().last()?.split_once('.')?;
    // The kernel prints microseconds, or nanoseconds with some clocks.
    let digits = u32::try_from(fraction.len()).ok().filter(|n| *n <= 9)?;
    let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(9 - digits);
    let at_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)? + fraction;
    Some(TraceEvent { at_ns, name, text })
}

/// The quantities of io.cost at one time. Groups that are not active have no weights.
#[derive(Default)]
struct CostState {
    /// The vrate in per cent, the busy level, and the number of lagging groups.
    drive: Option<[f64; 3]>,
    /// The active weight and the weight in use of each active group.
    weights: BTreeMap<u32, [f64; 2]>,
}

impl CostState {
    /// Applies an event of a device's trace.
    fn apply(&mut self, event: &TraceEvent<'_>, device: &str, groups: &[String]) -> Option<()> {
        let (subject, text) = event.text.strip_prefix('[')?.split_once(']')?;
        let mut subject = subject.splitn(2, ':');
        if subject.next() != Some(device) {
            return None;
        }
        let number = |text: &str| text.parse::<f64>().ok();
        let new = |key: &str| number(word(text, key)?.split_once("->")?.1);
        if event.name == "iocost_ioc_vrate_adj" {
            let vrate = new("vrate=")? / VRATE_ONE * 100.0;
            self.drive = Some([
                vrate,
                number(word(text, "busy=")?)?,
                number(word(text, "lagging=")?)?,
            ]);
            return Some(());
        }
        // In a container, paths begin above the root of its cgroups.
        let path = subject.next()?;
        let place = groups
            .iter()
            .position(|group| path.ends_with(group.as_str()))?;
        let group = place as u32 + 1;
        match event.name {
            "iocost_iocg_activate" => {
                let (inuse, active) = word(text, "weight=")?.split_once('/')?;
                let weights = [number(active)? / WEIGHT_ONE, number(inuse)? / WEIGHT_ONE];
                self.weights.insert(group, weights);
            }
            "iocost_iocg_idle" => {
                self.weights.remove(&group);
            }
            _ => {
                let inuse = new("inuse=")? / WEIGHT_ONE;
                self.weights.get_mut(&group)?[1] = inuse;
            }
        }
        Some(())
    }
}

/// Returns the quantities of io.cost from the text of its tracepoints, as they are at the end of
/// each window of the run.
///
/// `device` is the name of the device in `/sys/block`, and `groups` has the paths of the groups
/// below the root. Returns nothing if the text has no mark, because its events then have no time.
pub(super) fn of_trace(text: &[u8], device: &str, groups: &[String]) -> Vec<KernelSeries> {
    let text = String::from_utf8_lossy(text);
    let events: Vec<TraceEvent<'_>> = text.lines().filter_map(event).collect();
    let began = events.iter().find_map(|event| {
        let ahead = event.text.strip_prefix(MARK)?;
        Some(event.at_ns + ahead.trim().parse::<u64>().ok()?)
    });
    let (Some(began), Some(last)) = (began, events.last()) else {
        return Vec::new();
    };
    let step = (last.at_ns.saturating_sub(began) / WINDOWS).max(1);
    // By quantity and group.
    let mut all: BTreeMap<(usize, Option<u32>), _> = BTreeMap::new();
    let mut state = CostState::default();
    let mut events = events.iter().peekable();
    for window in 1..=WINDOWS {
        while let Some(event) = events.next_if(|event| event.at_ns <= began + window * step) {
            // Other events of the trace, such as the mark, change nothing.
            let _ = state.apply(event, device, groups);
        }
        let at = window * step;
        let drive = state.drive.iter().flatten().enumerate();
        for (quantity, value) in drive {
            let points: &mut Vec<(u64, f64)> = all.entry((quantity, None)).or_default();
            points.push((at, *value));
        }
        for (group, weights) in &state.weights {
            for (quantity, value) in weights.iter().enumerate() {
                let key = (QUANTITIES.len() - 2 + quantity, Some(*group));
                all.entry(key).or_default().push((at, *value));
            }
        }
    }
    let all = all.into_iter().map(|((quantity, group), points)| {
        let (state, unit) = QUANTITIES[quantity];
        KernelSeries {
            state: state.to_owned(),
            group,
            unit: unit.to_owned(),
            points,
        }
    });
    all.collect()
}

/// The quantities of io.cost with their units, as the simulator names them: those of the drive, and
/// the two of a group.
const QUANTITIES: [(&str, &str); 5] = [
    ("vrate", "%"),
    ("busy level", ""),
    ("lagging groups", ""),
    ("active weight", ""),
    ("weight in use", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [&str; 2] = ["/weir-1", "/weir-2"];

    /// Lines of Linux 6.1, whose trace clock in this guest has steps of 4 ms. The mark promises the
    /// beginning 20 ms later, so that the run begins at 0.100 s.
    const TRACE: &str = "\
      guest-init-1       [000] .....     0.080000: tracing_mark_write: weir begins in 20000000
             fio-62      [000] d....     0.208000: iocost_iocg_activate: [vda:/weir-2] now=208060:28022371258 vrate=137438 period=0->0 vtime=27953652258 weight=19660800/19660800 hweight=65536/65536
             fio-64      [000] d....     0.208000: iocost_iocg_activate: [vda:/weir-1] now=210978:28423415342 vrate=137438 period=0->0 vtime=28354696342 weight=6553600/6553600 hweight=65536/65536
          <idle>-0       [000] d.s..     0.216000: iocost_inuse_transfer: [vda:/weir-2] now=216000 inuse=19660800->825309 hw_inuse=49152->7330
          <idle>-0       [000] d.s..     0.216000: iocost_ioc_vrate_adj: [vda] vrate=137438->274876 busy=-1 missed_ppm=0:0 rq_wait_pct=0 lagging=2 shortages=1
          <idle>-0       [000] d.s..     0.216000: iocost_ioc_vrate_adj: [vdb] vrate=137438->137438 busy=7 missed_ppm=0:0 rq_wait_pct=0 lagging=9 shortages=1
CPU:0 [LOST 4 EVENTS]
          <idle>-0       [000] dns..     0.600000: iocost_iocg_idle: [vda:/weir-2] now=224000:31312636978 vrate=274876 period=0->1 vtime=29044909978 weight=825309/19660800 hweight=7330/49152
          <idle>-0       [000] d.s..     1.100000: iocost_ioc_vrate_adj: [vda] vrate=274876->68719 busy=12 missed_ppm=0:0 rq_wait_pct=0 lagging=0 shortages=1
";

    fn traced(text: &str) -> Vec<KernelSeries> {
        let groups = GROUPS.map(str::to_owned);
        of_trace(text.as_bytes(), "vda", &groups)
    }

    fn at(all: &[KernelSeries], state: &str, group: Option<u32>, ms: u64) -> Option<f64> {
        let found = all.iter().find(|s| s.state == state && s.group == group)?;
        let point = found.points.iter().find(|p| p.0 == ms * 1_000_000)?;
        Some(point.1)
    }

    #[test]
    fn tracepoints_become_the_states_that_the_simulator_has() {
        let all = traced(TRACE);
        let units: Vec<_> = all
            .iter()
            .map(|s| (&s.state[..], s.group, &s.unit[..]))
            .collect();
        let expected = [
            ("vrate", None, "%"),
            ("busy level", None, ""),
            ("lagging groups", None, ""),
            ("active weight", Some(1), ""),
            ("active weight", Some(2), ""),
            ("weight in use", Some(1), ""),
            ("weight in use", Some(2), ""),
        ];
        assert_eq!(units, expected);
        // The run begins at 0.1 s of the trace and has 200 windows of 5 ms.
        assert_eq!(at(&all, "vrate", None, 110), None, "before the first event");
        let vrate = |ms| at(&all, "vrate", None, ms).unwrap();
        assert!((vrate(120) - 200.0).abs() < 0.01 && (vrate(1_000) - 50.0).abs() < 0.01);
        assert_eq!(at(&all, "busy level", None, 995), Some(-1.0));
        assert_eq!(at(&all, "busy level", None, 1_000), Some(12.0));
        assert_eq!(at(&all, "lagging groups", None, 500), Some(2.0));
        assert_eq!(at(&all, "active weight", Some(1), 1_000), Some(100.0));
        let inuse = |ms| at(&all, "weight in use", Some(2), ms);
        assert_eq!(inuse(110), Some(300.0));
        assert!((inuse(400).unwrap() - 825_309.0 / 65_536.0).abs() < 1e-9);
        // The group is idle from 0.5 s of the run on.
        assert_eq!(
            (inuse(500), at(&all, "active weight", Some(2), 505)),
            (None, None)
        );
    }

    #[test]
    fn events_without_a_mark_or_of_another_form_are_left_out() {
        assert_eq!(traced(""), []);
        let (_, without) = TRACE.split_once('\n').unwrap();
        assert_eq!(traced(without), []);
        let changed = TRACE.replace("->", " to ").replace("weight=", "w=");
        assert_eq!(traced(&changed), []);
        // A group of another program, and one whose path only ends with the same number.
        for path in ["/system.slice", "/weir-11", "/other-weir-1"] {
            let all = traced(&TRACE.replace("/weir-1]", &format!("{path}]")));
            assert!(all.iter().all(|s| s.group != Some(1)), "{path}");
        }
        // The path in a container begins above the root of its cgroups.
        let nested = traced(&TRACE.replace(":/weir-1]", ":/machine/box/weir-1]"));
        assert_eq!(at(&nested, "active weight", Some(1), 500), Some(100.0));
    }

    #[test]
    fn counters_of_a_device_are_found_by_its_number() {
        let stat = "8:1 rbytes=1 wbytes=2 rios=1\n8:16 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0 cost.usage=7\n";
        assert_eq!(of_device(stat, "8:16"), Some((4096, 512)));
        assert_eq!(of_device(stat, "8:1"), Some((1, 2)));
        // A group without requests has no line, and a device without numbers only its name.
        assert_eq!(of_device("", "8:16"), Some((0, 0)));
        assert_eq!(of_device("8:16 \n", "8:16"), Some((0, 0)));
        assert_eq!(of_device("8:16 rbytes=many", "8:16"), None);
        let drive = "  1044  0  22336  96  3  0  24  1  0  80  97  0  0  0  0  0  0\n";
        assert_eq!(of_drive(drive), Some((22_336 * 512, 24 * 512)));
        assert_eq!((of_drive(""), of_drive("1 2 x")), (None, None));
    }

    #[test]
    fn pressure_is_the_time_of_stalls() {
        let text = "some avg10=1.00 avg60=0.20 avg300=0.00 total=1500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=400\n";
        assert_eq!(
            (stalled(text, "some "), stalled(text, "full ")),
            (Some(1500), Some(400))
        );
        // The system's /proc/pressure has only `some` for processors on older kernels.
        assert_eq!(stalled("some avg10=0.00 total=1\n", "full "), None);
        assert_eq!(stalled("some avg10=0.00\n", "some "), None);
    }

    #[test]
    fn rates_are_those_between_two_samples() {
        let pressure = |us: u64| format!("some avg10=0.00 total={us}\n");
        let sample = |at_ms: u64, bytes: u64, us: u64| KernelSample {
            at_ns: at_ms * 1_000_000,
            drive: (Some((bytes, 0)), pressure(us)),
            groups: vec![(Some((0, bytes / 2)), String::new())],
        };
        let all = of_samples(&[
            sample(0, 1_000, 0),
            sample(100, 201_000, 25_000),
            sample(300, 201_000, 25_000),
        ]);
        let of = |state: &str, group| {
            let found = all.iter().find(|s| s.state == state && s.group == group)?;
            Some(found.points.clone())
        };
        let at = |ms: u64| ms * 1_000_000;
        assert_eq!(
            of("io.stat reads", None),
            Some(vec![(at(100), 2.0), (at(300), 0.0)])
        );
        assert_eq!(
            of("io.stat writes", Some(1)),
            Some(vec![(at(100), 1.0), (at(300), 0.0)])
        );
        assert_eq!(
            of(PRESSURE, None),
            Some(vec![(at(100), 25.0), (at(300), 0.0)])
        );
        // Neither a group without pressure nor a single sample has a rate.
        assert_eq!(of(PRESSURE, Some(1)), None);
        assert_eq!(of_samples(&[sample(0, 1, 1)]), []);
    }
}
