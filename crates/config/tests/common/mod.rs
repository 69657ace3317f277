//! Random files of a server. Most of them are valid.

pub(crate) mod files;
pub(crate) mod fuzz;
pub(crate) mod held;
pub(crate) mod mutate;
pub(crate) mod random;

pub(crate) use random::RandomSource;
use std::fmt::Write as _;

impl RandomSource {
    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// Appends the line with a probability of 1/n.
    fn maybe(&mut self, n: usize, text: &mut String, line: &str) {
        if self.below(n) == 0 {
            text.push_str(line);
            text.push('\n');
        }
    }
}

/// Draws a server's file with any of its keys.
pub(crate) fn draw(random: &mut RandomSource) -> String {
    let mut text = String::new();
    let drives = 1 + random.below(3);
    let models: Vec<bool> = (0..drives).map(|_| random.below(4) == 0).collect();
    for (drive, model) in models.iter().enumerate() {
        writeln!(text, "[drive.d{drive}]").unwrap();
        draw_drive(random, &mut text, *model);
    }
    draw_listen(random, &mut text);
    let tenants = random.below(4);
    for tenant in 0..tenants {
        writeln!(text, "[tenant.t{tenant}]\ndrive = \"d{}\"", tenant % drives).unwrap();
        draw_contract(random, &mut text, "4MB/s");
    }
    for volume in 0..random.below(8) {
        let drive = random.below(drives);
        writeln!(text, "[volume.\"v {volume}\"]\ndrive = \"d{drive}\"").unwrap();
        // A tenant must be on the drive of its volumes.
        let tenant = (0..tenants)
            .filter(|t| t % drives == drive)
            .nth(random.below(2));
        if let Some(tenant) = tenant {
            writeln!(text, "tenant = \"t{tenant}\"").unwrap();
        }
        if models[drive] {
            writeln!(text, "size = \"{}MiB\"", 1 + volume).unwrap();
        } else {
            draw_storage(random, &mut text, volume);
        }
        draw_contract(random, &mut text, "1MB/s");
    }
    text
}

fn draw_drive(random: &mut RandomSource, text: &mut String, model: bool) {
    let policy = random.pick(&["contract", "none", "bfq"]);
    writeln!(text, "policy = \"{policy}\"").unwrap();
    // In most cases the capacity is known, because promises are refused without it.
    if random.below(8) > 0 {
        let iops = random.pick(&[
            "",
            ", iops = 50000",
            ", iops = 1, read_iops = 7",
            ", write_iops = 300",
        ]);
        let write = random.pick(&["200MB/s", "1.5GiB/s", "123456789B/s"]);
        writeln!(
            text,
            "capacity = {{ read = \"150MB/s\", write = \"{write}\"{iops} }}"
        )
        .unwrap();
    }
    if model {
        let rest = random.pick(&[
            "",
            ", tags = 9, queues = 3",
            ", link = \"5MB/s\"",
            ", link = \"5MB/s\", tick = \"20ms\"",
        ]);
        writeln!(
            text,
            "model = {{ kind = \"null\", service = \"0.5ms\"{rest} }}"
        )
        .unwrap();
    } else {
        random.maybe(3, text, "queues = 4");
        random.maybe(3, text, "tags = 1");
        random.maybe(3, text, "max_transfer = \"4KiB\"");
        random.maybe(3, text, "rotational = true");
    }
    random.maybe(4, text, "limits.requests = 100000");
    random.maybe(4, text, "limits.scheduler_tags = 1");
    random.maybe(4, text, "limits.volumes = 7");
    random.maybe(4, text, "limits.tenants = 3");
    if policy == "bfq" {
        random.maybe(4, text, "bfq.strict_guarantees = true");
        random.maybe(4, text, "bfq.slice_idle = \"8.000001ms\"");
        random.maybe(4, text, "bfq.max_budget = \"1TiB\"");
        random.maybe(4, text, "bfq.back_seek_max = \"1TiB\"");
        random.maybe(4, text, "bfq.timeout_sync = \"1min\"");
        random.maybe(4, text, "bfq.charge = \"service\"");
    }
    if policy == "contract" {
        random.maybe(4, text, "contract.excess = \"bytes\"");
        random.maybe(4, text, "contract.catch_up = \"0s\"");
        random.maybe(4, text, "contract.forget = \"10s\"");
    }
}

fn draw_listen(random: &mut RandomSource, text: &mut String) {
    text.push_str("[listen]\nnbd = [\"unix:/a \\\"b\\\"\", \"127.0.0.1:0\"]\n");
    random.maybe(3, text, "metrics = \"[::1]:1\"");
    random.maybe(3, text, "insecure = true");
    random.maybe(3, text, "socket_mode = \"777\"");
    let owner = random.pick(&["a:b", "0", ":7", "a:0"]);
    random.maybe(3, text, &format!("socket_owner = \"{owner}\""));
    if random.below(3) == 0 {
        text.push_str("[manage]\nsocket = \"/m\"\n");
        random.maybe(2, text, "socket_mode = \"0660\"");
        random.maybe(2, text, "users = [\"a\", \"7\"]");
        random.maybe(2, text, "groups = [\"0\"]");
        random.maybe(2, text, "storage = [\"/a\", \"/d \\\"b\"]");
        random.maybe(
            2,
            text,
            "http = \"[::1]:0\"\ntoken_file = \"/t\"\nmanual = \"/m\"",
        );
    }
    text.push_str("[limits]\n");
    random.maybe(3, text, "connections = 1");
    random.maybe(3, text, "requests_per_connection = 3");
    random.maybe(3, text, "request_size = \"64KiB\"");
    random.maybe(3, text, "handshake_timeout = \"1.001s\"");
    random.maybe(3, text, "arena = \"1TiB\"");
    random.maybe(3, text, "unsent_per_connection = \"4097B\"");
}

fn draw_storage(random: &mut RandomSource, text: &mut String, volume: usize) {
    match random.below(3) {
        0 => writeln!(text, "file = \"/v{volume}\"\nread_only = true").unwrap(),
        1 => writeln!(text, "device = \"/dev/v{volume}\"\nsize = \"12KiB\"").unwrap(),
        _ => writeln!(text, "memory = true\nsize = \"1.5KiB\"").unwrap(),
    }
}

/// Draws a contract that does not contradict itself.
fn draw_contract(random: &mut RandomSource, text: &mut String, min: &str) {
    let share = 1 + random.below(1000);
    random.maybe(2, text, &format!("share = {share}"));
    match random.below(6) {
        0 => writeln!(text, "min = \"{min}\"").unwrap(),
        1 => writeln!(text, "class = \"idle\"").unwrap(),
        2 => writeln!(
            text,
            "max = {{ write_bandwidth = \"1B/s\", read_iops = 1 }}"
        )
        .unwrap(),
        3 => writeln!(text, "max = {{ iops = 900, burst = \"0.5s\" }}").unwrap(),
        _ => {}
    }
}
