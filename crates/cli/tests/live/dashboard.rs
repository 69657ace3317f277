//! The dashboard in a browser, while clients read.

use crate::browser::{BrowserPage, DashboardSite, TOKEN, browse};
use crate::common::running::fleet;
use crate::common::{Scratch, has};
use fantoccini::key::Key;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weir_manage::api::{ChangeRequest, Edit, ManagementClient, Outcome, Volume};
use weir_model::load::Program;

/// A name that would run a script if a page inserted it as HTML.
const HOSTILE: &str = "<img src=x onerror=window.harmed=1>";

/// Returns two volumes with a min, one of which has that name.
fn volumes() -> String {
    format!(
        "[volume.alpha]\ndrive = \"fast\"\nsize = \"64MiB\"\nmin = \"10MB/s\"\n[volume.\"{HOSTILE}\"]\ndrive = \"fast\"\nsize = \"64MiB\"\nmin = \"1MB/s\"\n"
    )
}

/// Clients that read until this value is dropped.
struct DashboardReaders {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DashboardReaders {
    fn start(site: &DashboardSite, exports: &[&str]) -> Self {
        let program = Program::random_reads(64 << 10, 4);
        let clients: Vec<_> = exports.iter().map(|export| (*export, program)).collect();
        let fleet = fleet(&site.address, &clients, Duration::from_mins(10));
        let stop = Arc::<AtomicBool>::default();
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let read = fleet.run_while(|_| !told.load(Ordering::Relaxed));
            assert!(read.unwrap().is_none(), "it was told to end");
        });
        let thread = Some(thread);
        Self { stop, thread }
    }
}

impl Drop for DashboardReaders {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(
            !matches!(ended, Some(Err(_))),
            "clients read without errors"
        );
    }
}

async fn open(page: &BrowserPage, site: &str) {
    page.0.goto(&format!("{site}#token={TOKEN}")).await.unwrap();
    page.wait("document.querySelectorAll('#list .bandwidth').length > 0")
        .await;
}

/// Returns the server's answer to another client. The client blocks, so it needs a thread other
/// than the one that drives the browser.
fn asked<T: Send + 'static>(
    socket: &Path,
    ask: impl FnOnce(&ManagementClient) -> Result<T, weir_manage::api::Error> + Send + 'static,
) -> T {
    let client = ManagementClient::new(socket).unwrap();
    thread::spawn(move || ask(&client)).join().unwrap().unwrap()
}

/// Returns a JavaScript expression for the row of a volume.
fn row(name: &str) -> String {
    format!(
        "[...document.querySelectorAll('#list > li')].find(r => r.querySelector('h3').textContent === {name:?})"
    )
}

#[test]
fn figures_are_live_and_names_are_text() {
    let scratch = Scratch::new();
    let site = DashboardSite::start(&scratch, &volumes());
    let readers = DashboardReaders::start(&site, &["alpha", HOSTILE]);
    let url = site.url.clone();
    browse(|page| async move {
        open(&page, &url).await;
        let got = format!("{}.querySelector('span.got').textContent", row("alpha"));
        page.wait(&format!("/^[1-9].* MB\\/s$/.test({got})")).await;
        // The line is drawn once several seconds have been shown.
        let line = format!(
            "{}.querySelector('path.got').getAttribute('d')",
            row("alpha")
        );
        page.wait(&format!("{line}.split('L').length > 3")).await;
        let shown = page
            .ask(&format!("return {}.innerText", row("alpha")))
            .await;
        let shown = shown.as_str().unwrap();
        has(shown, "of 10.0 MB/s promised");
        assert!(shown.contains("drive "), "latency by its parts: {shown}");
        let drive = page.text("#drives").await;
        has(&drive, "% busy");
        // The mins of both volumes are 10 and 1 MB/s.
        has(&drive, "Promised: 11.0 MB/s");
        // The name is shown unchanged everywhere, and its script has not run.
        let hostile = row(HOSTILE);
        page.ask(&format!("{hostile}.querySelector('button').click()"))
            .await;
        page.wait("document.activeElement.id === 'field-min'").await;
        let title = page.text("#contract-title").await;
        assert_eq!(title, format!("volume {HOSTILE}"));
        assert_eq!(page.ask("return window.harmed ?? 0").await, 0);
        assert_eq!(page.ask("return document.images.length").await, 0);
        // The page's own scripts cannot insert HTML either, because the page forbids it.
        let made =
            "try { document.body.innerHTML = '<p>'; return 'made' } catch { return 'refused' }";
        assert_eq!(page.ask(made).await, "refused");
        // When the clients disconnect, the page shows it.
        drop(readers);
        page.wait(&format!("{got} === '0 B/s'")).await;
    });
    site.end();
}

