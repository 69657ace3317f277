//! Whether the drive can keep what its contracts promise: asked of the core itself, answered with names.

use crate::document::Document;
use crate::measured::{self, rounded};
use crate::places::Places;
use crate::plan::{Member, Plan, plan, written_edits};
use crate::problem::Problem;
use crate::read::Draft;
use crate::server::{Drive, Server, is_promised, promise_key};
use crate::text::{join, path};
use crate::units::{Rate, Size};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use weir_core::{
    Capacity, Config, Contract, DriveShape, Edit, GroupId, Instant, Layer, Promised, ROOT, Refusal,
    Sizes, elevator,
};

/// A drive on which every contract fits.
pub(crate) const ENDLESS: Capacity = Capacity {
    read: u64::MAX,
    write: u64::MAX,
    iops: u64::MAX,
    ..Capacity::NONE
};

/// Keeps a problem for each contract that contradicts itself, and for promises that cannot be kept together.
/// What `before` had promised already is not what is one too many.
pub(crate) fn check(doc: &mut Document<'_>, draft: &Draft, drive: &Drive, before: Option<&Server>) {
    let server = sound(draft, drive);
    let Some(plan) = plan(&server, &drive.name) else {
        return;
    };
    let mut edits = written_edits(&server, &plan);
    let mut layer = match scratch(&plan.config) {
        Ok(layer) => layer,
        Err(error) => {
            let path = path("drive", &drive.name);
            return doc.fault(&path, error, "");
        }
    };
    each_alone(doc, &server, &plan, &mut edits);
    requests_known(doc, &server, drive, &plan, &mut edits);
    within_max(doc, &server, &plan);
    // A refused change leaves nothing behind, so that the same layer can be asked again. Each turn but the last finds a tenant
    // that promises less than its volumes.
    while let Err(refusal) = layer.change(Instant::ZERO, &edits) {
        if let Refusal::CapacityUnknown(_) = refusal {
            for id in promised(&edits)
                .take_while(|_| doc.keeps())
                .collect::<Vec<_>>()
            {
                let unknown = Refusal::CapacityUnknown(id);
                doc.keep(explained(&server, &plan, &unknown, &doc.places));
            }
            return;
        }
        let mut problem = explained(&server, &plan, &refusal, &doc.places);
        if let Refusal::OverCapacity { .. } = refusal
            && let Some(key) = last_added(&server, before, &plan, &edits, &doc.places)
        {
            let (key, own) = key;
            let message = format!("cannot promise {}: {}", rates(own), problem.message);
            problem = doc.places.problem(&key, message, problem.help).exceeding();
        }
        doc.keep(problem);
        match refusal {
            Refusal::ChildrenAboveParent { group, .. } if doc.keeps() => clear(&mut edits, group),
            _ => return,
        }
    }
}

/// Why a change was refused, in the words of the file instead of group numbers.
///
/// Groups are named by `plan`, which is the one in force if a group in use was to go ([`Refusal::GroupInUse`]), else the one that
/// was refused; contracts are those of `server`.
pub fn explain(server: &Server, plan: &Plan, refusal: &Refusal) -> Problem {
    explained(server, plan, refusal, &server.places)
}

