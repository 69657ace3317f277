//! The keys of a policy's file. Tunables have tables of their own, in the core.

use super::{DefaultValue, Key, Kind, Shape, words};
use crate::policy::{ClassKnob, Limit, Min, Share, Target, Words};
use weir_core::Span;
use weir_core::control::{cost, low, slices};
use weir_core::tunable::Tunable;

pub(crate) const POLICY: Shape = Shape {
    name: "a policy",
    about: "A policy's file: an elevator with its tunables, controllers, and what becomes of contracts. `weir policies NAME` prints one to \
            begin from.",
    keys: &[&[
        Key {
            name: "name",
            kind: Kind::Text("letters, digits, dots and dashes"),
            default: DefaultValue::Needed,
            about: "Its name in results. Not that of a policy that comes with Weir, unless it is the same.",
            example: "\"my-policy\"",
        },
        Key {
            name: "about",
            kind: Kind::Text("text"),
            default: DefaultValue::Needed,
            about: "What it does in its first line; behind that what else is to be known.",
            example: "\"what it does\"",
        },
        Key {
            name: "elevator",
            kind: Kind::Text("an elevator's name, which its table of tunables has, too"),
            default: DefaultValue::Needed,
            about: "What chooses the request that goes to the drive next.",
            example: "\"bfq\"",
        },
        Key {
            name: "controllers",
            kind: Kind::List(
                "names: `\"max\"` or `\"io.max\"`, `\"io.low\"`, `\"io.latency\"`, `\"io.cost\"`",
            ),
            default: DefaultValue::Value("[]"),
            about: "What holds requests back before the elevator sees them. `\"max\"` keeps limits exactly, `\"io.max\"` as Linux does, in slices.",
            example: "[\"max\"]",
        },
        Key {
            name: "knobs",
            kind: Kind::Table("`[knobs]`"),
            default: DefaultValue::Words("everything that elevator and controllers can keep"),
            about: "What becomes of each part of a contract.",
            example: "{ min = \"weight\" }",
        },
        Key {
            name: "max",
            kind: Kind::Table("`[max]`"),
            default: DefaultValue::Words("Linux's defaults"),
            about: "The slices in which controller `\"io.max\"` counts.",
            example: "{ throttle_sample_time = \"100ms\" }",
        },
        Key {
            name: "low",
            kind: Kind::Table("`[low]`"),
            default: DefaultValue::Words("Linux's defaults"),
            about: "Which groups are idle under controller `\"io.low\"`, and what its low limits count.",
            example: "{ idle = \"5ms\" }",
        },
        Key {
            name: "cost",
            kind: Kind::Table("`[cost]`"),
            default: DefaultValue::Words("a profile, by what kind of drive it is"),
            about: "What controller `\"io.cost\"` is told of the drive and of what is asked of it.",
            example: "{ qos = \"ctrl=user rpct=95.00 rlat=5000\" }",
        },
        Key {
            name: "derived",
            kind: Kind::Table("`[derived]`"),
            default: DefaultValue::Words("none"),
            about: "Tunables that follow from the contracts.",
            example: "{ max_budget = { window = \"1s\", percent = 10 } }",
        },
    ]],
};