/// Returns the min of the volume `alpha`, in bytes per second.
fn promised(socket: &Path) -> u64 {
    let alpha: Volume = asked(socket, |client| client.get("/v1/volumes/alpha"));
    alpha.contract.min_bytes_per_second
}

/// Presses the Enter key.
async fn enter(page: &BrowserPage) {
    page.keys(&char::from(Key::Enter).to_string()).await;
}

/// Opens the contract of the volume `alpha` by keyboard, types another min, and tests it with a dry
/// run.
async fn try_min(page: &BrowserPage, min: &str) {
    let button = format!("{}.querySelector('button')", row("alpha"));
    page.ask(&format!("{button}.focus()")).await;
    enter(page).await;
    page.wait("document.getElementById('field-min').value === '10MB/s'")
        .await;
    page.ask("document.getElementById('field-min').select()")
        .await;
    page.keys(min).await;
    enter(page).await;
}

#[test]
fn a_promise_that_cannot_be_kept_is_refused_at_its_field() {
    let scratch = Scratch::new();
    let site = DashboardSite::start(&scratch, &volumes());
    let (url, socket) = (site.url.clone(), scratch.path("manage.sock"));
    browse(|page| async move {
        open(&page, &url).await;
        try_min(&page, "900GB/s").await;
        let refusal = "document.getElementById('field-min-refusal')";
        page.wait(&format!("{refusal}.textContent !== ''")).await;
        let said = page.text("#field-min-refusal").await;
        assert!(said.contains("; "), "what is wrong, and help: {said}");
        page.wait("document.activeElement.id === 'field-min'").await;
        page.wait("document.activeElement.getAttribute('aria-invalid') === 'true'")
            .await;
        page.wait("document.getElementById('apply').disabled").await;
        assert_eq!(promised(&socket), 10_000_000);
        // Typing another value removes the refusal.
        page.ask("document.getElementById('field-min').select()")
            .await;
        page.keys("11MB/s").await;
        enter(&page).await;
        page.wait("document.activeElement.id === 'apply'").await;
        assert_eq!(page.text("#field-min-refusal").await, "");
    });
    site.end();
}

#[test]
fn a_contract_is_tried_changed_and_undone_by_keyboard() {
    let scratch = Scratch::new();
    let site = DashboardSite::start(&scratch, &volumes());
    let (url, socket) = (site.url.clone(), scratch.path("manage.sock"));
    let file = scratch.path("weir.toml");
    browse(|page| async move {
        open(&page, &url).await;
        // The dry run shows the sums but changes nothing.
        try_min(&page, "20MB/s").await;
        page.wait("document.activeElement.id === 'apply'").await;
        let outcome = page.text("#contract .outcome").await;
        let sums = outcome.contains("20MB/s") && outcome.contains("left");
        assert!(sums, "{outcome}");
        assert_eq!(promised(&socket), 10_000_000, "tried only");
        enter(&page).await;
        let outcome = "document.querySelector('#contract .outcome')";
        page.wait(&format!("{outcome}.textContent.includes('Done: change 1')"))
            .await;
        // The change applies to the running server and to its file.
        assert_eq!(promised(&socket), 20_000_000);
        let written = std::fs::read_to_string(&file).unwrap();
        has(&written, "min = \"20MB/s\"");
        // Enter closes the dialogue now.
        enter(&page).await;
        page.wait("!document.getElementById('contract').open").await;
        let shown = |min| format!("{}.textContent.includes('of {min} MB/s')", row("alpha"));
        page.wait(&shown("20.0")).await;
        let undo = "document.querySelector('#changes > li button')";
        // The change is undone.
        page.wait(undo).await;
        page.ask(&format!("{undo}.focus()")).await;
        enter(&page).await;
        page.wait("document.activeElement.id === 'undo-now'").await;
        enter(&page).await;
        page.wait(&shown("10.0")).await;
        page.wait("document.getElementById('changes').textContent.includes('undone by 2')")
            .await;
        assert_eq!(promised(&socket), 10_000_000);
    });
    site.end();
}

