//! One promise each.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use foldback_core::{
    CompactionBlock, CompactionReason, Handle, Item, ItemKind, LoopId, Metadata, Part, Recalled, SessionId,
    SummarizeOlderStrategy, Timestamp, ToolResult, Transcript, View, plan,
};
use foldback_engine::store::{
    At, Job, JobOutcome, JobState, LoopInfo, NewLoop, NewSession, Origin, Page, Repairs, Retention, Version,
    recall, redo, undo,
};
use foldback_engine::{Clock, Store, StoreError};
use foldback_store::archive::{self, ArchiveError};

use crate::archive::backed_up;
use crate::conformance::HandClock;
pub(crate) use crate::conformance::finding::{
    a_search_that_stopped_early_goes_on_where_it_stopped,
    a_search_with_words_gives_each_item_on_one_page_too, a_search_without_words_gives_each_item_on_one_page,
    chinese_and_japanese_are_found_by_their_words, rare_words_are_found_among_very_common_ones,
    search_finds_folded_and_live_content,
};
pub(crate) use crate::conformance::revising::a_revision_is_made_whole_or_not_at_all;

/// How long a job is held.
const LEASE: Duration = Duration::from_secs(60);

pub(crate) fn session() -> SessionId {
    "session".into()
}

pub(crate) fn main_loop() -> LoopId {
    "main".into()
}

/// Rounds of a question, a call, its result and an answer.
pub(crate) fn rounds(count: usize) -> Vec<Arc<Item>> {
    let round = |number: usize| {
        let call = Part::call(
            format!("c{number}"),
            "read",
            &serde_json::json!({"path": format!("src/file{number}.rs")}),
        );
        let words = format!("fn number_{number}() {{ body }}\n").repeat(30);
        [
            Item::user(format!("u{number}"), format!("Look at file {number}; never change src/lexer.rs.")),
            Item::assistant(format!("a{number}"), vec![call]),
            Item::tool(format!("t{number}"), ToolResult::text(format!("c{number}"), words)),
            Item::assistant(format!("e{number}"), vec![Part::text(format!("it is file {number}"))]),
        ]
    };
    (0..count).flat_map(round).map(Arc::new).collect()
}

/// A session with one loop and these items.
pub(crate) async fn begun(store: &dyn Store, items: &[Arc<Item>]) -> Version {
    let version = store.create(&NewSession::new(session(), main_loop())).await.unwrap();
    store.append(&At { session: &session(), loop_id: &main_loop(), version }, items).await.unwrap()
}

/// Folds all but the newest items of what is stored.
pub(crate) async fn fold(
    store: &dyn Store,
    version: Version,
    recent: usize,
) -> (Version, Arc<CompactionBlock>) {
    let blocks = store.blocks(&session(), &main_loop()).await.unwrap();
    let transcript: Transcript =
        store.items(&session(), &main_loop(), 0..usize::MAX).await.unwrap().into_iter().collect();
    let in_force =
        blocks.iter().filter(|block| block.is_in_force).map(|block| CompactionBlock::clone(&block.block));
    let view = View::through(&transcript, &in_force.collect()).unwrap();
    let block = plan(&view, &SummarizeOlderStrategy::new(recent), None).unwrap().apply_floor().block;
    let at = At { session: &session(), loop_id: &main_loop(), version };
    (store.commit(&at, &[Arc::clone(&block)]).await.unwrap(), block)
}

pub(crate) fn folded_handle(block: &CompactionBlock) -> Handle {
    let mut handles = block.edits.iter().filter_map(|edit| match edit {
        foldback_core::Edit::Fold(fold) => Some(fold.handle.clone()),
        foldback_core::Edit::Drop(_) | foldback_core::Edit::Rewrite(_) => None,
    });
    handles.next_back().expect("it folds")
}

