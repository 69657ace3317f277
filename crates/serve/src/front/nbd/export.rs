//! The description of a volume in NBD's handshake.

use weir_wire::nbd::{BlockSizes, Denial, ExportInfo, Exports, TransmissionFlags};

use crate::acceptor::{PlaceOffer, VolumeExport};
use crate::backend::Traits;

/// The volumes that are offered to one client.
pub(super) struct OfferedExports<'a>(pub(super) &'a PlaceOffer<'a>);

impl Exports for OfferedExports<'_> {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        for export in self.0.table.exports() {
            each(&export.name, "");
        }
    }

    /// Finds an export by its name. If there is only one volume, the empty name means that volume.
    /// The key is the index in the table.
    fn find(&self, name: &str) -> Option<ExportInfo> {
        let all = self.0.table.exports();
        let found = match all {
            [_] if name.is_empty() => Some(0),
            all => all.iter().position(|export| export.name == name),
        };
        found.map(|at| info(&all[at], at as u64))
    }

    fn refusal(&self, export: &ExportInfo) -> Option<&'static str> {
        self.0.take_place(&export.name).err()
    }

    fn on_denied(&self, what: Denial<'_>) {
        if !crate::log::allowed() {
            return;
        }
        let (connection, peer) = (self.0.connection, self.0.name);
        if let Denial::Export(export) = what {
            tracing::warn!(
                connection,
                peer,
                export,
                "a client requested an unknown export; the server refused it"
            );
        } else {
            tracing::warn!(
                connection,
                peer,
                "a client requested TLS, which is not supported; use a Unix socket or a tunnel"
            );
        }
    }
}

/// Returns the description of a volume that clients receive.
pub(super) fn info(export: &VolumeExport, key: u64) -> ExportInfo {
    ExportInfo {
        name: export.name.clone(),
        description: String::new(),
        key,
        size: export.size,
        flags: flags(&export.traits, export.rotational),
        block_sizes: BlockSizes {
            minimum: 1,
            preferred: export.traits.preferred,
            maximum: export.request_size,
        },
        allocation: export.traits.allocation,
    }
}

/// Returns the transmission flags of a volume, which show the supported commands.
fn flags(traits: &Traits, rotational: bool) -> TransmissionFlags {
    let writable = !traits.read_only;
    // Several connections are safe (NBD_FLAG_CAN_MULTI_CONN), because a flush on one connection
    // covers the writes that completed on all others.
    let mut flags = TransmissionFlags::SEND_FLUSH
        | TransmissionFlags::SEND_DF
        | TransmissionFlags::SEND_CACHE
        | TransmissionFlags::CAN_MULTI_CONN;
    for (set, flag) in [
        (traits.read_only, TransmissionFlags::READ_ONLY),
        (rotational, TransmissionFlags::ROTATIONAL),
        (writable, TransmissionFlags::SEND_FUA),
        (writable && traits.trim, TransmissionFlags::SEND_TRIM),
        (writable, TransmissionFlags::SEND_WRITE_ZEROES),
        (
            writable && traits.fast_zero,
            TransmissionFlags::SEND_FAST_ZERO,
        ),
    ] {
        if set {
            flags |= flag;
        }
    }
    flags
}
