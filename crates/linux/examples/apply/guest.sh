# What the guest does: `weir apply` of each file of contracts on disks of four kinds, killed at every write, and put back; every warning; attacks.
# A line of the result begins with `figure:`, one of what is wrong with `WRONG:`.
cg=/sys/fs/cgroup
journal=/run/weir-apply/journal
wrong() { echo "WRONG: $*"; }

for m in bfq kyber_iosched mq_deadline dm_mod; do load $m; done
load null_blk gb=1 queue_mode=2 hw_queue_depth=64
load sd_mod
load scsi_debug dev_size_mb=64 num_parts=1 max_queue=32 ndelay=1000
load virtio_pci; load virtio_blk
sleep 1
scsi=$(for d in /sys/block/sd*; do echo ${d##*/}; done | head -1)
virtio=$(for d in /sys/block/vd*; do [ "$(cat $d/serial)" = disk0 ] && echo ${d##*/}; done)
disks="nullb0 $scsi $virtio"
if has ublk_drv; then
    load ublk_drv
    cat > /tmp/ublk.toml <<END
[drive.d]
policy = "none"
[listen]
nbd = ["unix:/tmp/nbd.sock"]
[volume.u]
drive = "d"
memory = true
size = "16MiB"
ublk = true
END
    weir serve /tmp/ublk.toml >/tmp/serve.log 2>&1 &
    for i in 1 2 3 4 5 6 7 8 9 10; do [ -e /sys/block/ublkb0 ] || sleep 1; done
    if [ -e /sys/block/ublkb0 ]; then disks="$disks ublkb0"; else wrong "no ublk disk: $(tail -3 /tmp/serve.log)"; fi
fi
echo "disks: $disks"

# What is there before is not what the kernel has by itself.
for d in $disks; do
    q=/sys/block/$d/queue
    echo mq-deadline > $q/scheduler
    echo 24 > $q/nr_requests; echo 312 > $q/iosched/read_expire; echo 5 > $q/iosched/fifo_batch; echo 192 > $q/read_ahead_kb
done
mkdir $cg/own; echo "$(cat /sys/block/nullb0/dev) rbps=77777777" > $cg/own/io.max

# Every file of queues and of cgroups that says how something is set. io.cost that was on once leaves a line that it is off.
snapshot() {
    for d in $disks; do grep -rs "" /sys/block/$d/queue/ | grep -v "/queue/stats"; done
    find $cg -type d
    grep -rsE "" $cg/ | grep -E "/(io\.(max|weight|bfq\.weight|latency|prio\.class|cost\.[a-z]+)|cgroup\.subtree_control|cgroup\.controllers):" |
        grep -vE "io.cost.qos:[0-9:]* enable=0 ctrl=auto|io.cost.model:[0-9:]* ctrl=auto"
}

# contracts FILE A B: the file for these disks.
contracts() { sed "s|@A@|/dev/$2|; s|@B@|/dev/$3|" /files/$1 > /tmp/contracts.toml; }
apply() { weir apply /tmp/contracts.toml --journal $journal "$@"; }
restore() { weir apply --restore --journal $journal; }
# killed N COMMAND...: the process is killed at its N-th call of those, before the kernel does it. Status 137 if it came to that. Each change has a
# write to the journal and an fsync, the write to the kernel's file, and another write and fsync for what was read back.
killed() { n=$1; shift; strace -qq -o /dev/null -e trace=$CALLS -e inject=$CALLS:signal=SIGKILL:when=$n "$@" >/dev/null 2>&1; }

as_before() {
    snapshot > /tmp/now
    if ! cmp -s /tmp/before /tmp/now; then wrong "$1"; diff /tmp/before /tmp/now | head -5; fi
    if [ -e $journal ]; then wrong "$1: the journal is left"; rm -f $journal; fi
}

snapshot > /tmp/before
echo "files that are held against each other: $(wc -l < /tmp/before) lines"
kills=0 number=0 refused=0 changes=0
set -- $disks
for file in $(ls /files | grep '^[0-9][0-9]-'); do
    [ -z "$ONLY" ] || case $file in $ONLY) ;; *) continue ;; esac
    number=$((number + 1))
    a=$1; shift; set -- "$@" $a; b=$1
    contracts $file $a $b
    if apply > /tmp/applied 2>/tmp/errors; then
        changes=$((changes + $(grep -c . /tmp/applied) - 1))
        snapshot > /tmp/set
        apply > /tmp/again 2>&1; grep -q "everything is so already" /tmp/again || { wrong "$file: not so the second time"; grep -v ^warning /tmp/again | head -5; }
        snapshot > /tmp/now; cmp -s /tmp/set /tmp/now || wrong "$file: changed by a second time"
        cmp -s /tmp/set /tmp/before && wrong "$file: nothing was set"
        restore > /tmp/restored 2>&1 || { wrong "$file: restore"; cat /tmp/restored; }
    else
        refused=$((refused + 1))
        echo "$file is refused: $(grep -v -e ^warning -e ^note -e help: /tmp/errors | tail -1)"
    fi
    as_before "$file: restored"
    n=1
    while :; do
        killed $n weir apply /tmp/contracts.toml --journal $journal; status=$?
        [ $status = 137 ] || break
        restore > /tmp/restored 2>&1 || { wrong "$file: restore after a kill at call $n"; cat /tmp/restored; }
        as_before "$file on $a, $b: killed at call $n"
        kills=$((kills + 1)) n=$((n + 1))
    done
    [ $n -gt 5 ] || wrong "$file: killed at $((n - 1)) calls only"
    [ -e $journal ] && restore > /dev/null 2>&1
    n=1
    while :; do
        apply > /dev/null 2>&1 || break
        killed $n weir apply --restore --journal $journal; status=$?
        [ $status = 137 ] || break
        restore > /tmp/restored 2>&1 || { wrong "$file: restore after a restore killed at call $n"; cat /tmp/restored; }
        as_before "$file on $a, $b: restore killed at call $n"
        kills=$((kills + 1)) n=$((n + ${STEP:-1}))
    done
    as_before "$file: in the end"
    echo "$file on $a, $b: $kills kills so far, up $(cut -d' ' -f1 /proc/uptime) s"
done
echo "figure: $number files on $disks: $changes changes made, $refused refused by this kernel, $kills kills at ($CALLS), each followed by a restore"

# says WORDS FILE...: a check says this.
warned=0
says() {
    apply --check > /tmp/said 2>&1
    if grep -q "$1" /tmp/said; then warned=$((warned + 1)); else wrong "no warning \"$1\""; cat /tmp/said | head -20; fi
}
two() { # two POLICY DEVICE [PATH]: two cgroups
    cat > /tmp/contracts.toml <<END
[drive.a]
device = "/dev/$2"
policy = "$1"
[volume.one]
drive = "a"
cgroup = "${3:-}/one"
share = 200
latency = "5ms"
[volume.two]
drive = "a"
cgroup = "/two"
END
}
echo "default 300" > $cg/own/io.weight; echo "default 300" > $cg/own/io.bfq.weight
two mq-deadline nullb0; says "io.cost is not enabled there"; says "its elevator is mq-deadline"
echo "default 100" > $cg/own/io.weight; echo "default 100" > $cg/own/io.bfq.weight
two "bfq + io.cost" nullb0; says "bfq and io.cost both"
two io.latency nullb0; says "built without io.latency"
two bfq ${scsi}1; says "is a partition of $scsi"
echo "0 65536 linear /dev/${scsi}1 0" | dmsetup create top >/dev/null 2>&1
two bfq $scsi; says "is made of it"
two io.max dm-0; says "is a device mapper"; two bfq dm-0; says "queues no requests of its own"
dmsetup remove top
mkdir -p /etc/udev/rules.d; echo 'ACTION=="change", ATTR{queue/scheduler}="none"' > /etc/udev/rules.d/60-x.rules
two bfq nullb0; says "udev sets files of queues"; rm /etc/udev/rules.d/60-x.rules
two bfq nullb0 /deep; says "a weight counts among cgroups of one parent"
mkdir $cg/deep; sleep 1000 & echo $! > $cg/deep/cgroup.procs; says "no internal processes"
apply > /tmp/said 2>&1; grep -q "processes of its own" /tmp/said || wrong "internal processes are not told by apply"
kill %%; wait %% 2>/dev/null; sleep 1; rmdir $cg/deep
echo -memory > $cg/cgroup.subtree_control; two bfq nullb0; says "has no controller for memory"; echo +memory > $cg/cgroup.subtree_control
mkdir -p /run/systemd/system $cg/x.slice/db.service
printf '#!/bin/sh\necho "$*" >> /tmp/systemctl\n' > /bin/systemctl; chmod +x /bin/systemctl
cat > /tmp/contracts.toml <<END
[drive.a]
device = "/dev/nullb0"
policy = "bfq + io.max"
[volume.db]
drive = "a"
unit = "db.service"
share = 300
max = { read_bandwidth = "5MB/s" }
END
says "is systemd's and not delegated"
snapshot > /tmp/before
apply > /tmp/said 2>&1 || cat /tmp/said
grep -q "IOReadBandwidthMax=/dev/nullb0 5000000" /run/systemd/system/db.service.d/50-weir.conf || wrong "no file for systemd"
restore > /dev/null 2>&1; as_before "systemd"; [ -e /run/systemd/system/db.service.d ] && wrong "a directory for systemd is left"
[ "$(grep -c daemon-reload /tmp/systemctl)" = 2 ] || wrong "systemd was not told twice"
rm -r /run/systemd; rmdir $cg/x.slice/db.service $cg/x.slice
rmdir $cg/own; echo -io > $cg/cgroup.subtree_control
two bfq nullb0; says "+io is missing"
mkdir /tmp/v1; if mount -t cgroup -o blkio v1 /tmp/v1; then says "cgroups of version 1 have the controller"; umount /tmp/v1; else echo "this kernel has no version 1 of blkio"; fi
sleep 1
echo +io > $cg/cgroup.subtree_control || wrong "io does not come back"
umount $cg; says "are not mounted"; mount -t cgroup2 cg $cg
rmmod bfq 2>/dev/null && { two bfq nullb0; says "bfq is not loaded"; load bfq; }
echo "figure: $warned warnings provoked"

# Attacks.
attacks=0
attack() { attacks=$((attacks + 1)); }
contracts 03-tenants.toml nullb0 $scsi
snapshot > /tmp/before
mkdir -p /run/full; mount -t tmpfs -o size=8k,mode=755 full /run/full; dd if=/dev/zero of=/run/full/fill bs=4k count=1 2>/dev/null; : > /run/full/j; dd if=/dev/zero of=/run/full/fill2 bs=4k 2>/dev/null
weir apply /tmp/contracts.toml --journal /run/full/j > /tmp/said 2>&1 && wrong "applied without room for the journal"
grep -q "make room" /tmp/said || { wrong "a full disk is not told"; tail -3 /tmp/said; }
as_before "a full disk"; attack
rm /run/full/fill2
# With three quarters of a page written it has room for a few steps.
{ echo '{"journal":{"version":1}}'; for i in $(seq 150); do echo '{"undone":{"id":0}}'; done; } > /run/full/j
weir apply /tmp/contracts.toml --journal /run/full/j > /tmp/said 2>&1 && wrong "applied without room for the whole journal"
grep -q "make room" /tmp/said || { wrong "a disk that fills up is not told"; tail -3 /tmp/said; }
grep -qE " -> |: made" /tmp/said || wrong "it was full at once"
as_before "a disk that fills up"; rm -f /run/full/fill; weir apply --restore --journal /run/full/j > /tmp/said 2>&1 || { wrong "restore with room again"; cat /tmp/said; }
as_before "room again"; attack
umount /run/full; mount -o remount,ro /sys
apply > /tmp/said 2>&1 && wrong "applied on a read-only /sys"
grep -q "read-only" /tmp/said || { wrong "a read-only /sys is not told"; tail -3 /tmp/said; }
mount -o remount,rw /sys; as_before "a read-only /sys"; attack
apply > /dev/null 2>&1
# Torn in its last line: as if the machine had stopped while it was written. The step of that line had not been done.
printf '{"change":{"id":99,"bo' >> $journal; restore > /dev/null 2>&1 || wrong "a torn journal"; as_before "a torn journal"; attack
apply > /dev/null 2>&1; sed -i '4s/.*/{"change":{"id":/' $journal
restore > /tmp/said 2>&1 && wrong "a damaged journal is not told"
grep -q "is no line of a journal" /tmp/said || { wrong "a damaged journal is not named"; cat /tmp/said; }
[ -e $journal ] || wrong "a damaged journal is gone"; rm -f $journal; attack
echo mq-deadline > /sys/block/nullb0/queue/scheduler; echo 24 > /sys/block/nullb0/queue/nr_requests; echo 312 > /sys/block/nullb0/queue/iosched/read_expire; echo 5 > /sys/block/nullb0/queue/iosched/fifo_batch
for g in $(find $cg -mindepth 1 -type d | sort -r); do rmdir $g; done
as_before "by hand"
apply > /dev/null 2>&1; rmmod null_blk && load null_blk gb=1 queue_mode=2 hw_queue_depth=64; sleep 1
snapshot > /tmp/other; restore > /tmp/said 2>&1; grep -q "is gone, and its settings with it" /tmp/said || { wrong "another device of the same name"; cat /tmp/said; }
for f in scheduler nr_requests; do [ "$(grep nullb0/queue/$f: /tmp/other)" = "/sys/block/nullb0/queue/$f:$(cat /sys/block/nullb0/queue/$f)" ] || wrong "another device was touched"; done
[ -e $journal ] && wrong "the journal is left"; attack
contracts 02-shares.toml nullb0 $scsi
snapshot > /tmp/before
weir apply /tmp/contracts.toml --journal $journal --watch > /tmp/watch 2>&1 & watch=$!
for i in 1 2 3 4 5 6 7 8 9 10; do grep -q watching /tmp/watch || sleep 1; done
apply > /tmp/said 2>&1 && wrong "two at once"; grep -q "another weir apply works" /tmp/said || { wrong "two at once is not told"; cat /tmp/said; }; attack
echo none > /sys/block/nullb0/queue/scheduler; sleep 4
grep -q '\[bfq\]' /sys/block/nullb0/queue/scheduler || wrong "not watched"
grep -q 'queue/scheduler: was changed to "none", is "bfq" again' /tmp/watch || { wrong "a repair is not told"; cat /tmp/watch; }
[ "$(cat /sys/block/nullb0/queue/iosched/slice_idle_us)" = 2000 ] || wrong "its tunables are not watched"
kill -TERM $watch; wait $watch; status=$?; [ $status = 0 ] || wrong "watch ended with $status"
restore > /dev/null 2>&1; as_before "a watch"; attack
echo "figure: $attacks attacks"
