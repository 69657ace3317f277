//! Tunables of the contract elevator.

use crate::Span;
use crate::tunable::{MS, SECOND, TunableUnit, tunables, words};

words! {
    /// The unit in which the excess is divided by share.
    pub enum Excess {
        /// Divides drive time, so that a client with random reads does not reduce the throughput of
        /// others.
        Time = "time",
        /// Divides bytes, as BFQ does.
        Bytes = "bytes",
    }
}

tunables! {
    /// Tunables of `contract`. The defaults suit every drive. The tunables exist for experiments.
    pub struct Config {
        excess: Excess, TunableUnit::Word(Excess::WORDS), [0, 1], 0,
            "The unit of shares. With `\"time\"`, the drive's time is divided, so a client with random reads does not reduce the throughput of \
             the others. With `\"bytes\"`, bytes are divided, as in BFQ.",
            "Weir's own";
        catch_up: Span, TunableUnit::Time, [0, 10 * SECOND], 100 * MS,
            "The maximum time by which a client can be behind its min and still be compensated completely.",
            "Weir's own";
        forget: Span, TunableUnit::Time, [0, 10 * SECOND], 20 * MS,
            "The idle time after which a client starts from scratch: if it has no requests for this long, it is not compensated for the pause.",
            "Weir's own";
        idle_class_timeout: Span, TunableUnit::Time, [0, 3600 * SECOND], 200 * MS,
            "The maximum time between two requests of the idle class while others wait. Zero: the idle class is never served while others wait.",
            "Weir's own; as BFQ_CL_IDLE_TIMEOUT of block/bfq-wf2q.c";
        sacrifice: u32, TunableUnit::Count, [0, 90], 15,
            "The percentage of the drive's speed that can be given up so that a client with few requests in flight gets its share. Zero: none.",
            "Weir's own";
        remote: Span, TunableUnit::Time, [0, 10 * SECOND], 0,
            "The amount of work to keep in flight, as a time, if the drive is a server across a network, such as a Ceph pool. Use about twice \
             the latency of a request. The scheduler then expects that the latency varies by itself, that throughput increases with the number \
             of requests in flight, and that a flush of one volume does not delay the others. It does not attribute any of these effects to \
             other clients. Zero: the drive is local.",
            "Weir's own";
        bound_in_flight: bool, TunableUnit::Flag, [0, 1], 1,
            "Whether the work that other clients have in flight is limited in order to keep promises.",
            "Weir's own";
    }
}

impl Config {
    /// True if the drive is a server across a network.
    pub fn is_remote(&self) -> bool {
        self.remote > Span::ZERO
    }
}