fn explained(server: &Server, plan: &Plan, refusal: &Refusal, places: &Places) -> Problem {
    let (key, message, help) = match refusal {
        Refusal::OverCapacity { promised, capacity } => (
            join(&path("drive", &plan.drive), "capacity"),
            over_capacity(&path("drive", &plan.drive), *promised, *capacity),
            promises(server, plan, None),
        ),
        Refusal::ChildrenAboveParent { group, bytes, iops } => {
            let (path, contract) = member(server, plan, *group);
            let all = Promised::rates(*bytes, *iops);
            let message = above_parent(all, reserved(&contract));
            let key = join(&path, promise_key(&contract));
            let help = promises(server, plan, Some((*group, &key)));
            (key, message, help)
        }
        Refusal::CapacityUnknown(id) => {
            let (path, contract) = member(server, plan, *id);
            let drive = crate::text::path("drive", &plan.drive);
            let iops = if reserved(&contract).iops > 0 {
                ", iops = 5000"
            } else {
                ""
            };
            let help = format!(
                "set it in [{drive}], for example capacity = {{ read = \"160MB/s\", write = \"120MB/s\"{iops} }}; `weir calibrate` measures it"
            );
            let key = promise_key(&contract);
            let what = match key {
                "class" => "cannot guarantee class \"realtime\"",
                _ => "cannot promise a minimum",
            };
            (
                join(&path, key),
                format!("{what}: {drive} has no `capacity`"),
                help,
            )
        }
        Refusal::RealtimeWithoutMax(id)
        | Refusal::IdleWithMin(id)
        | Refusal::MinAboveMax(id)
        | Refusal::TwoMins(id)
        | Refusal::ShareOutOfRange(id, _) => {
            let (path, contract) = member(server, plan, *id);
            let (key, message, help) = contradiction(refusal, &contract);
            (join(&path, key), message, help.to_owned())
        }
        Refusal::GroupInUse(id) => (
            member(server, plan, *id).0,
            "has connections and cannot be removed".to_owned(),
            "close its connections first".to_owned(),
        ),
        other => (path("drive", &plan.drive), other.to_string(), String::new()),
    };
    let problem = places.problem(&key, message, (!help.is_empty()).then_some(help));
    let exceeds = matches!(
        refusal,
        Refusal::OverCapacity { .. }
            | Refusal::ChildrenAboveParent { .. }
            | Refusal::CapacityUnknown(_)
    );
    Problem { exceeds, ..problem }
}

/// What is wrong with a contract by itself, as the core sees it: the key, the text and the help.
pub(crate) fn contradicted(contract: &Contract) -> Option<(&'static str, String, &'static str)> {
    let refusal = Alone::new(elevator::Config::None)?.ask(contract).err()?;
    // What it needs of a drive and its policy is another matter.
    let alone = matches!(
        refusal,
        Refusal::RealtimeWithoutMax(_)
            | Refusal::IdleWithMin(_)
            | Refusal::MinAboveMax(_)
            | Refusal::TwoMins(_)
    );
    alone.then(|| contradiction(&refusal, contract))
}

/// What is wrong with a contract by itself: the key, the text and the help.
fn contradiction(refusal: &Refusal, contract: &Contract) -> (&'static str, String, &'static str) {
    let min = if contract.min > 0 { "min" } else { "min_iops" };
    match refusal {
        Refusal::RealtimeWithoutMax(_) => (
            "class",
            "\"realtime\" requires a max that holds for reads and writes, because its max is also its promise".to_owned(),
            "set a max, for example max = { bandwidth = \"10MB/s\" } or max = { iops = 1000 }",
        ),
        Refusal::IdleWithMin(_) => (
            min,
            "class \"idle\" cannot have a min".to_owned(),
            "remove it, or set class = \"best-effort\"",
        ),
        Refusal::MinAboveMax(_) => (
            min,
            format!("cannot promise {} the max of the same contract", least(contract)),
            "lower min or raise max",
        ),
        Refusal::TwoMins(_) => (
            "min_iops",
            "cannot be combined with min: a contract has one of the two".to_owned(),
            "remove one of them",
        ),
        Refusal::ShareOutOfRange(_, most) => (
            "share",
            format!("must be between 1 and {most} under the drive's policy, not {}", contract.share),
            "",
        ),
        other => ("", other.to_string(), ""),
    }
}

/// What a min comes to in the currency in which it is above the max.
fn least(contract: &Contract) -> String {
    let (min, requests) = (contract.min, contract.min_iops);
    let (bytes, iops) = (contract.max.bytes_ceiling(), contract.max.iops_ceiling());
    let own = |min: u64, ceiling: u64| ceiling > 0 && min > ceiling;
    match (requests > 0, own(min, bytes) || own(requests, iops)) {
        (true, false) => format!(
            "{requests} requests/s: they move at least {} (512B each), which exceeds",
            Rate(requests.saturating_mul(512))
        ),
        (false, false) if contract.max.iops_size > 0 => {
            let size = Size(contract.max.iops_size);
            format!(
                "{}: every {size} count as one request, so that it exceeds",
                Rate(min)
            )
        }
        (false, false) => format!(
            "{}: even in requests of 4GiB, the longest, it exceeds",
            Rate(min)
        ),
        (true, true) => format!("{requests} requests/s: it exceeds"),
        (false, true) => format!("{}: it exceeds", Rate(min)),
    }
}

