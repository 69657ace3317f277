//! Admission: the check that a drive can keep the promises of its contracts.
//!
//! The core itself decides. [`check`] makes the edits of a start on a scratch layer, and turns each
//! refusal into a problem with the names of the file. [`explain`] does the same for a refusal of a
//! running layer.

use crate::document::Document;
use crate::measured::{self, rounded};
use crate::places::KeyPlaces;
use crate::plan::{DrivePlan, GroupOwner, plan, written_edits};
use crate::problem::Problem;
use crate::read::Draft;
use crate::server::{Server, ServerDrive, is_promised, promise_key};
use crate::text::{join, path};
use crate::units::{ByteSize, BytesPerSecond};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use weir_core::{
    Capacity, Config, Contract, DriveShape, Edit, GroupId, Instant, Layer, PromiseSums, ROOT,
    Refusal, Sizes, elevator,
};

/// A capacity that is sufficient for every contract.
pub(crate) const ENDLESS: Capacity = Capacity {
    read: u64::MAX,
    write: u64::MAX,
    iops: u64::MAX,
    ..Capacity::NONE
};

/// Reports each contract that contradicts itself, and promises that cannot be kept together. If the
/// sum is too large, the problem is at a promise that `before` did not have.
pub(crate) fn check(
    doc: &mut Document<'_>,
    draft: &Draft,
    drive: &ServerDrive,
    before: Option<&Server>,
) {
    let server = without_broken_tables(draft, drive);
    let Some(plan) = plan(&server, &drive.name) else {
        return;
    };
    let mut edits = written_edits(&server, &plan);
    let mut layer = match scratch_layer(&plan.config) {
        Ok(layer) => layer,
        Err(error) => {
            let path = path("drive", &drive.name);
            return doc.report_key(&path, error, "");
        }
    };
    // The next two checks replace the contracts that they report by contracts without a promise, so
    // that each mistake causes only one problem.
    check_each_contract(doc, &server, &plan, &mut edits);
    check_request_rates(doc, &server, drive, &plan, &mut edits);
    check_tenant_max(doc, &server, &plan);
    // A refused change leaves the layer unchanged, so the change can be tried again without the
    // refused promise. All turns except the last one find a tenant that promises less than its
    // volumes.
    while let Err(refusal) = layer.change(Instant::ZERO, &edits) {
        // Without a capacity, every promise is refused, but the core names only the first. All are
        // reported at once.
        if let Refusal::CapacityUnknown(_) = refusal {
            for id in promised(&edits)
                .take_while(|_| doc.is_collecting())
                .collect::<Vec<_>>()
            {
                let unknown = Refusal::CapacityUnknown(id);
                doc.add_problem(explained(&server, &plan, &unknown, &doc.places));
            }
            return;
        }
        let mut problem = explained(&server, &plan, &refusal, &doc.places);
        // A sum that is too large is attributed to the latest promise, because the earlier ones
        // were accepted without it.
        if let Refusal::OverCapacity { .. } = refusal
            && let Some(key) = last_added(&server, before, &plan, &edits, &doc.places)
        {
            let (key, own) = key;
            let message = format!("cannot promise {}: {}", rates(own), problem.message);
            problem = doc.places.problem(&key, message, problem.help).exceeding();
        }
        doc.add_problem(problem);
        match refusal {
            // Without its own promise, the tenant no longer limits its volumes, and the next turn
            // finds further problems.
            Refusal::ChildrenAboveParent { group, .. } if doc.is_collecting() => {
                clear_promise(&mut edits, group);
            }
            _ => return,
        }
    }
}

/// Returns the problem for a refused change, with the names of the file in place of group numbers.
///
/// `plan` has the names of groups. For [`Refusal::GroupInUse`], it is the plan in force, because
/// the group is to be removed. Otherwise, it is the refused plan. The contracts are those of
/// `server`.
pub fn explain(server: &Server, plan: &DrivePlan, refusal: &Refusal) -> Problem {
    explained(server, plan, refusal, &server.places)
}

