//! The process that takes over from a server.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::channel::UpgradeChannel;
use super::interrupt::UpgradeInterrupt;

/// The variable of the environment that tells a server that its standard input is the channel to a
/// predecessor.
const VARIABLE: &str = "WEIR_UPGRADE";

/// The time limit of the predecessor for telling everybody. It has nothing else to do.
const RELEASE: Duration = Duration::from_secs(5);

/// A process that is to take over from this one.
#[derive(Debug)]
pub struct Successor {
    child: Child,
    pub(crate) channel: UpgradeChannel,
    pub(crate) waiter: Option<OwnedFd>,
}

impl Successor {
    /// Starts a program of another version, with the arguments of this one. `interrupt` ends its
    /// preparation. `waiter` is a descriptor that it receives ([`Predecessor::take_waiter`]).
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn start(
        command: &mut Command,
        interrupt: UpgradeInterrupt,
        waiter: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let (mut channel, other) = UpgradeChannel::pair()?;
        channel.set_interrupt(Some(interrupt));
        // The standard input is the only descriptor that a child inherits under a number that both
        // know, without code that would run between fork(2) and execve(2).
        let child = command
            .env(VARIABLE, "1")
            .stdin(Stdio::from(other))
            .spawn()?;
        Ok(Self {
            child,
            channel,
            waiter,
        })
    }

    /// Returns the process, for its id.
    pub fn process(&self) -> &Child {
        &self.child
    }

    /// Tells the process, which has taken over, that everybody who has to know it was told
    /// ([`Predecessor::wait_for_release`]).
    pub fn release(self) {
        // Closing the channel is the message.
        drop(self.channel);
    }

    /// Ends the process, and returns when it does not exist any more.
    pub(crate) fn end(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The channel from a server that this process is to take over from.
#[derive(Debug)]
pub struct Predecessor {
    pub(crate) channel: UpgradeChannel,
    pub(crate) waiter: Option<OwnedFd>,
}

impl Predecessor {
    /// Returns the predecessor of this process, or `None` if it was started in the usual way.
    ///
    /// # Errors
    /// Returns the system's error for the channel.
    pub fn of_this_process() -> io::Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
        // The predecessor learns of the end of this process by the end of the stream, whoever else
        // inherits the standard input.
        let null = File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        Ok(Some(Self {
            channel: UpgradeChannel::new(socket),
            waiter: None,
        }))
    }

    /// Returns the descriptor by which a process that waits for the server learns of the next one,
    /// or `None` if no process waits, or this one has not taken over yet.
    pub fn take_waiter(&mut self) -> Option<OwnedFd> {
        self.waiter.take()
    }

    /// Waits until the predecessor has told everybody who has to know that this process is the
    /// server now, or has ended. A service manager, for example, ignores a process of which its
    /// predecessor has not told it.
    pub fn wait_for_release(mut self) {
        self.channel.limit(RELEASE);
        // Every outcome means that nobody will be told later.
        let _ = self.channel.receive();
    }
}