fn over_capacity(drive: &str, promised: Promised, capacity: Capacity) -> String {
    const MOST: u128 = 90;
    let (bytes, requests) = (capacity.bytes(), capacity.requests());
    let most = |of: u64| (u128::from(of) * MOST / 100) as u64;
    let side = match capacity.read.cmp(&capacity.write) {
        std::cmp::Ordering::Less => "read ",
        std::cmp::Ordering::Equal => "",
        std::cmp::Ordering::Greater => "write ",
    };
    let kind = match (
        requests == capacity.read_iops,
        requests == capacity.write_iops,
    ) {
        (true, false) => "reads/s",
        (false, true) => "writes/s",
        _ => "requests/s",
    };
    let sum = format!(
        "the promises on {drive} would add up to {}",
        rates(promised)
    );
    let moved = promised.iops.saturating_mul(512);
    if moved > most(bytes) && promised.bytes <= most(bytes) {
        return format!(
            "{sum}, which move at least {} (512B each), and at most {} can be promised ({MOST} % of its {side}capacity, {})",
            Rate(moved),
            Rate(rounded(most(bytes))),
            Rate(bytes)
        );
    }
    match (promised.bytes > 0, promised.iops > 0 && requests > 0) {
        (true, true) => format!(
            "{sum} and take {} % of its time, of which at most {MOST} % can be promised (its {side}capacity is {} or {requests} {kind})",
            percent(promised.millionths),
            Rate(bytes)
        ),
        (false, true) => format!(
            "{sum}, and at most {} can be promised ({MOST} % of its capacity, {requests} {kind})",
            most(requests)
        ),
        _ => format!(
            "{sum}, and at most {} can be promised ({MOST} % of its {side}capacity, {})",
            Rate(rounded(most(bytes))),
            Rate(bytes)
        ),
    }
}

/// The key of the promise that was added last, and the promise: the one furthest down in the file among those that count, and that `before` had not or
/// had less of, if there are such.
fn last_added(
    server: &Server,
    before: Option<&Server>,
    plan: &Plan,
    edits: &[Edit],
    places: &Places,
) -> Option<(String, Promised)> {
    let keys = promised(edits)
        .filter(|id| counts(server, plan, *id))
        .map(|id| {
            let (path, contract) = member(server, plan, id);
            let grew = before.is_some_and(|before| {
                let was = match plan.member(id) {
                    Some(Member::Volume(name)) => before.volume(name).map(|v| v.contract),
                    Some(Member::Tenant(name)) => before.tenant(name).map(|t| t.contract),
                    _ => None,
                };
                let (was, now) = (reserved(&was.unwrap_or_default()), reserved(&contract));
                now.bytes > was.bytes || now.iops > was.iops
            });
            let key = join(&path, promise_key(&contract));
            let place = places.keys.get(&key).copied().unwrap_or_default();
            (grew, place, key, reserved(&contract))
        });
    let last = keys.max_by(|(a, b, c, _), (x, y, z, _)| (a, b, c).cmp(&(x, y, z)));
    last.map(|(_, _, key, own)| (key, own))
}

/// Whether a promise counts by itself: not that of a volume that its tenant's covers.
fn counts(server: &Server, plan: &Plan, id: GroupId) -> bool {
    let Some(Member::Volume(name)) = plan.member(id) else {
        return true;
    };
    let tenant = server.volume(name).and_then(|v| v.tenant.as_ref());
    let tenant = tenant.and_then(|t| server.tenant(t));
    tenant.is_none_or(|t| !is_promised(&t.contract))
}

