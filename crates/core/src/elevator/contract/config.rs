//! Tunables of the contract elevator.

use crate::Span;
use crate::tunable::{MS, SECOND, Unit, tunables, words};

words! {
    /// What shares are measured in.
    pub enum Excess {
        /// Drive time: a random reader does not drag the drive down.
        Time = "time",
        /// Bytes, as BFQ has it.
        Bytes = "bytes",
    }
}

tunables! {
    /// Tunables of `contract`. The defaults suit every drive; they are here to be experimented with.
    pub struct Config {
        excess: Excess, Unit::Word(Excess::WORDS), [0, 1], 0,
            "What shares are measured in: drive time, so that a random reader does not drag the drive down, or bytes, as BFQ has it.",
            "Weir's own";
        catch_up: Span, Unit::Time, [0, 10 * SECOND], 100 * MS,
            "How far a client that fell behind its min may have fallen behind and still be made whole.",
            "Weir's own";
        forget: Span, Unit::Time, [0, 10 * SECOND], 20 * MS,
            "A client that asks for nothing for this long starts afresh: it is owed nothing for the pause.",
            "Weir's own";
        idle_class_timeout: Span, Unit::Time, [0, 3600 * SECOND], 200 * MS,
            "The idle class is served at least once in this long. Zero: never while others wait.",
            "Weir's own; as BFQ_CL_IDLE_TIMEOUT of block/bfq-wf2q.c";
        sacrifice: u32, Unit::Count, [0, 90], 15,
            "Up to these hundredths of the drive's speed are given up so that a client with few requests at a time gets its share. Zero: none.",
            "Weir's own";
        remote: Span, Unit::Time, [0, 10 * SECOND], 0,
            "For a drive that is a server across a network, as a pool of Ceph: this much work is kept in flight, about twice as long as a request takes there. Its times vary by themselves, it does more the more it is given at once, and a flush of one volume stops no other: that is not taken for others' work. Zero: a drive of this machine.",
            "Weir's own";
        bound_in_flight: bool, Unit::Flag, [0, 1], 1,
            "False: what others have in flight is not bounded for the sake of promises.",
            "Weir's own";
    }
}

impl Config {
    /// True if the drive is a server across a network.
    pub fn is_remote(&self) -> bool {
        self.remote > Span::ZERO
    }
}
