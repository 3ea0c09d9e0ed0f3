//! Backups hold whatever was recorded, and give back all of it or an error.

use std::io::Cursor;
use std::sync::Arc;

use foldback_core::{
    Item, Json, LoopId, Metadata, Part, SessionId, StrategyConfig, ToolInput, Transcript, View, plan,
};
use foldback_engine::store::{At, NewLoop, NewSession, Origin, Page, Repairs, StoredBlock, undo};
use foldback_engine::{Store, StoreError};
use foldback_store::SqliteStore;
use foldback_store::archive::{self, ArchiveError, Contents};
use foldback_testkit::{recipe, strategies};
use proptest::prelude::{Just, Strategy as Generator, any, prop, prop_oneof, proptest};
use tempfile::TempDir;

use crate::conformance::cases::{begun, fold, main_loop, rounds, session};
use crate::conformance::sqlite::runtime;

async fn store(folder: &TempDir, name: &str) -> SqliteStore {
    SqliteStore::open(folder.path().join(name)).await.unwrap()
}

pub(crate) async fn backed_up(store: &dyn Store) -> Vec<u8> {
    let mut archive = Cursor::new(Vec::new());
    archive::backup(store, &mut archive).await.unwrap();
    archive.into_inner()
}

async fn restored(store: &dyn Store, archive: &[u8]) -> Result<Contents, ArchiveError> {
    archive::restore(store, Cursor::new(archive)).await
}

/// JSON that says the same on one line would be another item.
fn input() -> impl Generator<Value = ToolInput> {
    let text = prop::collection::vec(
        prop_oneof![
            Just("\n"),
            Just("\r\n"),
            Just("\u{1}"),
            Just("\u{1b}[31m"),
            Just("\u{7f}"),
            Just("\u{85}"),
            Just("\u{2028}"),
            Just("\u{2029}"),
            Just("\u{feff}"),
            Just("\""),
            Just("\\"),
            Just("{"),
            Just("]"),
            Just("word"),
            Just("字"),
        ],
        0..8,
    );
    let text = text.prop_map(|pieces| pieces.concat());
    let space = prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n\t"), Just(" "), Just("")];
    prop_oneof![
        text.clone().prop_map(|text| ToolInput::Text(text.into())),
        text.clone().prop_map(|text| {
            let value = serde_json::json!({"path": "a", "lines": [text, 1], "deep": {"empty": {}}});
            ToolInput::Json(Json::parse(serde_json::to_string_pretty(&value).unwrap()).unwrap())
        }),
        (text, space).prop_map(|(text, space)| {
            let text = serde_json::to_string(&text).unwrap();
            let list = format!("[1.0,{space}1e2, \"\\u000a\"]");
            let json = format!("{{{space}\"a\"{space}:{space}{list}{space},{space}\"a\":{text}{space}}}");
            ToolInput::Json(Json::parse(json).unwrap())
        }),
    ]
}

/// The items of a recipe, with these inputs in turn.
fn items(recipe: &recipe::Recipe, inputs: &[ToolInput]) -> Vec<Arc<Item>> {
    let mut inputs = inputs.iter().cycle();
    let mut items = recipe.items();
    for part in items.iter_mut().flat_map(|item| &mut item.parts) {
        match part {
            Part::ToolCall(call) => call.input = inputs.next().expect("they go on for ever").clone(),
            Part::Structured(json) => {
                if let Some(ToolInput::Json(other)) = inputs.next() {
                    *json = other.clone();
                }
            }
            _ => {}
        }
    }
    items.into_iter().map(Arc::new).collect()
}

/// One loop of a session: what it holds, and how many compactions of it are undone.
#[derive(Clone, Debug)]
struct Recorded {
    items: Vec<Arc<Item>>,
    strategies: Vec<StrategyConfig>,
    undone: usize,
    original: Vec<u8>,
    branch: Option<u8>,
}

fn recorded() -> impl Generator<Value = Recorded> {
    (
        recipe::recipe(),
        prop::collection::vec(input(), 1..6),
        prop::collection::vec(strategies::strategy(), 0..3),
        0usize..2,
        prop::collection::vec(any::<u8>(), 0..2_000),
        any::<Option<u8>>(),
    )
        .prop_map(|(recipe, inputs, strategies, undone, original, branch)| Recorded {
            items: items(&recipe, &inputs),
            strategies,
            undone,
            original,
            branch,
        })
}