#[test]
fn a_change_of_another_client_in_between_is_not_lost() {
    let scratch = Scratch::new();
    let site = DashboardSite::start(&scratch, &volumes());
    let (url, socket) = (site.url.clone(), scratch.path("manage.sock"));
    browse(|page| async move {
        open(&page, &url).await;
        try_min(&page, "20MB/s").await;
        page.wait("document.activeElement.id === 'apply'").await;
        // In the meantime, another client changes the share of the volume.
        let key = ["volume", "alpha", "share"].map(String::from).to_vec();
        let value = 50.into();
        let edits = vec![Edit { key, value }];
        asked(&socket, move |client| {
            let request = ChangeRequest { edits };
            client.send::<Outcome>("POST", "/v1/changes", &request, None)
        });
        enter(&page).await;
        page.wait("document.querySelector('#contract .elsewhere').textContent.includes('has been changed since')")
            .await;
        assert_eq!(promised(&socket), 10_000_000);
        // The same change is made again, against the current state.
        page.wait("document.activeElement.id === 'try'").await;
        enter(&page).await;
        page.wait("document.activeElement.id === 'apply'").await;
        enter(&page).await;
        page.wait(
            "document.querySelector('#contract .outcome').textContent.includes('Done: change 2')",
        )
        .await;
        let alpha: Volume = asked(&socket, |client| client.get("/v1/volumes/alpha"));
        let contract = alpha.contract;
        assert_eq!(
            (contract.min_bytes_per_second, contract.share),
            (20_000_000, 50)
        );
    });
    site.end();
}

#[test]
fn sentences_that_explain_a_volume_are_shown_where_the_server_has_them() {
    let scratch = Scratch::new();
    let site = DashboardSite::start(&scratch, &volumes());
    let url = site.url.clone();
    browse(|page| async move {
        open(&page, &url).await;
        // A mock replaces the server's answer, so that the text is known.
        let answer = "(path, how) => !path.endsWith('/v1/volumes/alpha/explain') ? ask(path, how) \
            : Promise.resolve(new Response(JSON.stringify({ said: ['<b>beta</b> stood before it.'] })))";
        page.ask(&format!(
            "const ask = window.fetch; window.fetch = {answer}"
        ))
        .await;
        // HTML in the answer must be shown as text.
        page.ask(&format!("{}.querySelector('button').click()", row("alpha")))
            .await;
        page.wait("!document.getElementById('explain').hidden")
            .await;
        assert_eq!(page.text("#said").await, "<b>beta</b> stood before it.");
    });
    site.end();
}

#[test]
fn the_dashboard_links_to_the_manual_that_the_server_has() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("manual")).unwrap();
    scratch.file("manual/index.html", "<title>Weir</title>");
    scratch.file("manual/management.html", "<title>The manual</title>");
    let path = |name| scratch.at(name);
    let text = format!(
        "[drive.fast]\nmodel = \"demo\"\n[listen]\nnbd = [\"unix:{}\"]\n[manage]\nhttp = \"127.0.0.1:0\"\ntoken_file = \"{}\"\nmanual = \"{}\"\n{}",
        path("nbd.sock"),
        path("token"),
        path("manual"),
        volumes(),
    );
    let site = DashboardSite::of(&scratch, &text, "");
    let url = site.url.clone();
    browse(|page| async move {
        open(&page, &url).await;
        let links = "[...document.querySelectorAll('a.manual')]";
        page.wait(&format!(
            "{links}.length > 5 && {links}.slice(0, 2).every((link) => link.offsetWidth > 0)"
        ))
        .await;
        // A browser can follow the link without the token.
        let first = format!("return {links}[0].href");
        let first = page.ask(&first).await;
        page.0.goto(first.as_str().unwrap()).await.unwrap();
        assert_eq!(page.ask("return document.title").await, "The manual");
    });
    site.end();
}