pub(crate) const KNOBS: Shape = Shape {
    name: "[knobs]",
    about: "What becomes of each part of a contract under a policy. What is left out is as elevator and controllers can keep it.",
    keys: &[&[
        Key {
            name: "min",
            kind: Kind::Word(&words::<_, 5>(Min::WORDS)),
            default: DefaultValue::Words(
                "`\"low\"` with controller `\"io.low\"`, `\"kept\"` with elevator `\"contract\"`, else `\"ignored\"`",
            ),
            about: "`\"kept\"`: the elevator keeps it. `\"weight\"`: weights are in proportion to what each is due, its min and its part by share of \
                    what the mins leave of the capacity (of its tenant's due, within a tenant); promised requests count by the part of the drive's \
                    requests that they are, and mins as nine tenths of a drive whose capacity is not known. `\"limit\"`: nobody gets more than it. \
                    `\"low\"`: it is the low limit of io.low. `\"ignored\"`: nothing, but that it counts against the capacity.",
            example: "\"weight\"",
        },
        Key {
            name: "share",
            kind: Kind::Word(&words::<_, 2>(Share::WORDS)),
            default: DefaultValue::Words(
                "`\"weight\"` with an elevator that has weights, and with controller `\"io.cost\"`",
            ),
            about: "`\"weight\"`: elevator and `io.cost` divide by it. `\"ignored\"`: all are alike.",
            example: "\"weight\"",
        },
        Key {
            name: "max",
            kind: Kind::Word(&words::<_, 2>(Limit::WORDS)),
            default: DefaultValue::Words("`\"limit\"` with controller `\"max\"` or `\"io.max\"`"),
            about: "`\"limit\"`: the controller keeps it.",
            example: "\"limit\"",
        },
        Key {
            name: "class",
            kind: Kind::Word(&words::<_, 2>(ClassKnob::WORDS)),
            default: DefaultValue::Words("`\"kept\"` with elevator `\"contract\"`"),
            about: "`\"kept\"`: the elevator goes by it.",
            example: "\"ignored\"",
        },
        Key {
            name: "latency",
            kind: Kind::Word(&words::<_, 2>(Target::WORDS)),
            default: DefaultValue::Words("`\"target\"` with controller `\"io.latency\"`"),
            about: "`\"target\"`: it is the target of io.latency.",
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
    about: "The tunables of `io.max`. `max` has none.",
    keys: &[&[
        tunable(&slices::Config::TUNABLES[0], "\"0s\"", "\"100ms\""),
        tunable(&slices::Config::TUNABLES[1], "\"4ms\"", "\"1ms\""),
    ]],
};

pub(crate) const LOW: Shape = Shape {
    name: "[low]",
    about: "The tunables of `io.low`. Linux has `idle` and `latency` for each cgroup; these are for all groups that say nothing of their own (key `low`).",
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
    about: "The tunables of `io.cost`, as the lines of Linux's files in the root cgroup; a device number before them is passed over. \
            `weir policies io.cost` prints what each word is.",
    keys: &[&[
        Key {
            name: "qos",
            kind: Kind::Text(
                "`io.cost.qos`: percent with up to two digits behind the point, microseconds",
            ),
            default: DefaultValue::Words("`\"ctrl=auto\"`"),
            about: "Which part of requests must meet which target, and the bounds of vrate. `enable` is 1. \
                    A word that the line leaves out keeps the value of the drive's profile. \
                    A number makes the values the user's, also after `ctrl=auto`.",
            example: "\"ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00\"",
        },
        Key {
            name: "model",
            kind: Kind::Text("`io.cost.model`: bytes and requests a second"),
            default: DefaultValue::Words("`\"ctrl=auto\"`"),
            about: "What the drive can do. `model` is linear. A word that the line leaves out keeps the value of the drive's profile.",
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
    about: "Tunables that follow from the contracts, in place of stated ones. They are worked out when the drive starts.",
    keys: &[&[Key {
        name: "max_budget",
        kind: Kind::Table("`max_budget = { ... }`"),
        default: DefaultValue::Words("as stated among the elevator's tunables"),
        about: "The largest budget: half of what the smallest share may be short in a window.",
        example: "{ window = \"1s\", percent = 10 }",
    }]],
};

pub(crate) const BUDGET: Shape = Shape {
    name: "max_budget = { ... }",
    about: "Budgets so small that within a window no client is short of its share of the drive by more than this number of hundredths for want of a \
            turn.",
    keys: &[&[
        Key {
            name: "window",
            kind: Kind::Time(Span::from_millis(1), Span::from_secs(60)),
            default: DefaultValue::Needed,
            about: "The window.",
            example: "\"1s\"",
        },
        Key {
            name: "percent",
            kind: Kind::Count(1, 100),
            default: DefaultValue::Needed,
            about: "Hundredths of a share.",
            example: "10",
        },
    ]],
};