/// Records a session, loop by loop.
async fn record(store: &dyn Store, session: &SessionId, loops: &[Recorded]) {
    let id = |number: usize| LoopId::from(format!("loop\n{number}"));
    let mut version = store.create(&NewSession::new(session.clone(), id(0))).await.unwrap();
    for (number, recorded) in loops.iter().enumerate() {
        let loop_id = id(number);
        if number > 0 {
            let parent = id(number - 1);
            let origin = match recorded.branch {
                Some(place) => {
                    let count = store.head(session, &parent).await.unwrap().item_count;
                    Origin::Branch { parent, item_count: usize::from(place) % (count + 1) }
                }
                None => Origin::After(parent),
            };
            let metadata = Metadata::from_iter([("why".to_owned(), "line\nbreak".into())]);
            let begun = NewLoop { id: loop_id.clone(), origin, metadata };
            version = store.begin_loop(session, version, &begun).await.unwrap();
        }
        let at = |version| At { session, loop_id: &loop_id, version };
        version = store.append(&at(version), &recorded.items).await.unwrap();
        version = store.append_original(&at(version), 0, &recorded.original).await.unwrap();
        for strategy in &recorded.strategies {
            let all = store.items(session, &loop_id, 0..usize::MAX).await.unwrap();
            let transcript: Transcript = all.into_iter().collect();
            let blocks = store.blocks(session, &loop_id).await.unwrap();
            let in_force = blocks.iter().filter(|block| block.is_in_force);
            let in_force =
                in_force.map(|block| foldback_core::CompactionBlock::clone(&block.block)).collect();
            let view = View::through(&transcript, &in_force).unwrap();
            if let Ok(planned) = plan(&view, strategy, None) {
                version = store.commit(&at(version), &[planned.apply_floor().block]).await.unwrap();
            }
        }
        for _ in 0..recorded.undone {
            match undo(store, &at(version), &Transcript::default()).await {
                Ok(next) => version = next,
                Err(error) => assert_eq!(error, StoreError::NothingTo { action: "undo" }),
            }
        }
    }
}

/// Everything that two stores hold alike after a backup: all but versions and times.
async fn held(store: &dyn Store) -> Vec<String> {
    let mut held = Vec::new();
    let mut sessions = store.sessions(&Page { skip: 0, limit: 100 }).await.unwrap();
    sessions.sort_by(|one, other| one.id.cmp(&other.id));
    for info in sessions {
        held.push(format!("{} {} {:?} {}", info.id, info.current_loop, info.metadata, info.block_count));
        for of in store.loops(&info.id).await.unwrap() {
            held.push(format!(
                "{} {:?} {} {:?} {:?}",
                of.id, of.origin, of.item_count, of.stack, of.metadata
            ));
            let items = store.items(&info.id, &of.id, 0..usize::MAX).await.unwrap();
            held.extend(items.iter().map(|item| serde_json::to_string(&**item).unwrap()));
            for StoredBlock { number, parent, loop_id, is_in_force, block, .. } in
                store.blocks(&info.id, &of.id).await.unwrap()
            {
                let block = serde_json::to_string(&*block).unwrap();
                held.push(format!("{number} {parent:?} {loop_id} {is_in_force} {block}"));
            }
            let mut original = Vec::new();
            while (original.len() as u64) < of.original_bytes {
                original.extend(store.original(&info.id, &of.id, original.len() as u64).await.unwrap());
            }
            held.push(format!("{original:?}"));
        }
    }
    held
}

proptest! {
    #![proptest_config(foldback_testkit::costly(16))]

    #[test]
    fn whatever_was_recorded_comes_back_from_a_backup(loops in prop::collection::vec(recorded(), 1..4)) {
        let folder = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            let (one, other) = (store(&folder, "one").await, store(&folder, "other").await);
            record(&one, &"session".into(), &loops).await;
            restored(&other, &backed_up(&one).await).await.unwrap();
            assert_eq!(held(&other).await, held(&one).await);
            assert!(other.verify(Repairs::None).await.unwrap().is_clean());
        });
    }
}

async fn is_empty(store: &dyn Store) -> bool {
    store.verify(Repairs::None).await.unwrap().session_count == 0
}