pub(crate) async fn a_session_that_is_not_there_is_a_typed_error(store: &dyn Store, _: &HandClock) {
    let missing = |what: &'static str| Err(StoreError::NotFound { what, id: "session".to_owned() });
    assert_eq!(store.session(&session()).await, missing("session"));
    assert_eq!(store.delete(&session()).await, missing("session").map(|_| ()));
    begun(store, &[]).await;
    let answer = store.head(&session(), &"other".into()).await;
    assert_eq!(answer, Err(StoreError::NotFound { what: "loop", id: "other".to_owned() }));
    let again = store.create(&NewSession::new(session(), main_loop())).await;
    assert_eq!(again, Err(StoreError::Exists { what: "session", id: "session".to_owned() }));
    let handle = Handle::parse("@0000000000").unwrap();
    let answer = store.locate(&session(), &main_loop(), &handle).await;
    assert!(matches!(answer, Err(StoreError::NotFound { .. })), "{answer:?}");
}

pub(crate) async fn of_two_writers_one_wins_and_nothing_is_lost(store: &dyn Store, _: &HandClock) {
    let version = begun(store, &rounds(1)).await;
    let (session, loop_id) = (session(), main_loop());
    let write = |name: &'static str| {
        let (session, loop_id) = (&session, &loop_id);
        async move {
            let mut seen = version;
            // Only as many conflicts as there are other writes.
            for _ in 0..100 {
                let at = At { session, loop_id, version: seen };
                match store.append(&at, &[Arc::new(Item::user(name, name))]).await {
                    Ok(_) => return,
                    Err(StoreError::Conflict { actual, .. }) => seen = actual,
                    Err(error) => panic!("{error}"),
                }
            }
            panic!("{name} lost every race");
        }
    };
    let names = ["one", "two", "three", "four", "five"];
    futures_util::future::join_all(names.map(write)).await;
    let items = store.items(&session, &loop_id, 4..usize::MAX).await.unwrap();
    let mut written: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
    written.sort_unstable();
    assert_eq!(written, ["five", "four", "one", "three", "two"]);
}

pub(crate) async fn undo_after_undo_restores_every_earlier_view(store: &dyn Store, _: &HandClock) {
    let mut version = begun(store, &rounds(6)).await;
    let (session, loop_id) = (session(), main_loop());
    let mut views = vec![store.head(&session, &loop_id).await.unwrap().context()];
    for recent in [16, 9, 5] {
        version = fold(store, version, recent).await.0;
        views.push(store.head(&session, &loop_id).await.unwrap().context());
    }
    assert!(views.windows(2).all(|pair| pair[0] != pair[1]), "every compaction changes something");
    for view in views.iter().rev().skip(1) {
        version = undo(store, &At { session: &session, loop_id: &loop_id, version }, &Transcript::default())
            .await
            .unwrap();
        assert_eq!(store.head(&session, &loop_id).await.unwrap().context(), *view);
    }
    for view in views.iter().skip(1) {
        version = redo(store, &At { session: &session, loop_id: &loop_id, version }).await.unwrap();
        assert_eq!(store.head(&session, &loop_id).await.unwrap().context(), *view);
    }
}

