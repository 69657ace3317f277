use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn host(number: usize) -> Peer {
    Peer::host(Some(([10, 0, 0, number as u8], 1).into()))
}

fn claim(owner: usize, volume: &str) -> Claim {
    Claim {
        peer: host(owner),
        volume: volume.into(),
    }
}

/// Reservations for volumes that each have a promise of their own.
fn promised(volumes: &[&'static str]) -> Reservations {
    Reservations::new(volumes.iter().map(|volume| (*volume, *volume)))
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

/// A set of places with the tickets of its connections, which the acceptor and the shards hold in a
/// server.
struct PlacesFixture {
    places: Places,
    tickets: BTreeMap<u64, (Claim, Ticket)>,
    next: u64,
}

impl PlacesFixture {
    fn new(most: usize) -> Self {
        Self {
            places: Places::new(most),
            tickets: BTreeMap::new(),
            next: 0,
        }
    }

    /// Connects a client. Returns the number of its connection, and the claim of the connection
    /// that it has replaced.
    fn connect(
        &mut self,
        claim: &Claim,
        now: Instant,
        reservations: &Reservations,
    ) -> Option<(u64, Option<Claim>)> {
        self.next += 1;
        let (ticket, gone) = self
            .places
            .take(self.next, claim.clone(), now, reservations)?;
        let gone = gone.map(|gone| self.tickets.remove(&gone.connection).unwrap().0);
        self.tickets.insert(self.next, (claim.clone(), ticket));
        Some((self.next, gone))
    }

    fn count(&self, is_counted: impl Fn(&Claim) -> bool) -> usize {
        let claims = self.tickets.values().filter(|(claim, _)| is_counted(claim));
        claims.count()
    }
}

#[test]
fn a_promised_volume_has_reserved_places_beside_busy_volumes() {
    let (evil, honest) = (claim(1, "evil"), claim(1, "honest"));
    let promised = promised(&["honest"]);
    // Half of 256 places are for promises. One promise gets at most 16 of them.
    let mut site = PlacesFixture::new(256);
    for _ in 0..256 {
        site.connect(&evil, at(0), &promised).unwrap();
    }
    // The connections of `evil` are active all the time, which does not protect them. Each of the
    // 16 places of `honest` comes from them.
    for n in 0..16 {
        for (_, ticket) in site.tickets.values() {
            ticket.note_activity(at(n));
        }
        let (_, gone) = site.connect(&honest, at(n), &promised).unwrap();
        assert_eq!(gone.as_ref(), Some(&evil));
        assert!(site.connect(&evil, at(n), &promised).is_none());
    }
    assert_eq!(site.count(|claim| *claim == honest), 16);
}

#[test]
fn spare_places_are_for_reserved_connections_and_end_no_other() {
    let (evil, honest) = (claim(1, "evil"), claim(1, "honest"));
    let promised = promised(&["honest"]);
    let mut site = PlacesFixture::new(32);
    site.places = Places::new(32).with_spare(2);
    for _ in 0..32 {
        site.connect(&evil, at(0), &promised).unwrap();
    }
    assert!(site.connect(&evil, at(0), &promised).is_none());
    // 32 places give 2 spare ones, for the first two connections. The third one takes the place of
    // another client.
    for ends in [None, None, Some(evil)] {
        let (_, gone) = site.connect(&honest, at(0), &promised).unwrap();
        assert_eq!(gone, ends);
    }
}

#[test]
fn a_changed_promise_holds_from_the_next_newcomer_on() {
    // Eight volumes of one owner fill eight places, so that a ninth volume is not entitled to one
    // until it has a promise.
    let volumes: Vec<String> = (0..8).map(|n| format!("v{n}")).collect();
    let honest = claim(1, "honest");
    let mut site = PlacesFixture::new(8);
    for volume in &volumes {
        let (_, gone) = site
            .connect(&claim(1, volume), at(0), &promised(&[]))
            .unwrap();
        assert_eq!(gone, None);
    }
    assert!(site.connect(&honest, at(0), &promised(&[])).is_none());
    let (_, gone) = site
        .connect(&honest, at(0), &promised(&["honest"]))
        .unwrap();
    assert_eq!(gone, Some(claim(1, "v7")), "the newest of equals");
}

#[test]
fn the_most_idle_connection_of_the_largest_group_is_evicted() {
    let none = promised(&[]);
    let mut site = PlacesFixture::new(6);
    let taken: Vec<u64> = [(1, "v"), (1, "v"), (1, "v"), (1, "v"), (2, "v"), (1, "w")]
        .map(|(owner, volume)| site.connect(&claim(owner, volume), at(0), &none).unwrap().0)
        .into();
    // The second connection of owner 1 to `v` has the oldest activity of the largest group (4 of 6
    // places).
    for (number, ms) in taken.iter().zip([50, 20, 40, 30, 0, 0]) {
        site.tickets[number].1.note_activity(at(ms));
    }
    let (_, gone) = site.connect(&claim(2, "v"), at(60), &none).unwrap();
    assert_eq!(gone, Some(claim(1, "v")));
    assert!(!site.tickets.contains_key(&taken[1]));
    // Owner 1 has four places now, and owner 2 has two. Owner 1 gets none back, and divides its own
    // among its volumes.
    assert!(site.connect(&claim(1, "v"), at(60), &none).is_none());
    let (_, gone) = site.connect(&claim(1, "w"), at(60), &none).unwrap();
    assert_eq!(gone, Some(claim(1, "v")));
    assert!(site.connect(&claim(1, "w"), at(60), &none).is_none());
}

#[test]
fn volumes_of_a_tenant_share_its_places() {
    let tenant = [("a", "tenant.t"), ("b", "tenant.t"), ("c", "volume.c")];
    let reservations = Reservations::new(tenant.into_iter());
    // Half of eight places for two promises are two places each.
    let mut site = PlacesFixture::new(8);
    for _ in 0..8 {
        site.connect(&claim(1, "evil"), at(0), &reservations)
            .unwrap();
    }
    let mut gets_in = |volume| {
        site.connect(&claim(1, volume), at(0), &reservations)
            .is_some()
    };
    assert!(gets_in("a") && gets_in("b") && gets_in("c") && gets_in("c"));
    // Further connections of `a` and `evil` share the other four places evenly.
    assert!(gets_in("a") && !gets_in("evil"));
}

#[test]
fn a_connection_in_its_handshake_can_be_evicted() {
    let none = promised(&[]);
    // Connection 1 is still in its handshake and has the older activity, so that it makes room.
    let mut places = Places::new(2);
    let (slow, _) = places.take(1, claim(1, "v"), at(0), &none).unwrap();
    let (served, _) = places.take(2, claim(1, "v"), at(1), &none).unwrap();
    served.serve(7);
    let (_third, gone) = places.take(3, claim(2, "v"), at(2), &none).unwrap();
    assert_eq!(
        gone.map(|gone| (gone.shard, gone.connection)),
        Some((None, 1))
    );
    assert!(slow.is_lost() && !served.is_lost());
}

#[test]
fn a_newcomer_replaces_an_equal_after_its_grace_time() {
    let none = promised(&[]);
    let mut places = Places::new(2);
    let (idle, _) = places.replace(1, &claim(1, ""), at(0), &none).unwrap();
    let (works, _) = places.replace(2, &claim(1, ""), at(0), &none).unwrap();
    works.note_work(at(0), true);
    let refused = places.replace(3, &claim(1, ""), at(5), &none).map(|_| ());
    // Connection 2 is worked on, and connection 1 was active 5 ms ago. Both are safe until 0 + 50
    // ms.
    assert_eq!(refused, Err(at(50)));
    // An owner with fewer connections does not need to wait.
    let (other, gone) = places.replace(4, &claim(2, ""), at(5), &none).unwrap();
    assert_eq!(gone.map(|gone| gone.connection), Some(1));
    assert!(idle.is_lost() && !works.is_lost() && !other.is_lost());
    // Of the newcomer's own group, connection 2 is the only one left. It makes room although it is
    // being worked on.
    let (next, gone) = places.replace(5, &claim(1, ""), at(60), &none).unwrap();
    assert_eq!(gone.map(|gone| gone.connection), Some(2));
    assert!(!next.is_lost() && !other.is_lost());
}

/// The numbers of random owners and volumes. The first two volumes have a promise.
const OWNERS: usize = 6;
const VOLUMES: [&str; 5] = ["p", "q", "x", "y", "z"];

#[derive(Clone, Debug)]
enum PlaceStep {
    Connect(usize, usize),
    Close(usize),
    Work(usize),
}

fn steps() -> impl Strategy<Value = Vec<PlaceStep>> {
    let connect = || (0..OWNERS, 0..VOLUMES.len());
    // Owner 0 connects far more often than the others.
    let hog = (0..VOLUMES.len()).prop_map(|volume| PlaceStep::Connect(0, volume));
    let step = prop_oneof![
        4 => connect().prop_map(|(owner, volume)| PlaceStep::Connect(owner, volume)),
        4 => hog,
        2 => any::<usize>().prop_map(PlaceStep::Close),
        2 => any::<usize>().prop_map(PlaceStep::Work),
    ];
    prop::collection::vec(step, 1..400)
}

/// Checks the guarantees of the newcomer and of the connection that ended for it, computed from
/// counts alone.
fn check(
    site: &PlacesFixture,
    (newcomer, outcome): (&Claim, Option<&Claim>),
    most: usize,
    refused: bool,
) {
    // Half of all places are divided among the two promises.
    let each = most / 4;
    let is_promised = |claim: &Claim| VOLUMES[..2].contains(&&*claim.volume);
    let of_volume = |volume: &str| site.count(|c| &*c.volume == volume);
    let of = |peer, volume: &str| site.count(|c| c.peer == peer && &*c.volume == volume);
    let is_within = is_promised(newcomer) && of_volume(&newcomer.volume) < each;
    assert!(!(refused && is_within), "{newcomer:?} was refused");
    // Each owner has an equal part of the places that are never reserved.
    let part = (most - 2 * each) / OWNERS;
    assert!(!(refused && site.count(|c| c.peer == newcomer.peer) < part));
    let Some(gone) = outcome else { return };
    // The site is in the state before that connection was ended.
    assert!(
        site.count(|c| c.peer == gone.peer) >= part,
        "{gone:?} is below its part"
    );
    if is_promised(gone) {
        let fair = each / OWNERS;
        let only = of_volume(&gone.volume) <= each && gone.volume != newcomer.volume;
        assert!(!only, "{gone:?} was within the places of its promise");
        let own = of(gone.peer, &gone.volume);
        assert!(own > fair, "{gone:?} had {own} of {each}");
    }
}

proptest! {
    #[test]
    fn promised_clients_connect_and_evict_no_client_below_its_part(
        most in 24_usize..60,
        steps in steps(),
    ) {
        let reservations = promised(&VOLUMES[..2]);
        let mut site = PlacesFixture::new(most);
        for (ms, step) in steps.into_iter().enumerate() {
            let now = at(ms as u64);
            let pick = |site: &PlacesFixture, n: usize| {
                let keys: Vec<u64> = site.tickets.keys().copied().collect();
                (!keys.is_empty()).then(|| keys[n % keys.len()])
            };
            match step {
                PlaceStep::Connect(owner, volume) => {
                    let newcomer = claim(owner, VOLUMES[volume]);
                    let full = site.tickets.len() == most;
                    let connected = site.connect(&newcomer, now, &reservations);
                    prop_assert!(full || matches!(connected, Some((_, None))));
                    let Some((number, gone)) = connected else {
                        check(&site, (&newcomer, None), most, true);
                        continue;
                    };
                    let Some(gone) = gone else { continue };
                    // To count the state before the connection, the newcomer is removed and the
                    // ended connection restored.
                    let own = site.tickets.remove(&number).unwrap();
                    let (ghost, _) = Places::new(1).take(0, gone.clone(), now, &reservations).unwrap();
                    site.tickets.insert(0, (gone.clone(), ghost));
                    check(&site, (&newcomer, Some(&gone)), most, false);
                    site.tickets.remove(&0);
                    site.tickets.insert(number, own);
                    // If the ended connection connects again, it does not end the newcomer in turn.
                    if let Some((_, back)) = site.connect(&gone, now, &reservations) {
                        prop_assert_ne!(back, Some(newcomer));
                    }
                }
                PlaceStep::Close(n) => drop(pick(&site, n).and_then(|key| site.tickets.remove(&key))),
                PlaceStep::Work(n) => {
                    if let Some(key) = pick(&site, n) {
                        site.tickets[&key].1.note_activity(now);
                    }
                }
            }
            prop_assert!(site.tickets.len() <= most);
        }
    }
}