/// A store with two sessions, one of them with calls laid out on lines.
async fn two_sessions(store: &dyn Store) {
    begun(store, &rounds(6)).await;
    let input = ToolInput::Json(Json::parse("{\n  \"path\": \"a\"\n}").unwrap());
    let mut call = Item::assistant("a", vec![Part::call("c", "read", &serde_json::json!({}))]);
    if let Some(Part::ToolCall(call)) = call.parts.first_mut() {
        call.input = input;
    }
    let session: SessionId = "laid-out".into();
    let version = store.create(&NewSession::new(session.clone(), main_loop())).await.unwrap();
    let at = At { session: &session, loop_id: &main_loop(), version };
    store.append(&at, &[Arc::new(call)]).await.unwrap();
}

#[tokio::test]
async fn a_backup_that_is_cut_off_anywhere_restores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(&folder, "one").await, store(&folder, "other").await);
    two_sessions(&one).await;
    let archive = backed_up(&one).await;
    for length in (0..archive.len()).step_by(7).chain([archive.len() - 1]) {
        let cut_off = restored(&other, &archive[..length]).await.unwrap_err();
        let told = cut_off.to_string();
        match cut_off {
            ArchiveError::Damaged { .. } => assert!(told.starts_with("the backup is damaged"), "{told}"),
            ArchiveError::NotAnArchive { .. } => assert!(length < 4, "{length}: {told}"),
            _ => panic!("{length}: {told}"),
        }
    }
    assert!(is_empty(&other).await);
}

#[tokio::test]
async fn a_backup_with_a_changed_byte_restores_nothing_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(&folder, "one").await, store(&folder, "other").await);
    two_sessions(&one).await;
    let archive = backed_up(&one).await;
    for place in (0..archive.len()).step_by(5) {
        let mut flipped = archive.clone();
        flipped[place] ^= 1 << (place % 8);
        // A bit of the compressed form may mean nothing.
        match zstd::decode_all(flipped.as_slice()) {
            Ok(same) if same == zstd::decode_all(archive.as_slice()).unwrap() => continue,
            _ => {}
        }
        restored(&other, &flipped).await.unwrap_err();
    }
    assert!(is_empty(&other).await);
    let mut unpacked = zstd::decode_all(archive.as_slice()).unwrap();
    let place = unpacked.windows(9).position(|word| word == b"it is fil").unwrap();
    unpacked[place] = b'I';
    let flipped = zstd::encode_all(unpacked.as_slice(), 3).unwrap();
    let error = restored(&other, &flipped).await.unwrap_err();
    let ArchiveError::Damaged { place: told, .. } = &error else { panic!("{error}") };
    assert!(told.record_number > 2 && told.byte_offset < place as u64, "{error}");
    assert!(is_empty(&other).await);
}

#[tokio::test]
async fn a_backup_of_a_session_that_is_there_restores_none_of_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(&folder, "one").await, store(&folder, "other").await);
    two_sessions(&one).await;
    let archive = backed_up(&one).await;
    begun(&other, &rounds(1)).await;
    let before = held(&other).await;
    let refused = restored(&other, &archive).await;
    assert!(matches!(refused, Err(ArchiveError::Exists { session: id }) if id == session()));
    assert_eq!(held(&other).await, before);
}

