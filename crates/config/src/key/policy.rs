//! The keys of a policy's file. Tunables have tables of their own, in the core.

use super::{DefaultValue, Key, Kind, Shape, words};
use crate::policy::{ClassKnob, Limit, Min, Share, Target, Words};
use weir_core::Span;
use weir_core::control::{cost, low, slices};
use weir_core::tunable::Tunable;

pub(crate) const POLICY: Shape = Shape {
    name: "a policy",
    about: "A policy's file: an elevator with its tunables, controllers, and the effect of each part of a contract. `weir policies NAME` \
            prints one as a starting point.",
    keys: &[&[
        Key {
            name: "name",
            kind: Kind::Text("letters, digits, dots and dashes"),
            default: DefaultValue::Needed,
            about: "The policy's name in results. It must differ from the names of the policies that come with Weir, unless the policy is \
                    identical to that one.",
            example: "\"my-policy\"",
        },
        Key {
            name: "about",
            kind: Kind::Text("text"),
            default: DefaultValue::Needed,
            about: "A description. Its first line summarises the policy; the other lines give further information.",
            example: "\"a short description\"",
        },
        Key {
            name: "elevator",
            kind: Kind::Text(
                "the name of an elevator, which is also the name of its table of tunables",
            ),
            default: DefaultValue::Needed,
            about: "The component that selects the next request for the drive. Linux calls it an I/O scheduler.",
            example: "\"bfq\"",
        },
        Key {
            name: "controllers",
            kind: Kind::List(
                "names: `\"max\"` or `\"io.max\"`, `\"io.low\"`, `\"io.latency\"`, `\"io.cost\"`",
            ),
            default: DefaultValue::Value("[]"),
            about: "The controllers that throttle requests before they reach the elevator. `\"max\"` keeps limits exactly, while `\"io.max\"` \
                    keeps them in time slices as Linux does.",
            example: "[\"max\"]",
        },
        Key {
            name: "knobs",
            kind: Kind::Table("`[knobs]`"),
            default: DefaultValue::Words(
                "every part that the elevator and the controllers can keep",
            ),
            about: "The effect of each part of a contract.",
            example: "{ min = \"weight\" }",
        },
        Key {
            name: "max",
            kind: Kind::Table("`[max]`"),
            default: DefaultValue::Words("Linux's defaults"),
            about: "The time slices in which the controller `\"io.max\"` counts.",
            example: "{ throttle_sample_time = \"100ms\" }",
        },
        Key {
            name: "low",
            kind: Kind::Table("`[low]`"),
            default: DefaultValue::Words("Linux's defaults"),
            about: "The controller `\"io.low\"`: when a group counts as idle, and which requests its low limits count.",
            example: "{ idle = \"5ms\" }",
        },
        Key {
            name: "cost",
            kind: Kind::Table("`[cost]`"),
            default: DefaultValue::Words("a profile, selected by the kind of drive"),
            about: "The model of the drive and the quality of service for the controller `\"io.cost\"`.",
            example: "{ qos = \"ctrl=user rpct=95.00 rlat=5000\" }",
        },
        Key {
            name: "derived",
            kind: Kind::Table("`[derived]`"),
            default: DefaultValue::Words("none"),
            about: "Tunables that are calculated from the contracts.",
            example: "{ max_budget = { window = \"1s\", percent = 10 } }",
        },
    ]],
};

pub(crate) const KNOBS: Shape = Shape {
    name: "[knobs]",
    about: "The effect of each part of a contract under a policy. A part that is not listed is kept if the elevator and the controllers can \
            keep it.",
    keys: &[&[
        Key {
            name: "min",
            kind: Kind::Word(&words::<_, 5>(Min::WORDS)),
            default: DefaultValue::Words(
                "`\"low\"` with controller `\"io.low\"`, `\"kept\"` with elevator `\"contract\"`, otherwise `\"ignored\"`",
            ),
            about: "`\"kept\"`: the elevator keeps the min. `\"weight\"`: weights are in proportion to the amount that each client is due, \
                    which is its min plus its part, by share, of the capacity that all mins leave over. Within a tenant, they are in \
                    proportion to the clients' parts of the tenant's due. A promise in requests per second counts as its fraction of the requests per second that the drive can do. If the capacity of the drive is unknown, all mins together count as 90 % of it. `\"limit\"`: the client gets at most its \
                    min. `\"low\"`: the min is the low limit of `io.low`. `\"ignored\"`: the min has no effect on scheduling, but it counts \
                    against the capacity.",
            example: "\"weight\"",
        },
        Key {
            name: "share",
            kind: Kind::Word(&words::<_, 2>(Share::WORDS)),
            default: DefaultValue::Words(
                "`\"weight\"` with an elevator that has weights, and with controller `\"io.cost\"`; otherwise `\"ignored\"`",
            ),
            about: "`\"weight\"`: the elevator and `io.cost` divide the drive in proportion to the shares. `\"ignored\"`: all clients are equal.",
            example: "\"weight\"",
        },
        Key {
            name: "max",
            kind: Kind::Word(&words::<_, 2>(Limit::WORDS)),
            default: DefaultValue::Words(
                "`\"limit\"` with controller `\"max\"` or `\"io.max\"`; otherwise `\"ignored\"`",
            ),
            about: "`\"limit\"`: the controller keeps the max. `\"ignored\"`: it has no effect.",
            example: "\"limit\"",
        },
        Key {
            name: "class",
            kind: Kind::Word(&words::<_, 2>(ClassKnob::WORDS)),
            default: DefaultValue::Words(
                "`\"kept\"` with elevator `\"contract\"`; otherwise `\"ignored\"`",
            ),
            about: "`\"kept\"`: the elevator serves clients by their class. `\"ignored\"`: the class has no effect.",
            example: "\"ignored\"",
        },
        Key {
            name: "latency",
            kind: Kind::Word(&words::<_, 2>(Target::WORDS)),
            default: DefaultValue::Words(
                "`\"target\"` with controller `\"io.latency\"`; otherwise `\"ignored\"`",
            ),
            about: "`\"target\"`: the contract's latency is the target of `io.latency`. `\"ignored\"`: it has no effect.",
            example: "\"ignored\"",
        },
    ]],
};