fn explained(server: &Server, plan: &DrivePlan, refusal: &Refusal, places: &KeyPlaces) -> Problem {
    let (key, message, help) = match refusal {
        // The sum concerns all promises, so the problem is at the capacity. `check` moves it to the
        // promise that was added.
        Refusal::OverCapacity { promised, capacity } => (
            join(&path("drive", &plan.drive), "capacity"),
            over_capacity(&path("drive", &plan.drive), *promised, *capacity),
            promises(server, plan, None),
        ),
        Refusal::ChildrenAboveParent { group, bytes, iops } => {
            let (path, contract) = member(server, plan, *group);
            let all = PromiseSums::rates(*bytes, *iops);
            let message = above_parent(all, reserved(&contract));
            let key = join(&path, promise_key(&contract));
            let help = promises(server, plan, Some((*group, &key)));
            (key, message, help)
        }
        Refusal::CapacityUnknown(id) => {
            let (path, contract) = member(server, plan, *id);
            let drive = crate::text::path("drive", &plan.drive);
            // The example in the help must make this promise possible.
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
    // A smaller promise or another drive would avoid these refusals.
    let exceeds = matches!(
        refusal,
        Refusal::OverCapacity { .. }
            | Refusal::ChildrenAboveParent { .. }
            | Refusal::CapacityUnknown(_)
    );
    Problem { exceeds, ..problem }
}

/// Returns the problem of a contract that contradicts itself: the key, the message and the help.
/// The core decides.
pub(crate) fn contradiction_in(
    contract: &Contract,
) -> Option<(&'static str, String, &'static str)> {
    let refusal = ContractProbe::new(elevator::Config::None)?
        .ask(contract)
        .err()?;
    // Other refusals depend on the drive and its policy.
    let alone = matches!(
        refusal,
        Refusal::RealtimeWithoutMax(_)
            | Refusal::IdleWithMin(_)
            | Refusal::MinAboveMax(_)
            | Refusal::TwoMins(_)
    );
    alone.then(|| contradiction(&refusal, contract))
}

/// Returns the key, the message and the help for a refusal of a contract by itself.
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
            format!("cannot promise {} the max of the same contract", excess_text(contract)),
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

/// Returns the text of a min in the unit of the exceeded max.
fn excess_text(contract: &Contract) -> String {
    let (min, requests) = (contract.min, contract.min_iops);
    let (bytes, iops) = (contract.max.bytes_ceiling(), contract.max.iops_ceiling());
    // A ceiling of zero means no limit.
    let own = |min: u64, ceiling: u64| ceiling > 0 && min > ceiling;
    match (requests > 0, own(min, bytes) || own(requests, iops)) {
        (true, false) => format!(
            "{requests} requests/s: they move at least {} (512B each), which exceeds",
            BytesPerSecond(requests.saturating_mul(512))
        ),
        (false, false) if contract.max.iops_size > 0 => {
            let size = ByteSize(contract.max.iops_size);
            format!(
                "{}: every {size} count as one request, so that it exceeds",
                BytesPerSecond(min)
            )
        }
        (false, false) => format!(
            "{}: even in requests of 4GiB, the longest, it exceeds",
            BytesPerSecond(min)
        ),
        (true, true) => format!("{requests} requests/s: it exceeds"),
        (false, true) => format!("{}: it exceeds", BytesPerSecond(min)),
    }
}

/// Returns the message for promises that exceed the capacity. It states the sum in the unit of the
/// figure that is exceeded.
fn over_capacity(drive: &str, promised: PromiseSums, capacity: Capacity) -> String {
    // Admission permits promises of 90 % of the drive's time (`PROMISABLE` of the core).
    const MOST: u128 = 90;
    let (bytes, requests) = (capacity.bytes(), capacity.requests());
    let most = |of: u64| (u128::from(of) * MOST / 100) as u64;
    // The slower direction limits promises in bytes, so the message names it.
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
    // Admission charges a request with at least a sector of 512 bytes, so promises in requests can
    // exceed the capacity in bytes.
    let moved = promised.iops.saturating_mul(512);
    if moved > most(bytes) && promised.bytes <= most(bytes) {
        return format!(
            "{sum}, which move at least {} (512B each), and at most {} can be promised ({MOST} % of its {side}capacity, {})",
            BytesPerSecond(moved),
            BytesPerSecond(rounded(most(bytes))),
            BytesPerSecond(bytes)
        );
    }
    match (promised.bytes > 0, promised.iops > 0 && requests > 0) {
        (true, true) => format!(
            "{sum} and take {} % of its time, of which at most {MOST} % can be promised (its {side}capacity is {} or {requests} {kind})",
            percent(promised.millionths),
            BytesPerSecond(bytes)
        ),
        (false, true) => format!(
            "{sum}, and at most {} can be promised ({MOST} % of its capacity, {requests} {kind})",
            most(requests)
        ),
        _ => format!(
            "{sum}, and at most {} can be promised ({MOST} % of its {side}capacity, {})",
            BytesPerSecond(rounded(most(bytes))),
            BytesPerSecond(bytes)
        ),
    }
}

/// Returns the key of the promise that was added last, and that promise. It is the last one in the
/// file among the promises that count. Promises that `before` did not have, or that were smaller
/// there, are preferred.
fn last_added(
    server: &Server,
    before: Option<&Server>,
    plan: &DrivePlan,
    edits: &[Edit],
    places: &KeyPlaces,
) -> Option<(String, PromiseSums)> {
    let keys = promised(edits)
        .filter(|id| counts_alone(server, plan, *id))
        .map(|id| {
            let (path, contract) = member(server, plan, id);
            let grew = before.is_some_and(|before| {
                let was = match plan.member(id) {
                    Some(GroupOwner::Volume(name)) => before.volume(name).map(|v| v.contract),
                    Some(GroupOwner::Tenant(name)) => before.tenant(name).map(|t| t.contract),
                    _ => None,
                };
                // A realtime class reserves its max, so the reserved amounts are compared instead
                // of the mins.
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

/// Returns true if a promise counts by itself. That of a volume does not if its tenant has a
/// promise that covers it.
fn counts_alone(server: &Server, plan: &DrivePlan, id: GroupId) -> bool {
    let Some(GroupOwner::Volume(name)) = plan.member(id) else {
        return true;
    };
    let tenant = server.volume(name).and_then(|v| v.tenant.as_ref());
    let tenant = tenant.and_then(|t| server.tenant(t));
    tenant.is_none_or(|t| !is_promised(&t.contract))
}

/// Reports each promise in requests on a drive whose requests per second are not known, and
/// replaces it by a contract without a promise. A model without a bound completes any number.
fn check_request_rates(
    doc: &mut Document<'_>,
    server: &Server,
    drive: &ServerDrive,
    plan: &DrivePlan,
    edits: &mut [Edit],
) {
    let Some(capacity) = drive.capacity else {
        return;
    };
    let endless =
        |model| measured::worst_case_capacity(model).is_none_or(|least| least.requests() == 0);
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
        // A realtime max that is bounded in bytes as well is compared with the capacity in bytes.
        if all.iops == 0 || (all.bytes > 0 && contract.min_iops == 0) {
            continue;
        }
        if doc.is_collecting() {
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
            doc.add_problem(doc.places.problem(&key, what, Some(help)).exceeding());
        }
        *contract = Contract::DEFAULT;
    }
}

/// Reports each tenant whose max is less than the sum of its volumes' promises. If the tenant has a
/// promise, that promise covers its volumes, and is compared with its own max elsewhere.
fn check_tenant_max(doc: &mut Document<'_>, server: &Server, plan: &DrivePlan) {
    for tenant in server.tenants.iter().filter(|t| !is_promised(&t.contract)) {
        let members = server.volumes_of(&plan.drive);
        let members = members.filter(|v| v.tenant.as_ref() == Some(&tenant.name));
        let all = members
            .map(|v| reserved(&v.contract))
            .fold(PromiseSums::default(), |all, p| {
                PromiseSums::rates(
                    all.bytes.saturating_add(p.bytes),
                    all.iops.saturating_add(p.iops),
                )
            });
        let max = &tenant.contract.max;
        let above = |sum: u64, ceiling: u64| ceiling > 0 && sum > ceiling;
        // A request moves at least a sector of 512 bytes.
        let moved = all.bytes.max(all.iops.saturating_mul(512));
        let (bytes, iops) = (max.bytes_ceiling(), max.iops_ceiling());
        let what = if above(moved, bytes) {
            format!(
                "{}, which exceeds its max of {}",
                rates(all),
                BytesPerSecond(bytes)
            )
        } else if above(all.iops, iops) {
            format!("{}, which exceeds its max of {iops} requests/s", rates(all))
        } else {
            continue;
        };
        let what = format!("the promises of its volumes add up to {what}");
        let key = join(&path("tenant", &tenant.name), "max");
        let group = plan.tenants.get(&tenant.name).copied();
        let help = promises(server, plan, group.map(|group| (group, key.as_str())));
        doc.add_problem(doc.places.problem(&key, what, Some(help)).exceeding());
    }
}

fn above_parent(all: PromiseSums, own: PromiseSums) -> String {
    let mut parts = Vec::new();
    if all.bytes > own.bytes {
        parts.push(format!(
            "{}, which exceeds its own promise of {}",
            BytesPerSecond(all.bytes),
            BytesPerSecond(own.bytes)
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

/// Returns millionths as a percentage. It is rounded up, so that a sum above the limit is never
/// shown as the limit.
fn percent(millionths: u64) -> String {
    let tenths = millionths.div_ceil(1_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns the help for promises that do not fit: the largest ones by name. `within` is a tenant
/// with the key that can be raised instead.
fn promises(server: &Server, plan: &DrivePlan, within: Option<(GroupId, &str)>) -> String {
    const SHOWN: usize = 8;
    let tenant = within.map(|(group, _)| group);
    let tenant_of =
        |name: &Option<String>| name.as_ref().and_then(|n| plan.tenants.get(n)).copied();
    let volumes = server.volumes_of(&plan.drive).filter(|v| {
        let above = tenant_of(&v.tenant);
        // A tenant's own promise covers those of its volumes.
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
    let mut all: Vec<(String, PromiseSums)> = tenants
        .chain(volumes)
        .filter(|(_, contract)| is_promised(contract))
        .map(|(path, contract)| (path, reserved(contract)))
        .collect();
    // Lowering one of the largest promises helps most.
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

fn rates(promised: PromiseSums) -> String {
    match (promised.bytes, promised.iops) {
        (bytes, 0) => BytesPerSecond(bytes).to_string(),
        (0, iops) => format!("{iops} requests/s"),
        (bytes, iops) => format!("{} and {iops} requests/s", BytesPerSecond(bytes)),
    }
}

/// Returns the path of a group in the file, and its contract.
fn member(server: &Server, plan: &DrivePlan, id: GroupId) -> (String, Contract) {
    match plan.member(id) {
        Some(GroupOwner::Volume(name)) => {
            let contract = server.volume(name).map(|v| v.contract);
            (path("volume", name), contract.unwrap_or_default())
        }
        Some(GroupOwner::Tenant(name)) => {
            let contract = server.tenant(name).map(|t| t.contract);
            (path("tenant", name), contract.unwrap_or_default())
        }
        _ => (path("drive", &plan.drive), Contract::DEFAULT),
    }
}

/// Reports each contract that the core refuses even on a drive without limits, and replaces it by a
/// contract without a promise.
fn check_each_contract(
    doc: &mut Document<'_>,
    server: &Server,
    plan: &DrivePlan,
    edits: &mut [Edit],
) {
    let Some(mut alone) = ContractProbe::new(plan.config.elevator.clone()) else {
        return;
    };
    for edit in edits.iter_mut() {
        let Edit::AddGroup { id, contract, .. } = edit else {
            continue;
        };
        if alone.ask(contract).is_ok() {
            continue;
        }
        if doc.is_collecting()
            && let Some(refusal) = refused_by_name(plan, *id, *contract)
        {
            doc.add_problem(explained(server, plan, &refusal, &doc.places));
        }
        *contract = Contract::DEFAULT;
    }
}

/// Returns the core's refusal of a contract on a drive without limits, with the group's number in
/// the plan.
fn refused_by_name(plan: &DrivePlan, id: GroupId, contract: Contract) -> Option<Refusal> {
    let mut config = plan.config.clone();
    config.drive.capacity = Some(ENDLESS);
    let add = Edit::add_group(id, ROOT, contract);
    scratch_layer(&config)
        .ok()?
        .change(Instant::ZERO, &[add])
        .err()
}

/// Returns the amounts that a contract reserves, as the core computes them.
fn reserved(contract: &Contract) -> PromiseSums {
    let reservations = ReservedAmounts::new();
    reservations.map_or_else(PromiseSums::default, |mut all| all.of(contract))
}

/// Computes the amounts that contracts reserve, one contract after the other on the same layer.
pub(crate) struct ReservedAmounts(ContractProbe);

impl ReservedAmounts {
    pub(crate) fn new() -> Option<Self> {
        ContractProbe::new(elevator::Config::None).map(Self)
    }

    /// Returns the amounts that a contract reserves. For a contract that contradicts itself, these
    /// are its mins.
    pub(crate) fn of(&mut self, contract: &Contract) -> PromiseSums {
        let promised = self.0.ask(contract);
        PromiseSums {
            millionths: 0,
            ..promised.unwrap_or_else(|_| PromiseSums::rates(contract.min, contract.min_iops))
        }
    }
}

/// Returns the sum of the promises of groups on a drive, as the core computes it. Each group has
/// its parent, and the first is [`GroupId`] 1. The sum is zero if the contracts contradict each
/// other.
pub(crate) fn promised_together(
    groups: impl Iterator<Item = (GroupId, Contract)>,
    capacity: Capacity,
) -> PromiseSums {
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
    let layer = scratch_layer(&drive_of(capacity, sizes, elevator::Config::None));
    // The refusal of an excessive sum contains the sum, which is all that is needed here.
    match layer.map(|mut layer| layer.change(Instant::ZERO, &edits)) {
        Ok(Ok(promised) | Err(Refusal::OverCapacity { promised, .. })) => promised,
        _ => PromiseSums::default(),
    }
}

/// Returns the configuration of a layer of these sizes on a drive with this capacity.
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

/// A drive without limits and with a single group, for trying contracts one after the other.
struct ContractProbe(Layer);

impl ContractProbe {
    fn new(elevator: elevator::Config) -> Option<Self> {
        let sizes = Sizes {
            groups: 2,
            spaces: 1,
            ..Sizes::default()
        };
        let config = drive_of(ENDLESS, sizes, elevator);
        let mut layer = scratch_layer(&config).ok()?;
        let add = Edit::add_group(GroupId(1), ROOT, Contract::DEFAULT);
        layer.change(Instant::ZERO, &[add]).ok()?;
        Some(Self(layer))
    }

    /// Returns the amounts that the contract reserves, or the core's refusal.
    fn ask(&mut self, contract: &Contract) -> Result<PromiseSums, Refusal> {
        let set = Edit::SetContract {
            id: GroupId(1),
            contract: *contract,
        };
        match self.0.change(Instant::ZERO, &[set]) {
            // The sum exceeds 90 % of 2^64. No drive suffices, and the check of the real drive
            // reports that.
            Err(Refusal::OverCapacity { promised, .. }) => Ok(promised),
            answer => answer,
        }
    }
}

/// Iterates over the groups with a promise.
fn promised(edits: &[Edit]) -> impl Iterator<Item = GroupId> {
    edits.iter().filter_map(|edit| match edit {
        Edit::AddGroup { id, contract, .. } if is_promised(contract) => Some(*id),
        _ => None,
    })
}

/// Replaces the contract of a group by one without a promise.
fn clear_promise(edits: &mut [Edit], group: GroupId) {
    for edit in edits {
        if let Edit::AddGroup { id, contract, .. } = edit
            && *id == group
        {
            *contract = Contract::DEFAULT;
        }
    }
}

/// Returns a layer with the groups, spaces and policy of the plan, and with minimal sizes of
/// everything else.
pub(crate) fn scratch_layer(config: &Config) -> Result<Layer, weir_core::ConfigError> {
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
        // Some rules for contracts depend on the elevator, such as the range of shares.
        ..Config::of(config.elevator.clone())
    })
}

/// Returns a server with this drive and those of its tenants and volumes that have no problems. A
/// contract with a problem would falsify the sums.
fn without_broken_tables(draft: &Draft, drive: &ServerDrive) -> Server {
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
