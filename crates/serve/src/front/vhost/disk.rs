//! A volume as a virtio block device: its features, its configuration space, and the rules for
//! requests.

use weir_wire::vhost::{PROTOCOL_FEATURES, feature as protocol};
use weir_wire::virtio_blk::{
    BlkRules, CONFIG_LEN, ConfigSpace, ID_LEN, RangeLimits, SECTOR, feature,
};

use super::queue::NotifyPolicies;
use crate::acceptor::VolumeExport;
use crate::backend::Traits;

/// The largest number of queues of one disk.
pub(super) const QUEUES: u16 = 16;
/// The largest number of data buffers of one request. A queue of 128 entries has space for these,
/// the header and the status.
const SEGMENTS: u32 = 126;
/// The longest range of a discard or write-zeroes request, in bytes.
const RANGE: u64 = 1 << 30;

/// The properties of a disk.
#[derive(Debug)]
pub(super) struct VhostDisk {
    pub(super) name: String,
    pub(super) traits: Traits,
    pub(super) rules: BlkRules,
    /// The offered features of virtio.
    pub(super) features: u64,
    config: ConfigSpace,
    pub(super) notify: NotifyPolicies,
}

/// The offered features of the vhost-user protocol.
pub(super) const PROTOCOL: u64 = protocol::MQ
    | protocol::REPLY_ACK
    | protocol::CONFIG
    | protocol::BACKEND_REQ
    | protocol::CONFIGURE_MEM_SLOTS
    | protocol::INFLIGHT_SHMFD
    | protocol::RESET_DEVICE;

impl VhostDisk {
    pub(super) fn new(export: &VolumeExport) -> Self {
        let VolumeExport { traits, size, .. } = export;
        let writable = !traits.read_only;
        let range = RangeLimits {
            sectors: (RANGE / SECTOR) as u32,
            ranges: 1,
        };
        let discard = (writable && traits.trim).then_some(range);
        let write_zeroes = writable.then_some(range);
        let block = traits.align.max(SECTOR as u32);
        let config = ConfigSpace {
            capacity: size / SECTOR,
            segments: SEGMENTS,
            block,
            physical: (traits.preferred.max(block) / block).ilog2() as u8,
            alignment: 0,
            least: 1,
            best: 0,
            write_back: true,
            queues: QUEUES,
            discard,
            discard_alignment: (traits.preferred / SECTOR as u32).max(1),
            write_zeroes,
            may_unmap: traits.trim,
        };
        let rules = BlkRules {
            capacity: config.capacity,
            // Requests are addressed in sectors of 512 bytes. The block size above only
            // recommends a size to the driver (virtio 1.2, section 5.2.5).
            block: SECTOR as u32,
            read_only: traits.read_only,
            segments: SEGMENTS,
            length: export.request_size,
            discard,
            write_zeroes,
        };
        Self {
            name: export.name.clone(),
            traits: *traits,
            rules,
            features: features(traits),
            config,
            notify: NotifyPolicies::new(&export.notify),
        }
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.rules.capacity * SECTOR
    }

    /// Changes the size to `size` bytes. Returns false if that was the size before.
    pub(super) fn resize(&mut self, size: u64) -> bool {
        let capacity = size / SECTOR;
        let changed = self.config.capacity != capacity;
        self.config.capacity = capacity;
        self.rules.capacity = capacity;
        changed
    }

    /// Returns the configuration space for the driver's choice of write-back mode.
    pub(super) fn config(&self, write_back: bool) -> [u8; CONFIG_LEN] {
        ConfigSpace {
            write_back,
            ..self.config
        }
        .encode()
    }

    /// Returns the reply to a request for the device's id, which is the name of the volume,
    /// truncated to fit.
    pub(super) fn id(&self) -> [u8; ID_LEN] {
        let mut id = [0; ID_LEN];
        let length = self.name.len().min(ID_LEN);
        id[..length].copy_from_slice(&self.name.as_bytes()[..length]);
        id
    }
}

/// Returns the features of virtio that a volume offers.
fn features(traits: &Traits) -> u64 {
    let writable = !traits.read_only;
    let always = feature::VERSION_1
        | feature::EVENT_IDX
        | feature::INDIRECT
        | feature::SEG_MAX
        | feature::BLK_SIZE
        | feature::TOPOLOGY
        | feature::FLUSH
        | feature::MQ
        | PROTOCOL_FEATURES;
    let when = |set: bool, feature: u64| if set { feature } else { 0 };
    always
        | when(!writable, feature::RO)
        | when(writable, feature::CONFIG_WCE | feature::WRITE_ZEROES)
        | when(writable && traits.trim, feature::DISCARD)
}
