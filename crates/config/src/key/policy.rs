//! The keys of a policy's file. Tunables of elevators are declared in tables of their own, in the
//! core.

use super::{DefaultValue, KeyDeclaration, KeyKind, Shape, words};
use crate::policy::{ClassEffect, LatencyEffect, MaxEffect, MinEffect, ShareEffect};
use crate::words::Words;
use weir_core::Span;
use weir_core::control::{cost, low, slices};
use weir_core::tunable::Tunable;

pub(crate) const POLICY: Shape = Shape {
    name: "a policy",
    about: "A policy's file: an elevator with its tunables, controllers, and the effect of each part of a contract. `weir policies NAME` \
            prints one as a starting point.",
    keys: &[keys! {
        name: Text("letters, digits, dots and dashes"), "\"my-policy\"",
            "The policy's name in results. It must differ from the names of the policies that come with Weir, unless the policy is \
             identical to that one.";
        about: Text("text"), "\"a short description\"",
            "A description. Its first line summarises the policy; the other lines give further information.";
        elevator: Text("the name of an elevator, which is also the name of its table of tunables"), "\"bfq\"",
            "The component that selects the next request for the drive. Linux calls it an I/O scheduler.";
        controllers: List("names: `\"max\"` or `\"io.max\"`, `\"io.low\"`, `\"io.latency\"`, `\"io.cost\"`") = "[]",
            "[\"max\"]",
            "The controllers that throttle requests before they reach the elevator. `\"max\"` keeps limits exactly, while `\"io.max\"` \
             keeps them in time slices as Linux does.";
        knobs: Table("`[knobs]`") or "every part that the elevator and the controllers can keep",
            "{ min = \"weight\" }",
            "The effect of each part of a contract.";
        max: Table("`[max]`") or "Linux's defaults", "{ throttle_sample_time = \"100ms\" }",
            "The time slices in which the controller `\"io.max\"` counts.";
        low: Table("`[low]`") or "Linux's defaults", "{ idle = \"5ms\" }",
            "The controller `\"io.low\"`: when a group counts as idle, and which requests its low limits count.";
        cost: Table("`[cost]`") or "a profile, selected by the kind of drive",
            "{ qos = \"ctrl=user rpct=95.00 rlat=5000\" }",
            "The model of the drive and the quality of service for the controller `\"io.cost\"`.";
        derived: Table("`[derived]`") or "none", "{ max_budget = { window = \"1s\", percent = 10 } }",
            "Tunables that are calculated from the contracts.";
    }],
};

pub(crate) const KNOBS: Shape = Shape {
    name: "[knobs]",
    about: "The effect of each part of a contract under a policy. A part that is not listed is kept if the elevator and the controllers can \
            keep it.",
    keys: &[keys! {
        min: Word(&words::<_, 5>(MinEffect::WORDS))
            or "`\"low\"` with controller `\"io.low\"`, `\"kept\"` with elevator `\"contract\"`, otherwise `\"ignored\"`",
            "\"weight\"",
            "`\"kept\"`: the elevator keeps the min. `\"weight\"`: weights are in proportion to the amount that each client is due, \
             which is its min plus its part, by share, of the capacity that all mins leave over. Within a tenant, they are in \
             proportion to the clients' parts of the tenant's due. A promise in requests per second counts as its fraction of the \
             requests per second that the drive can do. If the capacity of the drive is unknown, all mins together count as 90 % of it. `\"limit\"`: the client gets at most its \
             min. `\"low\"`: the min is the low limit of `io.low`. `\"ignored\"`: the min has no effect on scheduling, but it counts \
             against the capacity.";
        share: Word(&words::<_, 2>(ShareEffect::WORDS))
            or "`\"weight\"` with an elevator that has weights, and with controller `\"io.cost\"`; otherwise `\"ignored\"`",
            "\"weight\"",
            "`\"weight\"`: the elevator and `io.cost` divide the drive in proportion to the shares. `\"ignored\"`: all clients are equal.";
        max: Word(&words::<_, 2>(MaxEffect::WORDS)) or "`\"limit\"` with controller `\"max\"` or `\"io.max\"`; otherwise `\"ignored\"`",
            "\"limit\"",
            "`\"limit\"`: the controller keeps the max. `\"ignored\"`: it has no effect.";
        class: Word(&words::<_, 2>(ClassEffect::WORDS)) or "`\"kept\"` with elevator `\"contract\"`; otherwise `\"ignored\"`",
            "\"ignored\"",
            "`\"kept\"`: the elevator serves clients by their class. `\"ignored\"`: the class has no effect.";
        latency: Word(&words::<_, 2>(LatencyEffect::WORDS)) or "`\"target\"` with controller `\"io.latency\"`; otherwise `\"ignored\"`",
            "\"ignored\"",
            "`\"target\"`: the contract's latency is the target of `io.latency`. `\"ignored\"`: it has no effect.";
    }],
};

/// Returns the key for a tunable of a controller, as the core's table declares it.
const fn tunable(
    tunable: &'static Tunable,
    default: &'static str,
    example: &'static str,
) -> KeyDeclaration {
    KeyDeclaration {
        name: tunable.name,
        kind: KeyKind::of(tunable),
        default: DefaultValue::Value(default),
        about: tunable.about,
        example,
    }
}

/// Returns the key for a tunable of `io.low`.
const fn low(place: usize, default: &'static str, example: &'static str) -> KeyDeclaration {
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
        KeyDeclaration {
            name: "qos",
            kind: KeyKind::Text(
                "`io.cost.qos`, with percentages of up to two decimal places, and times in microseconds",
            ),
            default: DefaultValue::Words("`\"ctrl=auto\"`"),
            about: "The percentage of requests that must meet each latency target, and the bounds of vrate. `enable` is always 1. A word that \
                    the line leaves out keeps the value of the drive's profile. Any number sets `ctrl=user`, even after `ctrl=auto`.",
            example: "\"ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00\"",
        },
        KeyDeclaration {
            name: "model",
            kind: KeyKind::Text("`io.cost.model`, in bytes and requests per second"),
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
    keys: &[keys! {
        max_budget: Table("`max_budget = { ... }`") or "the elevator's own tunable",
            "{ window = \"1s\", percent = 10 }",
            "The largest budget. It is half of the amount by which the smallest share can fall short in a window.";
    }],
};

pub(crate) const BUDGET: Shape = Shape {
    name: "max_budget = { ... }",
    about: "The bound from which `max_budget` is calculated: budgets are so small that, within a window, no client gets less than its share of \
            the drive by more than this percentage because it has to wait for its turn.",
    keys: &[keys! {
        window: Time(Span::from_millis(1), Span::from_secs(60)), "\"1s\"",
            "The length of the window.";
        percent: Count(1, 100), "10",
            "The permitted shortfall, in per cent of a share.";
    }],
};
