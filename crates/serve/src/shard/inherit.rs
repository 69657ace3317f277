//! Applies the state of volumes that another process has handed over, before the shard serves its
//! clients.

use std::collections::BTreeMap;
use std::fs::File;

use weir_core::{Edit, GroupId, Instant, MaxDebt};

use super::drive::ShardDrive;
use super::{Shard, ShardError};
use crate::upgrade::{DebtRecord, Debtor};

/// The state of the volumes of a shard.
#[derive(Debug, Default)]
pub(crate) struct InheritedVolumes {
    /// The debts of volumes and tenants.
    pub(crate) debts: Vec<DebtRecord>,
    /// The contents of volumes in memory, by the name of the volume.
    pub(crate) memory: Vec<(String, File)>,
}

impl Shard {
    /// Applies the state of volumes. What belongs to other shards is ignored.
    pub(super) fn inherit(&mut self, volumes: &InheritedVolumes) -> Result<(), ShardError> {
        for drive in &mut self.drives {
            drive.set_debts(self.now, &volumes.debts)?;
            drive.restore(&volumes.memory)?;
        }
        Ok(())
    }
}

impl ShardDrive {
    /// Returns the debts of the volumes and tenants that have any.
    pub(super) fn debts(&self, now: Instant) -> Vec<DebtRecord> {
        let debts = self.debtors().into_iter().map(|(debtor, group)| {
            let debt = self.layer.layer().debt(now, group);
            (debtor, debt)
        });
        debts
            .filter(|(_, debt)| *debt != MaxDebt::NONE)
            .map(|(debtor, debt)| DebtRecord::new(self.name.clone(), debtor, &debt))
            .collect()
    }

    /// Sets the debts of this drive's volumes and tenants. Unknown ones are ignored.
    fn set_debts(&mut self, now: Instant, debts: &[DebtRecord]) -> Result<(), ShardError> {
        let debtors = self.debtors();
        let debts = debts.iter().filter(|record| record.drive == self.name);
        let edits = debts.filter_map(|record| {
            let (id, debt) = (*debtors.get(&record.debtor)?, record.debt());
            Some(Edit::SetDebt { id, debt })
        });
        let edits: Vec<Edit> = edits.collect();
        if edits.is_empty() {
            return Ok(());
        }
        self.touched = true;
        let changed = self.layer.change(now, &edits);
        changed.map(drop).map_err(|error| ShardError::Promises {
            drive: self.name.clone(),
            error,
        })
    }

    /// Restores the contents of this drive's volumes in memory.
    fn restore(&mut self, memory: &[(String, File)]) -> Result<(), ShardError> {
        for volume in self.volumes.iter_mut().flatten() {
            let mut contents = memory.iter().filter(|(name, _)| *name == volume.name);
            let restored = contents.try_for_each(|(_, content)| volume.backend.restore(content));
            restored.map_err(|error| ShardError::Volume {
                volume: volume.name.clone(),
                error,
            })?;
        }
        Ok(())
    }