pub(crate) async fn a_compaction_of_several_blocks_is_undone_in_one_step(store: &dyn Store, _: &HandClock) {
    let version = begun(store, &rounds(8)).await;
    let (session, loop_id) = (session(), main_loop());
    let (version, _) = fold(store, version, 24).await;
    let before = store.head(&session, &loop_id).await.unwrap().context();
    // Two blocks made one after the other, then taken off and committed together.
    let (version, first) = fold(store, version, 16).await;
    let (version, second) = fold(store, version, 8).await;
    let after = store.head(&session, &loop_id).await.unwrap().context();
    let at = |version| At { session: &session, loop_id: &loop_id, version };
    let version = undo(store, &at(version), &Transcript::default()).await.unwrap();
    let version = undo(store, &at(version), &Transcript::default()).await.unwrap();
    assert_eq!(store.head(&session, &loop_id).await.unwrap().context(), before);
    let nothing = store.commit(&at(version), &[]).await;
    assert!(matches!(nothing, Err(StoreError::InvalidBlock { .. })), "{nothing:?}");
    let version = store.commit(&at(version), &CompactionBlock::joined(vec![first, second])).await.unwrap();
    assert_eq!(store.head(&session, &loop_id).await.unwrap().context(), after);
    let early = NewLoop {
        id: "early".into(),
        origin: Origin::Branch { parent: loop_id.clone(), item_count: 18 },
        metadata: Metadata::new(),
    };
    let version = store.begin_loop(&session, version, &early).await.unwrap();
    let branched = store.head(&session, &"early".into()).await.unwrap();
    assert_eq!(branched.stack.top.map(|top| top.0), Some(1), "half a compaction is not in force");
    let version = undo(store, &at(version), &Transcript::default()).await.unwrap();
    assert_eq!(store.head(&session, &loop_id).await.unwrap().context(), before, "in one step");
    redo(store, &at(version)).await.unwrap();
    assert_eq!(store.head(&session, &loop_id).await.unwrap().context(), after, "in one step");
    let archived = backed_up(store).await;
    store.delete(&session).await.unwrap();
    archive::restore(store, Cursor::new(archived)).await.unwrap();
    let version = store.session(&session).await.unwrap().version;
    undo(store, &at(version), &Transcript::default()).await.unwrap();
    assert_eq!(store.head(&session, &loop_id).await.unwrap().context(), before, "after a restore too");
}

pub(crate) async fn a_branch_shares_what_came_before_and_nothing_after(store: &dyn Store, _: &HandClock) {
    let version = begun(store, &rounds(4)).await;
    let (version, _) = fold(store, version, 8).await;
    let session = session();
    let branch = |id: &str, item_count| NewLoop {
        id: id.into(),
        origin: Origin::Branch { parent: main_loop(), item_count },
        metadata: Metadata::new(),
    };
    let beyond = store.begin_loop(&session, version, &branch("beyond", 17)).await;
    assert_eq!(beyond, Err(StoreError::OutOfRange { what: "item", index: 17, count: 16 }));
    let version = store.begin_loop(&session, version, &branch("after-the-fold", 12)).await.unwrap();
    let version = store.begin_loop(&session, version, &branch("before-the-fold", 4)).await.unwrap();
    let late: LoopId = "after-the-fold".into();
    let at = At { session: &session, loop_id: &late, version };
    store.append(&at, &[Arc::new(Item::user("new", "another way"))]).await.unwrap();
    let head = store.head(&session, &late).await.unwrap();
    assert_eq!(head.item_count, 13);
    assert!(head.stack.top.is_some(), "the fold reaches no further than the branch");
    let early = store.head(&session, &"before-the-fold".into()).await.unwrap();
    assert_eq!((early.item_count, early.stack.top), (4, None));
    assert_eq!(early.context(), rounds(1));
    assert_eq!(store.head(&session, &main_loop()).await.unwrap().item_count, 16);
    assert_eq!(store.session(&session).await.unwrap().current_loop, "before-the-fold".into());
}

/// A second loop behind the first, which is the current one then.
async fn second_loop(store: &dyn Store, version: Version) -> (Version, LoopId) {
    let second: LoopId = "second".into();
    let origin = Origin::After(main_loop());
    let begun = NewLoop { id: second.clone(), origin, metadata: Metadata::new() };
    (store.begin_loop(&session(), version, &begun).await.unwrap(), second)
}