/// An archive of form 2: a line for each record, whatever line breaks its JSON has.
fn archive_of_lines(items: &str, session_count: usize) -> Vec<u8> {
    let lines = [
        r#"{"archive":{"form":2}}"#,
        r#"{"session":{"id":"s","current_loop":"main","metadata":{"a":"}{\""}}}"#,
        r#"{"loop":{"id":"main","origin":"root","metadata":{}}}"#,
        &format!(r#"{{"items":{{"loop_id":"main","items":[{items}]}}}}"#),
        r#"{"original":{"loop_id":"main","bytes":"a\nÿ"}}"#,
        r#"{"stack":{"loop_id":"main","point":{"top":null,"tip":null}}}"#,
        &format!(r#"{{"end":{{"session_count":{session_count}}}}}"#),
    ];
    zstd::encode_all(format!("{}\n", lines.join("\n")).as_bytes(), 9).unwrap()
}

/// Items that an archive of lines tore apart, and such that it did not.
const ITEMS_OF_LINES: &str = "{\"id\":\"u\",\"kind\":\"user\",\"parts\":[{\"text\":\"hi\"}]},\
    {\"id\":\"a\",\"kind\":\"assistant\",\"parts\":[{\"tool_call\":{\"id\":\"c\",\"name\":\"read\",\
    \"input\":{\"json\":{\n  \"path\": \"[\\\"{\"\n}}}}]}";

#[tokio::test]
async fn older_backups_are_restored_also_where_json_has_line_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let other = store(&folder, "other").await;
    let contents = restored(&other, &archive_of_lines(ITEMS_OF_LINES, 1)).await.unwrap();
    assert_eq!((contents.session_count, contents.item_count), (1, 2));
    let items = other.items(&"s".into(), &main_loop(), 0..9).await.unwrap();
    let Part::ToolCall(call) = &items[1].parts[0] else { panic!("{items:?}") };
    assert_eq!(call.input.as_str(), "{\n  \"path\": \"[\\\"{\"\n}");
    assert_eq!(other.original(&"s".into(), &main_loop(), 0).await.unwrap(), b"a\n\xff");
}

#[tokio::test]
async fn a_backup_that_holds_less_than_it_says_or_fails_late_restores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let other = store(&folder, "other").await;
    let short = restored(&other, &archive_of_lines(ITEMS_OF_LINES, 2)).await;
    assert!(matches!(short, Err(ArchiveError::Damaged { .. })), "{short:?}");
    // The session is created before it shows that a loop of it is missing.
    let whole = zstd::decode_all(archive_of_lines(ITEMS_OF_LINES, 1).as_slice()).unwrap();
    let text = String::from_utf8(whole).unwrap();
    let late = text.replace(r#""stack":{"loop_id":"main""#, r#""stack":{"loop_id":"other""#);
    assert_ne!(late, text);
    let refused = restored(&other, &zstd::encode_all(late.as_bytes(), 3).unwrap()).await.unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("record 6") && told.contains("loop other"), "{told}");
    assert!(is_empty(&other).await);
}

#[tokio::test]
async fn what_a_killed_restore_left_behind_is_replaced_by_the_next_and_never_backed_up() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(&folder, "one").await, store(&folder, "other").await);
    two_sessions(&one).await;
    let archive = backed_up(&one).await;
    let half = NewSession {
        metadata: Metadata::from_iter([("foldback.restoring".to_owned(), true.into())]),
        ..NewSession::new(session(), main_loop())
    };
    other.create(&half).await.unwrap();
    assert_eq!(archive::backup(&other, Cursor::new(Vec::new())).await.unwrap(), Contents::default());
    restored(&other, &archive).await.unwrap();
    assert_eq!(held(&other).await, held(&one).await);
}

/// A disk that keeps other bytes than it was given.
struct Forgetful(Cursor<Vec<u8>>);

impl std::io::Write for Forgetful {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let zeros = vec![0; bytes.len()];
        self.0.write(if self.0.position() > 200 { &zeros } else { bytes })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Read for Forgetful {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(bytes)
    }
}

impl std::io::Seek for Forgetful {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[tokio::test]
async fn a_backup_that_cannot_be_read_back_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let one = store(&folder, "one").await;
    let long: Vec<Arc<Item>> = (0..400)
        .map(|number| Arc::new(Item::user(format!("u{number}"), fastrand::u128(..).to_string().repeat(8))))
        .collect();
    begun(&one, &long).await;
    let failed = archive::backup(&one, Forgetful(Cursor::new(Vec::new()))).await;
    assert!(matches!(failed, Err(ArchiveError::NotReadBack { .. })), "{failed:?}");
}

#[tokio::test]
async fn a_store_that_loses_what_it_is_given_is_told_and_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(&folder, "one").await, store(&folder, "other").await);
    two_sessions(&one).await;
    let info = &one.loops(&session()).await.unwrap()[0];
    let version = one.session(&session()).await.unwrap().version;
    let (session, loop_id) = (session(), info.id.clone());
    let at = At { session: &session, loop_id: &loop_id, version };
    one.append_original(&at, 0, b"a file").await.unwrap();
    let archive = backed_up(&one).await;
    let lossy = "CREATE TRIGGER lossy AFTER UPDATE OF original_bytes ON loops WHEN new.original_bytes > 0
        BEGIN UPDATE loops SET original_bytes = 0 WHERE id = new.id; END";
    rusqlite::Connection::open(other.path()).unwrap().execute_batch(lossy).unwrap();
    let refused = restored(&other, &archive).await;
    assert!(
        matches!(&refused, Err(ArchiveError::Incomplete { session: id, .. }) if *id == session),
        "{refused:?}"
    );
    assert!(is_empty(&other).await);
}

