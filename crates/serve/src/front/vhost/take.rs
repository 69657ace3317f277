//! The way of requests from the guest's queues to the core.

use weir_core::{Flags, Op};
use weir_uring::GuestSlice;
use weir_wire::ring::Guest;
use weir_wire::ring::split::{Settings, TakeError};
use weir_wire::virtio_blk::{BlkCommand, BlkRequest, Status, feature};

use super::queue::TakenHead;
use super::{GuestRequest, VhostSession, WaitingChain};
use crate::shard::{ClientRequest, FrontContext, TakeStop, cost, is_direct};

/// The result of one step on a queue.
enum QueueStep {
    /// A request was taken, and there may be another.
    Taken,
    /// The queue has no request.
    Empty,
    /// A bound of the client is reached.
    Blocked,
    /// Other clients are to be served first.
    Spent,
}

impl VhostSession {
    /// Takes requests from all queues in rotation, until they are empty or a bound is reached.
    pub(super) fn take_all(&mut self, cx: &mut FrontContext<'_>) -> TakeStop {
        if let Some(waiting) = self.waiting.take()
            && matches!(self.enter_waiting(&waiting, cx), QueueStep::Blocked)
        {
            return TakeStop::Blocked;
        }
        let count = self.queues.len();
        for n in 0..count {
            let number = (self.first + n) % count;
            self.begin(number, cx);
            let mut found = 0;
            // Requests that the guest adds in the meantime wait for the next turn. The loop thus
            // ends even if the guest is faster.
            for _ in 0..self.queues[number].size {
                let queue = &self.queues[number];
                if !queue.is_active() || queue.is_waiting() {
                    break;
                }
                match self.step(number, cx) {
                    QueueStep::Taken => found += 1,
                    QueueStep::Empty => break,
                    QueueStep::Blocked => {
                        self.first = number;
                        self.queues[number].record_poll(cx.now, found);
                        return TakeStop::Blocked;
                    }
                    QueueStep::Spent => {
                        // The next queue is served first, however many requests this one has left.
                        self.first = (number + 1) % count;
                        self.queues[number].record_poll(cx.now, found);
                        return TakeStop::Spent;
                    }
                }
            }
            self.queues[number].record_poll(cx.now, found);
        }
        self.first = (self.first + 1) % count;
        TakeStop::Empty
    }

    /// Starts a queue when all its parameters are set.
    fn begin(&mut self, number: usize, cx: &FrontContext<'_>) {
        if !self.queues[number].is_due() {
            return;
        }
        let settings = Settings {
            event_idx: self.features & feature::EVENT_IDX != 0,
            indirect: self.features & feature::INDIRECT != 0,
            ..Settings::new(self.queues[number].size)
        };
        let log = self.notes.as_ref().and_then(|notes| notes.part(number));
        let queue = &mut self.queues[number];
        let notify = (&self.disk.notify, cx.now);
        if let Err(error) = queue.start(&self.memory, settings, log, notify) {
            self.break_queue(number, &error.to_string());
        }
    }

    /// Takes one chain from a queue.
    fn step(&mut self, number: usize, cx: &mut FrontContext<'_>) -> QueueStep {
        if !cx.may_take() {
            return QueueStep::Blocked;
        }
        if cx.is_spent() {
            return QueueStep::Spent;
        }
        let queue = &mut self.queues[number];
        match queue.take(&self.memory, &mut self.chain) {
            Ok(None) => QueueStep::Empty,
            Ok(Some(taken)) => {
                // The head must be recorded before anything is done for it, or a crash would
                // lose it.
                if let Some(log) = &mut queue.log {
                    log.take(taken.head);
                }
                self.enter(number, taken, cx)
            }
            Err(TakeError::Chain { head, why }) => {
                if let Some(log) = &mut queue.log {
                    log.take(head);
                }
                self.warn(format_args!("queue {number}, head {head}: {why}"));
                self.give_back(number, head, 0, cx)
            }
            Err(TakeError::Broken(broken)) => {
                self.break_queue(number, &broken.to_string());
                QueueStep::Empty
            }
        }
    }

    /// Enters a request that waited for memory, unless its queue was set up again.
    fn enter_waiting(&mut self, waiting: &WaitingChain, cx: &mut FrontContext<'_>) -> QueueStep {
        let WaitingChain {
            queue,
            generation,
            taken,
        } = *waiting;
        if self.queues[queue].generation != generation {
            return QueueStep::Taken;
        }
        self.enter(queue, taken, cx)
    }