pub(crate) async fn switching_loops_changes_which_is_current_and_nothing_else(
    store: &dyn Store,
    _: &HandClock,
) {
    let version = begun(store, &rounds(1)).await;
    let (version, second) = second_loop(store, version).await;
    let (session, first) = (session(), main_loop());
    let loops = store.loops(&session).await.unwrap();
    assert_eq!(store.session(&session).await.unwrap().current_loop, second);
    let at = At { session: &session, loop_id: &first, version };
    let switched = store.switch_loop(&at).await.unwrap();
    assert_eq!(switched, Version(version.0 + 1));
    let info = store.session(&session).await.unwrap();
    assert_eq!((info.version, &info.current_loop), (switched, &first));
    assert_eq!(store.loops(&session).await.unwrap(), loops);
    assert_eq!(store.head(&session, &first).await.unwrap().context(), rounds(1));
    let stale = store.switch_loop(&At { loop_id: &second, ..at }).await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    let nowhere = store.switch_loop(&At { loop_id: &"other".into(), version: switched, ..at }).await;
    assert_eq!(nowhere, Err(StoreError::NotFound { what: "loop", id: "other".to_owned() }));
    assert_eq!(store.session(&session).await, Ok(info), "what was refused changed nothing");
}

pub(crate) async fn the_notes_of_a_loop_are_replaced_and_those_of_others_stay(
    store: &dyn Store,
    _: &HandClock,
) {
    let version = begun(store, &rounds(1)).await;
    let (version, second) = second_loop(store, version).await;
    let (session, first) = (session(), main_loop());
    let notes = |name: &str| Metadata::from_iter([(name.to_owned(), "noted".into())]);
    let own = notes("of the session");
    let version = store.annotate(&session, version, &own).await.unwrap();
    let noted = async || -> Vec<Metadata> {
        store.loops(&session).await.unwrap().into_iter().map(|info| info.metadata).collect()
    };
    let at = At { session: &session, loop_id: &first, version };
    let annotated = store.annotate_loop(&at, &notes("old")).await.unwrap();
    assert_eq!(annotated, Version(version.0 + 1));
    let version = store.annotate_loop(&At { version: annotated, ..at }, &notes("new")).await.unwrap();
    assert_eq!(noted().await, [notes("new"), Metadata::new()]);
    let stale = store.annotate_loop(&At { loop_id: &second, ..at }, &notes("late")).await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    let nowhere = store.annotate_loop(&At { loop_id: &"other".into(), version, ..at }, &notes("lost")).await;
    assert_eq!(nowhere, Err(StoreError::NotFound { what: "loop", id: "other".to_owned() }));
    assert_eq!(noted().await, [notes("new"), Metadata::new()]);
    let info = store.session(&session).await.unwrap();
    assert_eq!((info.version, info.current_loop, info.metadata), (version, second, own));
}

pub(crate) async fn a_fold_is_recalled_as_it_was_recorded(store: &dyn Store, _: &HandClock) {
    let items = rounds(5);
    let version = begun(store, &items).await;
    let (version, block) = fold(store, version, 8).await;
    let (session, loop_id) = (session(), main_loop());
    let handle = folded_handle(&block);
    let recorded = Recalled::Items(items[..12].to_vec());
    assert_eq!(recall(store, &session, &loop_id, &handle).await, Ok(recorded.clone()));
    undo(store, &At { session: &session, loop_id: &loop_id, version }, &Transcript::default()).await.unwrap();
    assert_eq!(recall(store, &session, &loop_id, &handle).await, Ok(recorded), "after undo");
    let unit = Handle::of_item(5, &items[5].id);
    let recalled = recall(store, &session, &loop_id, &unit).await;
    assert_eq!(recalled, Ok(Recalled::Items(items[5..7].to_vec())), "the call and its result");
}

pub(crate) async fn a_call_is_recalled_with_a_result_that_much_came_before(store: &dyn Store, _: &HandClock) {
    let happened = (0..200).map(|n| Item::text(format!("n{n}"), ItemKind::Notification, format!("job {n}")));
    let call = Item::assistant("a", vec![Part::call("c", "watch", &serde_json::json!({}))]);
    let result = Item::tool("t", ToolResult::text("c", "all jobs have ended"));
    let items = [Item::user("u", "go"), call].into_iter().chain(happened).chain([result]);
    let items: Vec<Arc<Item>> = items.map(Arc::new).collect();
    begun(store, &items).await;
    let recalled = recall(store, &session(), &main_loop(), &Handle::of_item(1, &items[1].id)).await;
    assert_eq!(recalled, Ok(Recalled::Items(vec![Arc::clone(&items[1]), Arc::clone(&items[202])])));
}