/// Keeps a problem for each promise in requests on a drive of which it is not known how many it does, and lets it promise nothing.
/// A model without a bound does as many as anybody wants.
fn requests_known(
    doc: &mut Document<'_>,
    server: &Server,
    drive: &Drive,
    plan: &Plan,
    edits: &mut [Edit],
) {
    let Some(capacity) = drive.capacity else {
        return;
    };
    let endless = |model| measured::least(model).is_none_or(|least| least.requests() == 0);
    let both = capacity.read_iops > 0 && capacity.write_iops > 0;
    if capacity.iops > 0 || both || drive.model.as_ref().is_some_and(endless) {
        return;
    }
    let at = path("drive", &drive.name);
    let state = match (capacity.read_iops, capacity.write_iops) {
        (0, 0) => "set iops, or read_iops and write_iops,",
        (0, _) => "set read_iops, or iops,",
        _ => "set write_iops, or iops,",
    };
    for edit in edits {
        let Edit::AddGroup { id, contract, .. } = edit else {
            continue;
        };
        let all = reserved(contract);
        // A max that is bounded in bytes as well is held against those.
        if all.iops == 0 || (all.bytes > 0 && contract.min_iops == 0) {
            continue;
        }
        if doc.keeps() {
            let key = join(&member(server, plan, *id).0, promise_key(contract));
            let missing = match (capacity.read_iops, capacity.write_iops) {
                (0, 0) => "",
                (0, _) => " for reads",
                _ => " for writes",
            };
            let what = format!(
                "cannot promise {} requests/s: {at}.capacity states no request rate{missing}",
                all.iops
            );
            let help = format!(
                "{state} in {at}.capacity, for example capacity = {{ read = \"160MB/s\", write = \"120MB/s\", iops = 5000 }}"
            );
            doc.keep(doc.places.problem(&key, what, Some(help)).exceeding());
        }
        *contract = Contract::DEFAULT;
    }
}

/// Keeps a problem for each tenant whose max is less than what its volumes are promised. One that is promised something itself covers
/// them, and is held against its own max.
fn within_max(doc: &mut Document<'_>, server: &Server, plan: &Plan) {
    for tenant in server.tenants.iter().filter(|t| !is_promised(&t.contract)) {
        let members = server.volumes_of(&plan.drive);
        let members = members.filter(|v| v.tenant.as_ref() == Some(&tenant.name));
        let all = members
            .map(|v| reserved(&v.contract))
            .fold(Promised::default(), |all, p| {
                Promised::rates(
                    all.bytes.saturating_add(p.bytes),
                    all.iops.saturating_add(p.iops),
                )
            });
        let max = &tenant.contract.max;
        let above = |sum: u64, ceiling: u64| ceiling > 0 && sum > ceiling;
        let moved = all.bytes.max(all.iops.saturating_mul(512));
        let (bytes, iops) = (max.bytes_ceiling(), max.iops_ceiling());
        let what = if above(moved, bytes) {
            format!("{}, which exceeds its max of {}", rates(all), Rate(bytes))
        } else if above(all.iops, iops) {
            format!("{}, which exceeds its max of {iops} requests/s", rates(all))
        } else {
            continue;
        };
        let what = format!("the promises of its volumes add up to {what}");
        let key = join(&path("tenant", &tenant.name), "max");
        let group = plan.tenants.get(&tenant.name).copied();
        let help = promises(server, plan, group.map(|group| (group, key.as_str())));
        doc.keep(doc.places.problem(&key, what, Some(help)).exceeding());
    }
}

fn above_parent(all: Promised, own: Promised) -> String {
    let mut parts = Vec::new();
    if all.bytes > own.bytes {
        parts.push(format!(
            "{}, which exceeds its own promise of {}",
            Rate(all.bytes),
            Rate(own.bytes)
        ));
    }
    if all.iops > own.iops {
        parts.push(format!(
            "{} requests/s, which exceed its own promise of {}",
            all.iops, own.iops
        ));
    }
    format!(
        "the promises of its volumes add up to {}",
        parts.join(" and ")
    )
}

