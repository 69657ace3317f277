//! Tests of pages: golden HTML, and properties of every page.

use crate::common::{assert_golden, assert_self_contained, sample};
use weir_lab::report::html::{Card, Gauge, HtmlPage, PageBlock, PageSection, Tone};
use weir_lab::report::svg::Chart;
use weir_lab::report::{Column, DemoReport, ReportTable, demo_page};

/// Returns the page without the parts that are the same in every page.
fn without_style_and_script(page: &str) -> String {
    let mut page = page.to_owned();
    for (begin, end) in [("<style>", "</style>"), ("<script>", "</script>")] {
        let from = page.find(begin).expect("every page has one") + begin.len();
        let to = from + page[from..].find(end).expect("it is closed");
        page.replace_range(from..to, "...");
    }
    page
}

#[test]
fn the_demo_page() {
    let page = demo_page(&sample::report(2, 1));
    assert_self_contained(&page);
    assert_golden("demo.html", &without_style_and_script(&page));
}

#[test]
fn a_page_is_self_contained() {
    let page = demo_page(&sample::report(15, 10));
    assert_self_contained(&page);
    // The demo's full size: 15 readers over ten seconds.
    assert!(page.len() < 500_000, "{} bytes", page.len());
}

/// A table scrolls within its section. Only cards need no background below them.
#[test]
fn every_section_except_the_cards_has_a_background() {
    let page = demo_page(&sample::report(15, 10));
    let style = &page[..page.find("</style>").expect("there is one")];
    assert!(!style.contains("section:first-child") && !style.contains("gradient"));
    assert_eq!(
        page.matches("<section class=\"bare\">\n<div class=\"cards\">")
            .count(),
        1
    );
    assert_eq!(page.matches("class=\"bare\"").count(), 1);
}

/// Cards next to each other have the same height, so that a long text would leave the others empty.
#[test]
fn a_card_shows_the_first_sentence_of_a_long_text() {
    let mut report = sample::report(2, 1);
    report.policies[0].verdict = format!("It got 0.26 MB/s. {}", "Others did too. ".repeat(30));
    let page = demo_page(&report);
    assert_self_contained(&page);
    assert!(page.contains("<summary>It got 0.26 MB/s.</summary>"));
}

/// Returns the lightness of a colour, as the weighted sum of its channels.
fn lightness(style: &str, name: &str) -> u32 {
    let (_, rest) = style.split_once(&format!("--{name}:#")).expect(name);
    let channel = |at: usize| u32::from_str_radix(&rest[at..at + 2], 16).expect("a colour");
    // Green contributes most to lightness, and blue least.
    3 * channel(0) + 6 * channel(2) + channel(4)
}

/// The order of lightness is the same on light and dark backgrounds, so that a page can be read on
/// both without its legend.
#[test]
fn parts_have_the_same_order_of_lightness_on_a_dark_background() {
    let style = weir_lab::report::svg::STYLE;
    let (light, dark) = style.split_once("prefers-color-scheme:dark").expect("both");
    for (a, b) in [("queue", "served"), ("held", "waits"), ("waits", "idles")] {
        assert!(lightness(light, a) < lightness(light, b), "{a} {b}");
        assert!(lightness(dark, a) < lightness(dark, b), "{a} {b}, dark");
    }
}

/// The areas of the demo's page are parts of the time, figures and clients, none of which has the
/// colour of a policy.
#[test]
fn colours_of_policies_are_used_only_for_policies() {
    let page = demo_page(&sample::report(15, 10));
    assert!(page.contains("class=\"fill ink-") && !page.contains("class=\"fill ink0"));
    for policy in 0..6 {
        assert!(
            !page.contains(&format!("class=\"fill ink{policy}\"")),
            "{policy}"
        );
    }
}

#[test]
fn an_empty_report_is_a_page() {
    assert_self_contained(&demo_page(&DemoReport::default()));
    let mut report = sample::report(1, 1);
    for result in &mut report.policies {
        result.records.clear();
    }
    let page = demo_page(&report);
    assert_self_contained(&page);
    assert!(!page.contains("NaN"));
}

#[test]
fn unmeasured_figures_are_left_out() {
    let mut report = sample::report(2, 1);
    for record in report.policies.iter_mut().flat_map(|p| &mut p.records) {
        (record.series_mb_per_s, record.split_us, record.windows_met) = (None, None, None);
    }
    let page = demo_page(&report);
    assert!(
        !page.contains("Time of a request of the target") && !page.contains("What everyone got")
    );
    assert!(!page.contains("seconds kept"));
    assert!(page.contains("Latency of the target"));
}

#[test]
fn text_is_never_markup() {
    let evil = "</title></style></script><script>alert('1')</script>&\"\u{0}";
    let mut table = ReportTable::new([Column::text(evil)]);
    table.row([evil]);
    let card = Card {
        title: evil.into(),
        note: evil.into(),
        figure: evil.into(),
        unit: evil.into(),
        badge: evil.into(),
        tone: Tone::Good,
        gauges: vec![Gauge {
            name: evil.into(),
            value: evil.into(),
            part: f64::NAN,
            mark: Some(7.0),
        }],
        rows: vec![(evil.into(), evil.into())],
        text: evil.into(),
        ..Card::default()
    };
    let plot = Chart {
        title: evil.into(),
        description: evil.into(),
        unit: evil.into(),
        ..Chart::default()
    };
    let blocks = vec![
        PageBlock::Text(evil.into()),
        PageBlock::Heading(evil.into(), None),
        PageBlock::Cards(vec![card]),
        PageBlock::Plots(vec![plot], evil.into()),
        PageBlock::Terms(vec![(evil.into(), evil.into())]),
        PageBlock::Details(evil.into(), vec![PageBlock::Table(table)]),
    ];
    let page = HtmlPage {
        title: evil.into(),
        lead: evil.into(),
        intro: vec![evil.into()],
        sections: vec![PageSection::new(evil, blocks)],
        command: evil.into(),
    };
    let html = page.html();
    assert_self_contained(&html);
    assert!(!html.contains("alert('1')") && !html.contains('\u{0}'));
    assert_eq!(html.matches("<script>").count(), 1, "our own");
    let mut report = sample::report(2, 1);
    (report.drive, report.load) = (evil.into(), evil.into());
    let result = &mut report.policies[0];
    (result.policy, result.verdict, result.about) = (evil.into(), evil.into(), evil.into());
    result.records[1].client = evil.into();
    assert_self_contained(&demo_page(&report));
}