pub(crate) async fn an_original_file_comes_back_byte_for_byte(store: &dyn Store, _: &HandClock) {
    let version = begun(store, &[]).await;
    let (session, loop_id) = (session(), main_loop());
    let bytes: Vec<u8> =
        (0..700_000u32).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect();
    let (early, late) = bytes.split_at(1_000_001);
    let at = At { session: &session, loop_id: &loop_id, version };
    let version = store.append_original(&at, 0, early).await.unwrap();
    let again = store.append_original(&At { version, ..at }, 0, early).await;
    assert!(matches!(again, Err(StoreError::OutOfRange { .. })), "{again:?}");
    store.append_original(&At { version, ..at }, early.len() as u64, late).await.unwrap();
    let mut read = Vec::new();
    loop {
        let piece = store.original(&session, &loop_id, read.len() as u64).await.unwrap();
        if piece.is_empty() {
            break;
        }
        read.extend(piece);
    }
    assert!(read == bytes, "{} of {} bytes", read.len(), bytes.len());
    let middle = store.original(&session, &loop_id, 300_000).await.unwrap();
    assert!(bytes[300_000..].starts_with(&middle) && !middle.is_empty());
}

pub(crate) async fn a_deleted_session_is_gone_and_its_handles_are_errors(store: &dyn Store, _: &HandClock) {
    let version = begun(store, &rounds(4)).await;
    let (_, block) = fold(store, version, 4).await;
    store.index(100).await.unwrap();
    store.delete(&session()).await.unwrap();
    let gone = store.locate(&session(), &main_loop(), &folded_handle(&block)).await;
    assert!(matches!(gone, Err(StoreError::NotFound { what: "session", .. })), "{gone:?}");
    assert!(store.gc(&Retention::default()).await.unwrap().body_count > 0);
    let report = store.verify(Repairs::None).await.unwrap();
    assert_eq!((report.is_clean(), report.body_count), (true, 0), "{report:?}");
    begun(store, &rounds(2)).await;
    assert_eq!(store.head(&session(), &main_loop()).await.unwrap().context(), rounds(2));
}

pub(crate) async fn sessions_are_listed_by_their_last_change(store: &dyn Store, clock: &HandClock) {
    for name in ["one", "two", "three"] {
        clock.advance(10);
        store.create(&NewSession::new(name, main_loop())).await.unwrap();
    }
    clock.advance(10);
    let notes = Metadata::from_iter([("title".to_owned(), "the first".into())]);
    store.annotate(&"one".into(), Version(1), &notes).await.unwrap();
    let listed = store.sessions(&Page::first(10)).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(names, ["one", "three", "two"]);
    assert_eq!(listed[0].metadata, notes);
    let rest = store.sessions(&Page { skip: 2, limit: 10 }).await.unwrap();
    assert_eq!(rest.len(), 1);
}

fn job() -> Job {
    Job { session: session(), loop_id: main_loop(), reason: CompactionReason::Manual }
}

pub(crate) async fn a_session_is_compacted_by_one_worker_at_a_time(store: &dyn Store, _: &HandClock) {
    begun(store, &[]).await;
    store.enqueue(&job()).await.unwrap();
    store.enqueue(&job()).await.unwrap();
    let lease = store.claim("one", LEASE).await.unwrap().expect("a job waits");
    assert_eq!((lease.job.clone(), lease.attempt), (job(), 1));
    store.enqueue(&job()).await.unwrap();
    assert_eq!(store.claim("two", LEASE).await.unwrap(), None, "its session is being compacted");
    store.renew(&lease, LEASE).await.unwrap();
    store.finish(&lease, &JobOutcome::Done).await.unwrap();
    let again = store.claim("two", LEASE).await.unwrap().expect("it was asked for while it ran");
    store.finish(&again, &JobOutcome::Done).await.unwrap();
    assert_eq!(store.claim("two", LEASE).await.unwrap(), None);
    assert_eq!(store.jobs().await.unwrap(), []);
}