    /// Returns the group of each tenant and volume of the drive.
    fn debtors(&self) -> BTreeMap<Debtor, GroupId> {
        let tenants = self.plan.tenants.iter();
        let tenants = tenants.map(|(name, group)| (Debtor::Tenant(name.clone()), *group));
        let volumes = self.plan.volumes.iter();
        let volumes = volumes.map(|(name, slot)| (Debtor::Volume(name.clone()), slot.group));
        tenants.chain(volumes).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::mpsc::channel;

    use weir_core::{Flags, Op, Priority, Request, SpaceId, Span, StreamSpec};

    use super::*;
    use crate::clock::ServerClock;
    use crate::shard::{RingConfig, ShardSetup};
    use crate::upgrade::UpgradeMessage;

    const DRIVE: &str = "listen.nbd = [\"unix:/run/weir.sock\"]\ndrive.d.policy = \"none\"\n\
        tenant.t = { drive = \"d\", max = \"2MB/s\" }\n\
        volume.a = { drive = \"d\", memory = true, size = \"1MiB\" }\n\
        volume.b = { drive = \"d\", tenant = \"t\", memory = true, size = \"1MiB\", \
        max = { read_bandwidth = \"1MB/s\", iops = 10 } }\n";

    fn shard(config: &str) -> Shard {
        let config = weir_config::parse("test.toml", config).unwrap();
        let opened = crate::setup::open(&config, &mut crate::backend::open, 1);
        let setup = ShardSetup {
            number: 0,
            clock: ServerClock::start(),
            limits: config.limits,
            priority: config.process.priority,
            ring: RingConfig {
                arena_bytes: 16 << 20,
                ..RingConfig::default()
            },
            drives: opened.unwrap().shards.remove(0),
            journal: 1 << 20,
        };
        Shard::new(setup, channel().1).unwrap()
    }

    /// The successor has one more tenant and one more volume, so that its groups have other
    /// numbers.
    #[test]
    fn debts_follow_the_names_of_tenants_and_volumes() {
        let mut old = shard(DRIVE);
        let (now, drive) = (old.now, &mut old.drives[0]);
        let slot = drive.plan.volumes["b"];
        let spec = StreamSpec {
            group: slot.group,
            priority: Priority::default(),
        };
        let read = Request {
            stream: drive.layer.open(now, spec).unwrap(),
            space: SpaceId(slot.space.0),
            op: Op::Read,
            flags: Flags::NONE,
            offset: 0,
            length: 512_000,
            cookie: 0,
            within: 0,
        };
        drive.layer.submit(now, &[read]).unwrap();
        let handed = old.handed().unwrap();
        let record = |debtor, debt| DebtRecord::new("d".to_owned(), debtor, &debt);
        let tenant = MaxDebt {
            bandwidth: Span::from_millis(256),
            ..MaxDebt::NONE
        };
        let volume = MaxDebt {
            read_bandwidth: Span::from_millis(512),
            iops: Span::from_millis(100),
            ..MaxDebt::NONE
        };
        let expected = [
            record(Debtor::Tenant("t".to_owned()), tenant),
            record(Debtor::Volume("b".to_owned()), volume),
        ];
        assert_eq!(handed.debts, expected);
        // The records survive their transport.
        let debts = handed.debts.into_iter().map(|debt| {
            let json = serde_json::to_vec(&UpgradeMessage::Debt(debt)).unwrap();
            match serde_json::from_slice(&json).unwrap() {
                UpgradeMessage::Debt(debt) => debt,
                other => panic!("{other:?}"),
            }
        });
        let gone = record(Debtor::Volume("gone".to_owned()), volume);
        let mut volumes = InheritedVolumes {
            debts: debts.chain([gone]).collect(),
            memory: Vec::new(),
        };
        let more = "tenant.s = { drive = \"d\" }\n\
            volume.0 = { drive = \"d\", tenant = \"s\", memory = true, size = \"1MiB\" }\n";
        let mut new = shard(&format!("{DRIVE}{more}"));
        new.inherit(&volumes).unwrap();
        assert_eq!(new.drives[0].debts(new.now), expected);
        // Debts of another drive are ignored.
        let mut other = shard(DRIVE);
        volumes.debts.iter_mut().for_each(|d| d.drive.push('2'));
        other.inherit(&volumes).unwrap();
        assert_eq!(other.drives[0].debts(other.now), []);
    }

    #[test]
    fn the_contents_of_volumes_in_memory_follow_their_names() {
        let mut content = crate::backend::Memory::new(1 << 20, false);
        content.write(100_000, b"content");
        let content = content.save().unwrap().unwrap();
        let read = |memory: &[(String, File)]| {
            let memory: Vec<(String, [u8; 7])> = memory
                .iter()
                .map(|(name, file)| {
                    let mut bytes = [0; 7];
                    file.read_exact_at(&mut bytes, 100_000).unwrap();
                    (name.clone(), bytes)
                })
                .collect();
            memory
        };
        let mut old = shard(DRIVE);
        let volumes = InheritedVolumes {
            debts: Vec::new(),
            memory: vec![("b".to_owned(), content)],
        };
        old.inherit(&volumes).unwrap();
        let allocated = |shard: &Shard| -> Vec<(String, u64)> {
            let storage = shard.storage().unwrap().into_iter();
            storage.map(|s| (s.name, s.memory)).collect()
        };
        let chunk = 64 << 10;
        assert_eq!(
            allocated(&old),
            [("a".to_owned(), 0), ("b".to_owned(), chunk)]
        );
        // A volume that was never written to has no content.
        let memory = old.handed().unwrap().memory;
        assert_eq!(read(&memory), [("b".to_owned(), *b"content")]);
        let more = "volume.0 = { drive = \"d\", memory = true, size = \"1MiB\" }\n";
        let mut new = shard(&format!("{DRIVE}{more}"));
        let debts = Vec::new();
        new.inherit(&InheritedVolumes { debts, memory }).unwrap();
        let memory = new.handed().unwrap().memory;
        assert_eq!(read(&memory), [("b".to_owned(), *b"content")]);
        // A volume that is too small for the content refuses it.
        let mut small = shard(&DRIVE.replace("1MiB", "64KiB"));
        let debts = Vec::new();
        let refused = small.inherit(&InheritedVolumes { debts, memory });
        assert!(matches!(refused, Err(ShardError::Volume { volume, .. }) if volume == "b"));
    }
}