#[tokio::test]
async fn a_session_that_is_written_to_meanwhile_is_backed_up_as_it_was_at_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let one = store(&folder, "one").await;
    let mut version = begun(&one, &rounds(3)).await;
    let writer = async {
        for _ in 0..20 {
            let (session, loop_id) = (session(), main_loop());
            let at = At { session: &session, loop_id: &loop_id, version };
            version = one.append(&at, &rounds(2)).await.unwrap();
            (version, _) = fold(&one, version, 4).await;
            tokio::task::yield_now().await;
        }
    };
    let backups = async {
        let mut archives = Vec::new();
        for _ in 0..10 {
            archives.push(backed_up(&one).await);
        }
        archives
    };
    let ((), archives) = tokio::join!(writer, backups);
    assert_ne!(archives.first(), archives.last(), "it was written to meanwhile");
    for (number, archive) in archives.iter().enumerate() {
        let other = store(&folder, &format!("other-{number}")).await;
        restored(&other, archive).await.unwrap();
        assert!(other.verify(Repairs::None).await.unwrap().is_clean());
    }
}

/// An archive of lines with one session, whose only item says this.
fn archive_that_says(text: &str) -> Vec<u8> {
    archive_of_lines(&format!("{{\"id\":\"u\",\"kind\":\"user\",\"parts\":[{{\"text\":\"{text}\"}}]}}"), 1)
}

#[tokio::test]
async fn a_small_file_that_unpacks_to_more_than_its_size_explains_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = store(&folder, "other").await;
    let bomb = archive_that_says(&"x".repeat(140 << 20));
    assert!(bomb.len() < 1 << 20);
    let refused = restored(&other, &bomb).await.unwrap_err();
    let ArchiveError::TooLarge { place, .. } = &refused else { panic!("{refused}") };
    assert_eq!(place.record_number, 4);
    assert!(refused.to_string().contains("--unpacked-max"), "{refused}");
    let tiny = format!("{}x", r#"x"},{"text":""#.repeat(2_000_000));
    let refused = restored(&other, &archive_that_says(&tiny)).await;
    assert!(matches!(refused, Err(ArchiveError::TooLarge { .. })), "{refused:?}");
    assert!(is_empty(&other).await);
    let trusted = archive::restore_up_to(&other, Cursor::new(&bomb), 200 << 20).await.unwrap();
    assert_eq!(trusted.item_count, 1);
}

#[tokio::test]
async fn an_archive_is_unpacked_as_far_as_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(&folder, "one").await, store(&folder, "other").await);
    two_sessions(&one).await;
    let archive = backed_up(&one).await;
    let unpacked = zstd::decode_all(archive.as_slice()).unwrap().len() as u64;
    for bytes_max in [1, 40, 100, unpacked / 2, unpacked - 100] {
        let refused = archive::restore_up_to(&other, Cursor::new(&archive), bytes_max).await;
        assert!(matches!(refused, Err(ArchiveError::TooLarge { .. })), "{bytes_max}: {refused:?}");
        assert!(is_empty(&other).await);
    }
    archive::restore_up_to(&other, Cursor::new(&archive), unpacked).await.unwrap();
    assert_eq!(held(&other).await, held(&one).await);
}

#[tokio::test]
async fn a_store_that_keeps_something_else_than_it_was_given_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(&folder, "one").await, store(&folder, "other").await);
    let version = begun(&one, &rounds(12)).await;
    let (version, _) = fold(&one, version, 8).await;
    fold(&one, version, 2).await;
    let archive = backed_up(&one).await;
    // Every block is there, but the second has what the first has.
    let swapping = "CREATE TRIGGER swapping AFTER INSERT ON blocks BEGIN
        UPDATE blocks SET data = (SELECT data FROM blocks ORDER BY number LIMIT 1); END";
    rusqlite::Connection::open(other.path()).unwrap().execute_batch(swapping).unwrap();
    let refused = restored(&other, &archive).await.unwrap_err();
    assert!(matches!(refused, ArchiveError::Incomplete { .. }), "{refused}");
    assert!(refused.to_string().contains("other blocks than the backup"), "{refused}");
    assert!(is_empty(&other).await);
}