pub(crate) async fn a_lost_lease_is_noticed(store: &dyn Store, _: &HandClock) {
    begun(store, &[]).await;
    store.enqueue(&job()).await.unwrap();
    let lost = store.claim("one", Duration::ZERO).await.unwrap().expect("a job waits");
    let taken = store.claim("two", LEASE).await.unwrap().expect("the lease has ended");
    assert_eq!(taken.attempt, 2);
    let error = StoreError::LeaseLost { session: session() };
    assert_eq!(store.renew(&lost, LEASE).await, Err(error.clone()));
    assert_eq!(store.finish(&lost, &JobOutcome::Done).await, Err(error.clone()));
    store.finish(&taken, &JobOutcome::Done).await.unwrap();
    assert_eq!(store.finish(&taken, &JobOutcome::Done).await, Err(error));
}

pub(crate) async fn a_job_that_fails_too_often_is_kept_as_failed(store: &dyn Store, _: &HandClock) {
    begun(store, &[]).await;
    store.enqueue(&job()).await.unwrap();
    for attempt in 1..=JobOutcome::ATTEMPTS_MAX {
        let lease = store.claim("one", LEASE).await.unwrap().expect("it is tried again");
        assert_eq!(lease.attempt, attempt);
        store.finish(&lease, &JobOutcome::Retry { why: "no model".to_owned() }).await.unwrap();
    }
    assert_eq!(store.claim("one", LEASE).await.unwrap(), None);
    let jobs = store.jobs().await.unwrap();
    assert_eq!((jobs[0].state, jobs[0].failure.as_deref()), (JobState::Failed, Some("no model")));
    store.enqueue(&job()).await.unwrap();
    assert_eq!(store.claim("one", LEASE).await.unwrap().map(|lease| lease.attempt), Some(1));
}

pub(crate) async fn gc_removes_old_sessions_and_never_a_live_one(store: &dyn Store, _: &HandClock) {
    for name in ["old", "kept", "running"] {
        store.create(&NewSession::new(name, main_loop())).await.unwrap();
        let at = At { session: &name.into(), loop_id: &main_loop(), version: Version(1) };
        store.append(&at, &[Arc::new(Item::user("u", format!("only in {name}")))]).await.unwrap();
    }
    store.enqueue(&Job { session: "running".into(), ..job() }).await.unwrap();
    store.claim("one", LEASE).await.unwrap().expect("a job waits");
    let nothing =
        store.gc(&Retention { changed_before: Some(Timestamp(i64::MIN)), keep: Vec::new() }).await.unwrap();
    assert_eq!((nothing.sessions.len(), nothing.body_count), (0, 0));
    let everything = Retention { changed_before: Some(Timestamp(i64::MAX)), keep: vec!["kept".into()] };
    let report = store.gc(&everything).await.unwrap();
    assert_eq!((report.sessions, report.body_count), (vec!["old".into()], 1));
    for name in ["kept", "running"] {
        let items = store.items(&name.into(), &main_loop(), 0..9).await.unwrap();
        assert_eq!(items, [Arc::new(Item::user("u", format!("only in {name}")))]);
    }
}

pub(crate) async fn gc_that_moves_bodies_together_changes_no_item(store: &dyn Store, _: &HandClock) {
    let mut version = begun(store, &[]).await;
    let (session, loop_id) = (session(), main_loop());
    let items = rounds(30);
    for item in &items {
        let at = At { session: &session, loop_id: &loop_id, version };
        version = store.append(&at, std::slice::from_ref(item)).await.unwrap();
    }
    let report = store.gc(&Retention::default()).await.unwrap();
    assert_eq!((report.packed_count, report.body_count), (items.len(), 0));
    assert_eq!(store.items(&session, &loop_id, 0..usize::MAX).await.unwrap(), items);
    assert!(store.verify(Repairs::None).await.unwrap().is_clean());
}