/// A tunable of a controller, from the core's table.
const fn tunable(tunable: &'static Tunable, default: &'static str, example: &'static str) -> Key {
    Key {
        name: tunable.name,
        kind: Kind::of(tunable),
        default: DefaultValue::Value(default),
        about: tunable.about,
        example,
    }
}

/// One of io.low.
const fn low(place: usize, default: &'static str, example: &'static str) -> Key {
    tunable(&low::Config::TUNABLES[place], default, example)
}

pub(crate) const IO_MAX: Shape = Shape {
    name: "[max]",
    about: "The tunables of the controller `io.max`. The controller `max` has no tunables.",
    keys: &[&[
        tunable(&slices::Config::TUNABLES[0], "\"0s\"", "\"100ms\""),
        tunable(&slices::Config::TUNABLES[1], "\"4ms\"", "\"1ms\""),
    ]],
};

pub(crate) const LOW: Shape = Shape {
    name: "[low]",
    about: "The tunables of the controller `io.low`. In Linux, each cgroup has its own `idle` and `latency`. These values apply to all groups \
            that have no values of their own (key `low` of a contract).",
    keys: &[&[
        low(0, "\"0s\"", "\"100ms\""),
        low(1, "\"4ms\"", "\"1ms\""),
        low(2, "\"1ms\"", "\"5ms\""),
        low(3, "\"1us\"", "\"500us\""),
        low(4, "\"both\"", "\"reads\""),
    ]],
};

pub(crate) const COST: Shape = Shape {
    name: "[cost]",
    about: "The tunables of the controller `io.cost`, as the lines of Linux's files in the root cgroup. A device number at the beginning of a \
            line is ignored. `weir policies io.cost` prints the meaning of each word.",
    keys: &[&[
        Key {
            name: "qos",
            kind: Kind::Text(
                "`io.cost.qos`, with percentages of up to two decimal places, and times in microseconds",
            ),
            default: DefaultValue::Words("`\"ctrl=auto\"`"),
            about: "The percentage of requests that must meet each latency target, and the bounds of vrate. `enable` is always 1. A word that \
                    the line leaves out keeps the value of the drive's profile. Any number sets `ctrl=user`, even after `ctrl=auto`.",
            example: "\"ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00\"",
        },
        Key {
            name: "model",
            kind: Kind::Text("`io.cost.model`, in bytes and requests per second"),
            default: DefaultValue::Words("`\"ctrl=auto\"`"),
            about: "The performance of the drive. `model` is always `linear`. A word that the line leaves out keeps the value of the drive's \
                    profile.",
            example: "\"ctrl=user model=linear rbps=488636629 rseqiops=8932 rrandiops=8518 wbps=427891549 wseqiops=28755 wrandiops=21940\"",
        },
        tunable(
            &cost::Config::TUNABLES[cost::Config::TUNABLES.len() - 3],
            "\"4ms\"",
            "\"1ms\"",
        ),
        tunable(
            &cost::Config::TUNABLES[cost::Config::TUNABLES.len() - 2],
            "\"tree\"",
            "\"flat\"",
        ),
    ]],
};

pub(crate) const DERIVED: Shape = Shape {
    name: "[derived]",
    about: "Tunables that are calculated from the contracts and replace stated values. They are calculated when the drive starts.",
    keys: &[&[Key {
        name: "max_budget",
        kind: Kind::Table("`max_budget = { ... }`"),
        default: DefaultValue::Words("the elevator's own tunable"),
        about: "The largest budget. It is half of the amount by which the smallest share can fall short in a window.",
        example: "{ window = \"1s\", percent = 10 }",
    }]],
};

pub(crate) const BUDGET: Shape = Shape {
    name: "max_budget = { ... }",
    about: "The bound from which `max_budget` is calculated: budgets are so small that, within a window, no client gets less than its share of \
            the drive by more than this percentage because it has to wait for its turn.",
    keys: &[&[
        Key {
            name: "window",
            kind: Kind::Time(Span::from_millis(1), Span::from_secs(60)),
            default: DefaultValue::Needed,
            about: "The length of the window.",
            example: "\"1s\"",
        },
        Key {
            name: "percent",
            kind: Kind::Count(1, 100),
            default: DefaultValue::Needed,
            about: "The permitted shortfall, in per cent of a share.",
            example: "10",
        },
    ]],
};