#[test]
fn a_page_that_is_opened_again_has_the_curves_of_the_time_before() {
    let scratch = Scratch::new();
    let site = DashboardSite::start(&scratch, &volumes());
    let readers = DashboardReaders::start(&site, &["alpha"]);
    let url = site.url.clone();
    browse(|page| async move {
        open(&page, &url).await;
        // Waits for the server's first point of history, which covers some seconds.
        let kept = "fetch('/v1/history?of=volume.alpha', { headers: { Authorization: `Bearer ${sessionStorage.getItem('weir-token')}` } })\
            .then((answer) => answer.json()).then(({ points }) => { window.kept = points.length })";
        page.wait(&format!("{kept} && window.kept > 0")).await;
        page.0.refresh().await.unwrap();
        // The page's first event is about the second before it, so only the length of a point shows
        // that the server has kept it.
        let first = format!("{}?.row.history.points[0]", row("alpha"));
        page.wait(&format!(
            "{first}?.step === 10000 && {first}.at < performance.timeOrigin"
        ))
        .await;
        // The points are drawn, with the times and the values of the axes.
        let line = format!(
            "{}.querySelector('path.got').getAttribute('d')",
            row("alpha")
        );
        page.wait(&format!("/^M(?!240)/.test({line})")).await;
        for (labels, pattern) in [
            (
                "values",
                "/^[125]0* [kMG]?B\\/s$/.test(labels[0]) && labels[2] === '0 B/s'",
            ),
            (
                "times",
                "labels.every((label) => /:\\d\\d:\\d\\d/.test(label)) && labels.length === 4",
            ),
        ] {
            let texts = format!(
                "[...{}.querySelectorAll('.chart .{labels} span')]",
                row("alpha")
            );
            let texts = format!("{texts}.map((label) => label.textContent)");
            page.wait(&format!("((labels) => {pattern})({texts})"))
                .await;
        }
        // The chosen period of the plots survives a reload of the page.
        page.ask("const span = document.getElementById('span'); span.value = '3600'; span.dispatchEvent(new Event('input'))")
            .await;
        page.0.refresh().await.unwrap();
        page.wait("document.getElementById('span').value === '3600'")
            .await;
        drop(readers);
    });
    site.end();
}

#[test]
fn short_seconds_before_the_page_was_opened_are_listed() {
    let scratch = Scratch::new();
    let site = DashboardSite::start(&scratch, &volumes());
    let url = site.url.clone();
    browse(|page| async move {
        page.0.goto(&url).await.unwrap();
        page.wait("!document.getElementById('login').hidden").await;
        // A mock replaces the server's answer, so that the short second is known.
        let short = "{ short: [{ at_ms: 1700000000000, of: 'volume.alpha', reason: 'others', lacking: 2000000 }] }";
        let answer = format!(
            "(path, how) => path !== '/v1/short' ? ask(path, how) : Promise.resolve(new Response(JSON.stringify({short})))"
        );
        page.ask(&format!(
            "const ask = window.fetch; window.fetch = {answer}"
        ))
        .await;
        page.ask("document.getElementById('token').focus()").await;
        page.keys(&format!("{TOKEN}{}", char::from(Key::Enter)))
            .await;
        page.wait("document.getElementById('short').textContent.includes('alpha lacked 2.00 MB')")
            .await;
        page.wait("document.getElementById('no-short').hidden")
            .await;
    });
    site.end();
}

