//! Tests of single decisions, of merges, and of the rates and the order of Linux's own mq-deadline.

mod linux;
mod merge;
mod order;
mod replay;