pub(crate) async fn a_store_restored_from_a_backup_is_the_same(store: &dyn Store, clock: &HandClock) {
    clock.advance(1_000);
    let version = begun(store, &rounds(6)).await;
    clock.advance(1_000);
    let (version, _) = fold(store, version, 12).await;
    let (version, _) = fold(store, version, 6).await;
    let (session, loop_id) = (session(), main_loop());
    let at = At { session: &session, loop_id: &loop_id, version };
    let version = undo(store, &at, &Transcript::default()).await.unwrap();
    let version = store.append_original(&At { version, ..at }, 0, b"\x00\xff bytes \n").await.unwrap();
    let begun = NewLoop {
        id: "branch".into(),
        origin: Origin::Branch { parent: loop_id.clone(), item_count: 20 },
        metadata: Metadata::from_iter([("why".to_owned(), "another way".into())]),
    };
    let version = store.begin_loop(&session, version, &begun).await.unwrap();
    let branch: LoopId = "branch".into();
    store.append(&At { session: &session, loop_id: &branch, version }, &rounds(1)).await.unwrap();
    let archived = backed_up(store).await;
    let mut before = Vec::new();
    for id in [&loop_id, &branch] {
        before.push((store.head(&session, id).await.unwrap(), store.blocks(&session, id).await.unwrap()));
    }
    let (info, loops) = (store.session(&session).await.unwrap(), store.loops(&session).await.unwrap());
    store.delete(&session).await.unwrap();
    clock.advance(1_000);
    let contents = archive::restore(store, Cursor::new(&archived)).await.unwrap();
    assert_eq!((contents.session_count, contents.loop_count, contents.item_count), (1, 2, 28));
    for (id, (head, blocks)) in [&loop_id, &branch].into_iter().zip(before) {
        let restored = store.head(&session, id).await.unwrap();
        assert_eq!((restored.context(), restored.stack), (head.context(), head.stack));
        let numbers = |blocks: &[foldback_engine::store::StoredBlock]| {
            blocks.iter().map(|block| (block.number, block.parent, block.is_in_force)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&store.blocks(&session, id).await.unwrap()), numbers(&blocks));
    }
    let origins = |loops: &[foldback_engine::store::LoopInfo]| {
        loops
            .iter()
            .map(|info| (info.id.clone(), info.origin.clone(), info.metadata.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(origins(&store.loops(&session).await.unwrap()), origins(&loops));
    assert_eq!(store.original(&session, &loop_id, 0).await.unwrap(), b"\x00\xff bytes \n");
    let again = archive::restore(store, Cursor::new(&archived)).await;
    assert!(matches!(again, Err(ArchiveError::Exists { .. })), "{again:?}");
    let cut_off = archive::restore(store, Cursor::new(&archived[..archived.len() / 2])).await;
    assert!(matches!(cut_off, Err(ArchiveError::Damaged { .. })), "{cut_off:?}");
    let again = store.session(&session).await.unwrap();
    assert_eq!((again.created_at, again.updated_at), (info.created_at, info.updated_at));
    assert!(info.created_at < info.updated_at, "{info:?}");
    let begun = |loops: &[LoopInfo]| loops.iter().map(|info| info.created_at).collect::<Vec<_>>();
    assert_eq!(begun(&store.loops(&session).await.unwrap()), begun(&loops));
    // What is settled later brings no other time, and the next change counts again.
    store.verify(Repairs::Derived).await.unwrap();
    store.gc(&Retention::default()).await.unwrap();
    assert_eq!(store.session(&session).await.unwrap().updated_at, info.updated_at);
    let at = At { session: &session, loop_id: &branch, version: again.version };
    store.append(&at, &rounds(1)).await.unwrap();
    assert_eq!(store.session(&session).await.unwrap().updated_at, clock.now());
}