#[test]
fn a_legend_explains_every_hatching_and_line() {
    let scratch = Scratch::new();
    let tenant = "[tenant.acme]\ndrive = \"fast\"\nmin = \"20MB/s\"\n[volume.beta]\ndrive = \"fast\"\nsize = \"64MiB\"\ntenant = \"acme\"\n";
    let site = DashboardSite::start(&scratch, &format!("{}{tenant}", volumes()));
    let url = site.url.clone();
    browse(|page| async move {
        open(&page, &url).await;
        page.wait("document.querySelector('#tenants .stack')").await;
        let unexplained = "return ['drives', 'tenants', 'list'].flatMap((id) => {
            const legend = document.getElementById(id).closest('section').querySelector('.legend');
            const kinds = [...document.getElementById(id).querySelectorAll('.part')].map((part) => part.className.replace('part ', ''));
            return kinds.filter((kind) => !legend?.querySelector(`.part.${kind}`)).map((kind) => `${id}: ${kind}`);
        })";
        assert_eq!(page.ask(unexplained).await, serde_json::json!([]));
        let legends =
            "return [...document.querySelectorAll('.legend')].map((legend) => legend.textContent)";
        let legends = page.ask(legends).await.to_string();
        for word in [
            "never promised",
            "left to promise",
            "short second",
            "in the elevator",
        ] {
            assert!(legends.contains(word), "{word}: {legends}");
        }
    });
    site.end();
}

#[test]
fn the_token_is_asked_for_and_leaves_the_address() {
    let scratch = Scratch::new();
    let site = DashboardSite::start(&scratch, &volumes());
    let url = site.url.clone();
    browse(|page| async move {
        page.0
            .goto(&format!("{url}#token=not-the-right-token"))
            .await
            .unwrap();
        page.wait("!document.getElementById('login').hidden").await;
        assert_eq!(page.text("#token-refusal").await, "This is not the token.");
        assert_eq!(
            page.ask("return document.getElementById('all').hidden")
                .await,
            true
        );
        assert_eq!(page.ask("return document.activeElement.id").await, "token");
        // The right token opens the page, and does not appear in the address.
        page.keys(&format!("{TOKEN}{}", char::from(Key::Enter)))
            .await;
        page.wait("!document.getElementById('all').hidden").await;
        assert_eq!(page.ask("return location.href").await, url.as_str());
        // The token is kept for this tab.
        page.0.refresh().await.unwrap();
        page.wait("!document.getElementById('all').hidden").await;
        // A token in the address is removed from it at once.
        page.0.goto("about:blank").await.unwrap();
        open(&page, &url).await;
        assert_eq!(page.ask("return location.href").await, url.as_str());
    });
    site.end();
}

#[test]
fn a_thousand_volumes_fit_a_telephone() {
    let scratch = Scratch::new();
    let mut volumes = String::new();
    for number in 0..1000 {
        let volume = format!("[volume.customer-{number}]\ndrive = \"fast\"\nsize = \"1MiB\"\n");
        volumes.write_str(&volume).unwrap();
    }
    let site = DashboardSite::start(&scratch, &volumes);
    let url = site.url.clone();
    browse(|page| async move {
        // The window is as narrow as a telephone.
        page.0.set_window_size(500, 844).await.unwrap();
        open(&page, &url).await;
        let rows = page
            .ask("return document.querySelectorAll('#list > li').length")
            .await;
        assert_eq!(rows, 1000);
        let drawn = "document.querySelectorAll('#list .plot').length";
        let built = page.ask(&format!("return {drawn}")).await.as_u64().unwrap();
        assert!(built < 50, "only what is seen is drawn: {built}");
        let wider =
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(page.ask(wider).await, 0, "nothing is beyond the right edge");
        page.ask("document.getElementById('filter').focus()").await;
        // The filter ignores case. It matches 99 and 990 to 999, which are 11 volumes.
        page.keys("CUSTOMER-99").await;
        page.wait("document.getElementById('shown').textContent === '11 of 1000'")
            .await;
        // The names are in natural order, in which 99 precedes 990.
        let names =
            "return [...document.querySelectorAll('#list h3')].map(h => h.textContent).slice(0, 2)";
        let names = page.ask(names).await;
        assert_eq!(names, serde_json::json!(["customer-99", "customer-990"]));
        page.wait("document.querySelector('#list > li:nth-child(2) .plot')")
            .await;
    });
    site.end();
}
