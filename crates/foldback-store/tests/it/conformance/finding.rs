//! What every store promises of searching.

use std::sync::Arc;

use foldback_core::{FactKind, Item, ItemKind, Recalled};
use foldback_engine::store::{At, SearchHit, SearchQuery, recall};
use foldback_engine::{Store, StoreError};

use crate::conformance::HandClock;
use crate::conformance::cases::{begun, fold, main_loop, rounds, session};

/// Pages that a test turns, at most.
const PAGES_MAX: usize = 2_000;

pub(crate) async fn chinese_and_japanese_are_found_by_their_words(store: &dyn Store, _: &HandClock) {
    let said = [
        ("zh", "会话压缩之后仍然有效"),
        ("ja", "セッションを圧縮しても有効です"),
        ("mixed", "Run cargo test，然后压缩 session 3"),
        ("en", "nothing of the kind"),
    ];
    let items: Vec<Arc<Item>> = said.iter().map(|(id, text)| Arc::new(Item::user(*id, *text))).collect();
    begun(store, &items).await;
    let finds = [("压缩", vec!["mixed", "zh"]), ("圧縮", vec!["ja"]), ("セッション", vec!["ja"])];
    let more = [("\"压缩 session\"", vec!["mixed"]), ("缩压", vec![]), ("有効 圧縮", vec!["ja"])];
    for (text, expected) in finds.into_iter().chain(more) {
        let found = store.search(&SearchQuery::text(text)).await.unwrap();
        let mut ids: Vec<&str> = found.hits.iter().map(|hit| hit.item_id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!((ids, found.is_complete), (expected, true), "{text}");
    }
}

pub(crate) async fn rare_words_are_found_among_very_common_ones(store: &dyn Store, _: &HandClock) {
    let said = |number: usize| match number {
        700 => "the usual words of every day with a zeppelin in them".to_owned(),
        _ => format!("the usual words of every day, number {number}"),
    };
    let items: Vec<Arc<Item>> =
        (0..3_000).map(|number| Arc::new(Item::user(format!("u{number}"), said(number)))).collect();
    begun(store, &items).await;
    while store.index(1_000).await.unwrap() > 0 {}
    let search = |text: &'static str| async move { store.search(&SearchQuery::text(text)).await.unwrap() };
    for text in ["zeppelin", "\"day with a zeppelin\"", "usual words zeppelin day"] {
        let found = search(text).await;
        let ids: Vec<&str> = found.hits.iter().map(|hit| hit.item_id.as_str()).collect();
        assert_eq!((ids, found.is_complete), (vec!["u700"], true), "{text}");
    }
    let common = search("\"words of every\"").await;
    assert_eq!((common.hits.len(), common.is_complete), (SearchQuery::LIMIT_DEFAULT, false));
    assert_eq!(common.hits[0].item_id.as_str(), "u2999", "the newest of those that fit equally well");
    assert_eq!(search("\"every words\"").await.hits, [], "in this order");
    assert_eq!(search("\"a zeppelin day\"").await.hits, [], "in this order");
}

pub(crate) async fn a_search_that_stopped_early_goes_on_where_it_stopped(store: &dyn Store, _: &HandClock) {
    let said = |number: usize| match number {
        0 => format!("a needle below {}the last words", "straw ".repeat(10_000)),
        _ => format!("item {number}: {}", "straw ".repeat(80_000)),
    };
    let items: Vec<Arc<Item>> =
        (0..30).map(|number| Arc::new(Item::user(format!("u{number}"), said(number)))).collect();
    begun(store, &items).await;
    while store.index(1_000).await.unwrap() > 0 {}
    let needle = SearchQuery { regex: Some("ne+dle".to_owned()), ..SearchQuery::default() };
    let in_session = SearchQuery { session: Some(session()), ..needle.clone() };
    let phrase = SearchQuery::text("\"needle below straw\"");
    // Behind more words, and more often one word, than an index may keep the places of.
    let last = SearchQuery::text("\"straw the last words\"");
    for (query, rounds) in [(needle, 2..9), (in_session, 2..9), (phrase, 1..2), (last, 1..2)] {
        let (mut before, mut hits, mut asked) = (None, Vec::new(), 0);
        loop {
            let answer = store.search(&SearchQuery { before, ..query.clone() }).await.unwrap();
            hits.extend(answer.hits);
            asked += 1;
            assert_eq!(answer.is_complete, answer.next.is_none());
            assert!(asked < PAGES_MAX, "it goes on");
            before = answer.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(hits.iter().map(|hit| hit.item_id.as_str()).collect::<Vec<_>>(), ["u0"], "{query:?}");
        assert!(rounds.contains(&asked), "{asked} for {query:?}");
    }
}

pub(crate) async fn a_search_without_words_gives_each_item_on_one_page(store: &dyn Store, _: &HandClock) {
    let items: Vec<Arc<Item>> = (0..50)
        .map(|number| Arc::new(Item::user(format!("u{number}"), format!("number {number}"))))
        .collect();
    begun(store, &items).await;
    while store.index(1_000).await.unwrap() > 0 {}
    let every = SearchQuery { regex: Some("number [0-9]+".to_owned()), limit: 7, ..SearchQuery::default() };
    let (mut before, mut found) = (None, Vec::new());
    for _ in 0..=items.len() {
        let answer = store.search(&SearchQuery { before, ..every.clone() }).await.unwrap();
        assert!(answer.hits.len() <= 7 && answer.hits.iter().all(|hit| hit.score.to_bits() == 0));
        found.extend(answer.hits.into_iter().map(|hit| hit.item_id.to_string()));
        before = answer.next;
        if before.is_none() {
            break;
        }
    }
    let newest_first: Vec<String> = (0..50).rev().map(|number| format!("u{number}")).collect();
    assert_eq!(found, newest_first);
}

/// All hits of a query, page by page.
async fn paged(store: &dyn Store, query: &SearchQuery) -> Vec<SearchHit> {
    let (mut before, mut found) = (None, Vec::new());
    for _ in 0..PAGES_MAX {
        let answer = store.search(&SearchQuery { before, ..query.clone() }).await.unwrap();
        assert!(answer.hits.len() <= query.limit && answer.is_complete == answer.next.is_none());
        assert!(answer.hits.is_sorted_by(|one, other| one.score >= other.score), "the best first");
        found.extend(answer.hits);
        before = answer.next;
        if before.is_none() {
            return found;
        }
    }
    panic!("{query:?} has more than {PAGES_MAX} pages");
}

pub(crate) async fn a_search_with_words_gives_each_item_on_one_page_too(store: &dyn Store, _: &HandClock) {
    // Shorter and longer ones in turn, and some with a word more than once, so that no two pages are of
    // items next to each other.
    let said = |number: usize| {
        let words = "marble ".repeat(1 + number * 5 % 3);
        let rare = if number.is_multiple_of(12) { "granite ".repeat(1 + number % 5) } else { String::new() };
        format!("number {number} of the {words}{rare}{}", "filler ".repeat(number * 7 % 11))
    };
    let items: Vec<Arc<Item>> =
        (0..700).map(|number| Arc::new(Item::user(format!("u{number}"), said(number)))).collect();
    begun(store, &items).await;
    while store.index(1_000).await.unwrap() > 0 {}
    let words = [SearchQuery::text("marble"), SearchQuery::text("\"of the marble\"")];
    let filtered =
        SearchQuery { regex: Some("number [0-9]*[05] ".to_owned()), ..SearchQuery::text("marble") };
    let regex = SearchQuery { regex: Some("mar.le".to_owned()), ..SearchQuery::default() };
    let in_session = SearchQuery { session: Some(session()), ..SearchQuery::text("marble number") };
    for query in words.into_iter().chain([filtered, regex, in_session]) {
        let whole = store.search(&SearchQuery { limit: 1_000, ..query.clone() }).await.unwrap();
        assert!(whole.is_complete && whole.hits.len() >= 140, "{} for {query:?}", whole.hits.len());
        for limit in [7, 60, 150, 699] {
            let mut found = paged(store, &SearchQuery { limit, ..query.clone() }).await;
            let mut expected = whole.hits.clone();
            found.sort_by_key(|hit| hit.item_index);
            expected.sort_by_key(|hit| hit.item_index);
            let places = |hits: &[SearchHit]| hits.iter().map(|hit| hit.item_index).collect::<Vec<_>>();
            assert_eq!(places(&found), places(&expected), "{limit} at a time for {query:?}");
            assert!(found == expected, "{limit} at a time for {query:?}");
        }
    }
    // Where one page is chosen from all of them, the pages are one ranking.
    let few = SearchQuery::text("granite");
    let whole = store.search(&SearchQuery { limit: 1_000, ..few.clone() }).await.unwrap().hits;
    assert_eq!(whole.len(), 59);
    assert!(paged(store, &SearchQuery { limit: 9, ..few }).await == whole, "in the same order");
}

pub(crate) async fn search_finds_folded_and_live_content(store: &dyn Store, _: &HandClock) {
    let version = begun(store, &rounds(6)).await;
    fold(store, version, 8).await;
    assert_eq!(store.index(10).await, Ok(14), "of 24 items");
    assert_eq!(store.index(100).await, Ok(0));
    let size = store.size().await.unwrap();
    assert!(size.data_bytes > 0 && size.search_bytes > 0, "{size:?}");
    let ids = |answer: Vec<foldback_engine::store::SearchHit>| {
        let mut ids: Vec<String> = answer.iter().map(|hit| hit.item_id.to_string()).collect();
        ids.sort();
        ids
    };
    let answer = store.search(&SearchQuery::text("\"is file\" 1")).await.unwrap();
    assert!(answer.is_complete);
    assert_eq!(ids(answer.hits.clone()), ["e1"]);
    let hit = &answer.hits[0];
    assert_eq!((hit.item_index, hit.is_visible, hit.kind), (7, false, ItemKind::Assistant));
    assert_eq!(
        recall(store, &session(), &main_loop(), &hit.handle)
            .await
            .map(|found| matches!(found, Recalled::Items(_))),
        Ok(true)
    );
    let live = store.search(&SearchQuery::text("number_5")).await.unwrap();
    assert_eq!((ids(live.hits.clone()), live.hits[0].is_visible), (vec!["t5".to_owned()], true));
    assert!(live.hits[0].excerpt.contains("fn number_5()"));
    let regex = SearchQuery { regex: Some(r"file [45]\b".to_owned()), ..SearchQuery::default() };
    assert_eq!(ids(store.search(&regex).await.unwrap().hits), ["e4", "e5", "u4", "u5"]);
    let rules = SearchQuery { fact_kind: Some(FactKind::Constraint), limit: 2, ..SearchQuery::default() };
    let rules = store.search(&rules).await.unwrap();
    assert_eq!((rules.hits.len(), rules.is_complete), (2, false));
    let version = store.session(&session()).await.unwrap().version;
    let at = At { session: &session(), loop_id: &main_loop(), version };
    store.append(&at, &[Arc::new(Item::user("new", "a zebra, just now"))]).await.unwrap();
    assert_eq!(
        ids(store.search(&SearchQuery::text("zebra")).await.unwrap().hits),
        ["new"],
        "not asked to index"
    );
    let file = SearchQuery { file: Some("src/file3.rs".to_owned()), ..SearchQuery::default() };
    assert_eq!(ids(store.search(&file).await.unwrap().hits), ["a3"]);
    let elsewhere = SearchQuery { session: Some("other".into()), ..SearchQuery::text("file") };
    assert!(matches!(store.search(&elsewhere).await, Err(StoreError::NotFound { .. })));
    let hostile = store.search(&SearchQuery::text("a\" OR * NEAR( -- ; DROP \\' & | ! <->")).await.unwrap();
    assert_eq!(hostile.hits, []);
}