/// Millionths as percent, rounded up: what is too much must not look as if it fitted.
fn percent(millionths: u64) -> String {
    let tenths = millionths.div_ceil(1_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// How to make the promises of a drive fit, or those within a tenant, whose key can be raised instead: the largest ones by name.
fn promises(server: &Server, plan: &Plan, within: Option<(GroupId, &str)>) -> String {
    const SHOWN: usize = 8;
    let tenant = within.map(|(group, _)| group);
    let tenant_of =
        |name: &Option<String>| name.as_ref().and_then(|n| plan.tenants.get(n)).copied();
    let volumes = server.volumes_of(&plan.drive).filter(|v| {
        let above = tenant_of(&v.tenant);
        // What a tenant is promised itself covers its volumes.
        let covered = v.tenant.as_ref().and_then(|t| server.tenant(t));
        match tenant {
            Some(_) => above == tenant,
            None => covered.is_none_or(|t| !is_promised(&t.contract)),
        }
    });
    let volumes = volumes.map(|v| (path("volume", &v.name), &v.contract));
    let tenants = server
        .tenants
        .iter()
        .filter(|t| tenant.is_none() && t.drive == plan.drive);
    let tenants = tenants.map(|t| (path("tenant", &t.name), &t.contract));
    let mut all: Vec<(String, Promised)> = tenants
        .chain(volumes)
        .filter(|(_, contract)| is_promised(contract))
        .map(|(path, contract)| (path, reserved(contract)))
        .collect();
    all.sort_by_key(|(_, p)| Reverse((p.bytes, p.iops)));
    let more = all.len().saturating_sub(SHOWN);
    let mut texts: Vec<String> = all
        .iter()
        .take(SHOWN)
        .map(|(path, p)| format!("{path} {}", rates(*p)))
        .collect();
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    let which = match texts.len() {
        1 => "this promise",
        _ => "one or more of these promises",
    };
    let or = match within {
        Some((_, key)) => format!("raise {key}, or "),
        None => String::new(),
    };
    format!("{or}lower {which}: {}", texts.join(", "))
}

fn rates(promised: Promised) -> String {
    match (promised.bytes, promised.iops) {
        (bytes, 0) => Rate(bytes).to_string(),
        (0, iops) => format!("{iops} requests/s"),
        (bytes, iops) => format!("{} and {iops} requests/s", Rate(bytes)),
    }
}

/// A group's path in the file and its contract.
fn member(server: &Server, plan: &Plan, id: GroupId) -> (String, Contract) {
    match plan.member(id) {
        Some(Member::Volume(name)) => {
            let contract = server.volume(name).map(|v| v.contract);
            (path("volume", name), contract.unwrap_or_default())
        }
        Some(Member::Tenant(name)) => {
            let contract = server.tenant(name).map(|t| t.contract);
            (path("tenant", name), contract.unwrap_or_default())
        }
        _ => (path("drive", &plan.drive), Contract::DEFAULT),
    }
}

/// Keeps a problem for each contract that the core refuses even alone on an endless drive, and lets it promise nothing.
fn each_alone(doc: &mut Document<'_>, server: &Server, plan: &Plan, edits: &mut [Edit]) {
    let Some(mut alone) = Alone::new(plan.config.elevator.clone()) else {
        return;
    };
    for edit in edits.iter_mut() {
        let Edit::AddGroup { id, contract, .. } = edit else {
            continue;
        };
        if alone.ask(contract).is_ok() {
            continue;
        }
        if doc.keeps()
            && let Some(refusal) = refused_by_name(plan, *id, *contract)
        {
            doc.keep(explained(server, plan, &refusal, &doc.places));
        }
        *contract = Contract::DEFAULT;
    }
}

/// Why the core refuses a contract even alone on an endless drive, with the group's own number in the answer.
fn refused_by_name(plan: &Plan, id: GroupId, contract: Contract) -> Option<Refusal> {
    let mut config = plan.config.clone();
    config.drive.capacity = Some(ENDLESS);
    let add = Edit::add_group(id, ROOT, contract);
    scratch(&config).ok()?.change(Instant::ZERO, &[add]).err()
}

/// What a contract reserves, as the core counts it.
fn reserved(contract: &Contract) -> Promised {
    let reservations = Reservations::new();
    reservations.map_or_else(Promised::default, |mut all| all.of(contract))
}

/// What one contract after another reserves, as the core counts it.
pub(crate) struct Reservations(Alone);

impl Reservations {
    pub(crate) fn new() -> Option<Self> {
        Alone::new(elevator::Config::None).map(Self)
    }

    /// What a contract reserves. One that contradicts itself reserves what it says.
    pub(crate) fn of(&mut self, contract: &Contract) -> Promised {
        let promised = self.0.ask(contract);
        Promised {
            millionths: 0,
            ..promised.unwrap_or_else(|_| Promised::rates(contract.min, contract.min_iops))
        }
    }
}

/// What groups are promised together of a drive, as the core counts it: each with what it hangs on, the first is [`GroupId`] 1. Nothing if
/// their contracts contradict themselves.
pub(crate) fn promised_together(
    groups: impl Iterator<Item = (GroupId, Contract)>,
    capacity: Capacity,
) -> Promised {
    let groups = (1..).map(GroupId).zip(groups);
    let edits: Vec<Edit> = groups
        .map(|(id, (parent, contract))| Edit::AddGroup {
            id,
            parent,
            contract,
        })
        .collect();
    let sizes = Sizes {
        groups: edits.len() as u32 + 1,
        spaces: 1,
        ..Sizes::default()
    };
    let layer = scratch(&drive_of(capacity, sizes, elevator::Config::None));
    match layer.map(|mut layer| layer.change(Instant::ZERO, &edits)) {
        Ok(Ok(promised) | Err(Refusal::OverCapacity { promised, .. })) => promised,
        _ => Promised::default(),
    }
}

/// A layer of these sizes on a drive that can do this.
fn drive_of(capacity: Capacity, sizes: Sizes, elevator: elevator::Config) -> Config {
    Config {
        sizes,
        drive: DriveShape {
            capacity: Some(capacity),
            ..DriveShape::default()
        },
        ..Config::of(elevator)
    }
}

/// An endless drive with a single group, for one contract after another.
struct Alone(Layer);

impl Alone {
    fn new(elevator: elevator::Config) -> Option<Self> {
        let sizes = Sizes {
            groups: 2,
            spaces: 1,
            ..Sizes::default()
        };
        let config = drive_of(ENDLESS, sizes, elevator);
        let mut layer = scratch(&config).ok()?;
        let add = Edit::add_group(GroupId(1), ROOT, Contract::DEFAULT);
        layer.change(Instant::ZERO, &[add]).ok()?;
        Some(Self(layer))
    }

    /// What the contract reserves, or why it is none.
    fn ask(&mut self, contract: &Contract) -> Result<Promised, Refusal> {
        let set = Edit::SetContract {
            id: GroupId(1),
            contract: *contract,
        };
        match self.0.change(Instant::ZERO, &[set]) {
            // Beyond nine tenths of 2^64: no drive will do, and the sums will say so.
            Err(Refusal::OverCapacity { promised, .. }) => Ok(promised),
            answer => answer,
        }
    }
}

/// The groups that promise something.
fn promised(edits: &[Edit]) -> impl Iterator<Item = GroupId> {
    edits.iter().filter_map(|edit| match edit {
        Edit::AddGroup { id, contract, .. } if is_promised(contract) => Some(*id),
        _ => None,
    })
}

/// Lets a group promise nothing itself.
fn clear(edits: &mut [Edit], group: GroupId) {
    for edit in edits {
        if let Edit::AddGroup { id, contract, .. } = edit
            && *id == group
        {
            *contract = Contract::DEFAULT;
        }
    }
}

/// A layer with the plan's groups, spaces and policy, and next to nothing else.
pub(crate) fn scratch(config: &Config) -> Result<Layer, weir_core::ConfigError> {
    Layer::new(Config {
        sizes: Sizes {
            requests: 1,
            streams: 1,
            per_stream: 1,
            reserved: 1,
            scheduler_tags: 1,
            events: 1,
            stalled: 0,
            ..config.sizes
        },
        drive: DriveShape {
            queues: 1,
            tags: 1,
            ..config.drive
        },
        ..Config::of(config.elevator.clone())
    })
}

/// The drive with those of its tenants and volumes that have no problems of their own.
fn sound(draft: &Draft, drive: &Drive) -> Server {
    let server = &draft.server;
    let tenants = server.tenants_of(&drive.name);
    let tenants: Vec<_> = tenants
        .filter(|t| draft.is_sound(&path("tenant", &t.name)))
        .cloned()
        .collect();
    let names: BTreeSet<&str> = tenants.iter().map(|t| t.name.as_str()).collect();
    let volumes = server.volumes_of(&drive.name).filter(|v| {
        let tenant = v.tenant.as_deref();
        draft.is_sound(&path("volume", &v.name)) && tenant.is_none_or(|t| names.contains(t))
    });
    Server {
        drives: vec![drive.clone()],
        limits: server.limits,
        volumes: volumes.cloned().collect(),
        tenants,
        ..Server::default()
    }
}