    /// Parses the chain in `self.chain`. Its request goes to the core or is completed immediately.
    fn enter(&mut self, number: usize, taken: TakenHead, cx: &mut FrontContext<'_>) -> QueueStep {
        let head = taken.head;
        let parsed = self
            .request
            .parse(&self.chain, &self.memory, &self.disk.rules);
        if let Err(refused) = parsed {
            if let Some(status) = refused.status {
                // The address was found to be in the guest's memory. If the region was removed
                // since, the status is of no use to anyone.
                let _ = self.memory.write(status, &[refused.code() as u8]);
            }
            let written = u32::from(refused.status.is_some());
            self.warn(format_args!("queue {number}, head {head}: {refused}"));
            return self.give_back(number, head, written, cx);
        }
        if self.request.command == BlkCommand::GetId {
            return self.answer_id(number, head, cx);
        }
        let mut slices = cx.guest_slices();
        let Some(status) = self.find_memory(&mut slices) else {
            // The guest's memory was changed after the request was parsed, a moment ago.
            return self.give_back(number, head, 0, cx);
        };
        let mut ask = self.ask();
        let direct = is_direct(&slices, ask.offset, &self.disk.traits);
        let cost = match ask.op {
            Op::Read | Op::Write if !direct => cost(ask.length, self.disk.traits.align),
            _ => 0,
        };
        if !cx.reserve(cost) {
            self.waiting = Some(WaitingChain {
                queue: number,
                generation: self.queues[number].generation,
                taken,
            });
            return QueueStep::Blocked;
        }
        let under = GuestRequest {
            queue: number as u8,
            generation: self.queues[number].generation,
            taken,
            status,
            written: self.request.written(),
        };
        ask.token = self.under.insert(under).into();
        cx.begin();
        cx.take_guest(ask, cost, slices);
        QueueStep::Taken
    }

    /// Returns the memory of the status byte, and fills `slices` with the memory of the request's
    /// data.
    fn find_memory(&self, slices: &mut Vec<GuestSlice>) -> Option<GuestSlice> {
        let BlkRequest { data, status, .. } = &self.request;
        for buffer in data {
            let found = self.memory.slices(buffer.address, buffer.length, slices);
            found.ok()?;
        }
        self.memory.slices(*status, 1, slices).ok()?;
        slices.pop()
    }

    /// Answers a request for the device's id, without the core.
    fn answer_id(&mut self, number: usize, head: u16, cx: &mut FrontContext<'_>) -> QueueStep {
        let id = self.disk.id();
        let mut rest = &id[..(self.request.length as usize).min(id.len())];
        let mut written = 1;
        for buffer in &self.request.data {
            // The buffers were checked when the request was parsed, as for the status.
            let (here, behind) = rest.split_at(rest.len().min(buffer.length as usize));
            let _ = self.memory.write(buffer.address, here);
            written += here.len() as u32;
            rest = behind;
        }
        let _ = self.memory.write(self.request.status, &[Status::Ok as u8]);
        self.give_back(number, head, written, cx)
    }

    /// Returns a head whose request completes without reaching the core.
    fn give_back(
        &mut self,
        number: usize,
        head: u16,
        written: u32,
        cx: &mut FrontContext<'_>,
    ) -> QueueStep {
        self.queues[number].finish(head, written);
        cx.charge_overhead(0);
        cx.mark_for_send();
        QueueStep::Taken
    }

    /// Returns the operation for the core.
    fn ask(&self) -> ClientRequest {
        let request = &self.request;
        let range = request.ranges.first();
        let (op, flags) = match request.command {
            BlkCommand::In | BlkCommand::GetId => (Op::Read, Flags::NONE),
            BlkCommand::Out => (Op::Write, self.durability()),
            BlkCommand::Flush => (Op::Flush, Flags::SYNC),
            BlkCommand::Discard => (Op::Discard, Flags::NONE),
            BlkCommand::WriteZeroes => {
                let keep = range.is_none_or(|range| !range.unmap);
                let hole = if keep { Flags::NO_HOLE } else { Flags::NONE };
                (Op::WriteZeroes, self.durability().with(hole))
            }
        };
        ClientRequest {
            op,
            flags,
            offset: range.map_or(request.offset, |range| range.offset),
            // The limit of ranges is below 2^32 bytes.
            length: range.map_or(request.length, |range| range.length as u32),
            token: 0,
        }
    }

    /// Returns the flags of writes. They must be durable on completion if the driver cannot flush,
    /// or has chosen write-through (virtio 1.2, section 5.2.6.2).
    fn durability(&self) -> Flags {
        let flushes = self.features & feature::FLUSH != 0;
        let chosen = self.features & feature::CONFIG_WCE != 0 && !self.write_back;
        if flushes && !chosen {
            Flags::NONE
        } else {
            Flags::FUA.with(Flags::SYNC)
        }
    }
}
