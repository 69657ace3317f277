//! Decisions in small, the rates that Linux's own mq-deadline gives, and what must hold whatever comes.

mod linux;
mod merge;
mod order;
mod replay;
