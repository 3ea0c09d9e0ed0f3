//! Answers that were given before, one file each, so that nothing is asked and paid twice.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldback_core::{Item, Tokens};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::{self, Readers};
use crate::{store, terminal};

/// Raised where entries mean something else.
const FORMAT: u32 = 1;

/// No answer is longer; a larger file is no entry.
const ENTRY_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The answers of one model.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// The server and the model, as far as they decide what is answered.
    model: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    format: u32,
    key: String,
    answer: String,
}

impl Cache {
    /// In the folder that was named, or beside the store.
    pub(super) fn open(folder: Option<&Path>, model: String) -> Result<Self, Failure> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => store::data_folder("name a folder with --cache")?.join("probe"),
        };
        let failed = |error| {
            let hint = Some("name another folder with --cache".to_owned());
            Failure::Write { path: folder.clone(), error, hint }
        };
        fs::create_dir_all(&folder).map_err(failed)?;
        Ok(Self { folder, model })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a request is filed under. What is asked comes from sessions, which anybody may have written:
    /// the hash is one for which nobody finds two requests.
    pub(super) fn key(&self, items: &[Arc<Item>], tokens_max: Option<Tokens>) -> String {
        let asked = serde_json::to_vec(&(FORMAT, &self.model, tokens_max, items));
        blake3::hash(&asked.expect("items are plain data")).to_hex().to_string()
    }

    /// What was answered, if it was. An entry that cannot be read is told, and asked for again.
    pub(super) fn get(&self, key: &str) -> Option<String> {
        let path = self.path(key);
        let told = |why: String| {
            let path = terminal::harmless(&path.display().to_string());
            terminal::warning(&format!("{path}: {why}; the model is asked again"));
            None
        };
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Ok(metadata) if metadata.len() > ENTRY_BYTES_MAX => {
                return told("too long for an answer".to_owned());
            }
            Ok(_) | Err(_) => {}
        }
        let read = fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice::<Entry>(&bytes)?));
        match read {
            Ok(entry) if (entry.format, entry.key.as_str()) == (FORMAT, key) => Some(entry.answer),
            Ok(_) => told("this is the answer to another question".to_owned()),
            Err(error) => told(error.to_string()),
        }
    }

    /// Keeps an answer, in one step.
    pub(super) fn put(&self, key: &str, answer: &str) -> Result<(), Failure> {
        let entry = Entry { format: FORMAT, key: key.to_owned(), answer: answer.to_owned() };
        let bytes = serde_json::to_vec(&entry).expect("an entry is plain data");
        output::to_file(&self.path(key), &bytes, Readers::Owner)
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(&folder.path().join("a/b")), "openai http://h#m".to_owned()).unwrap();
        (folder, cache)
    }

    #[test]
    fn an_answer_is_found_under_its_request_and_under_no_other() {
        let (_folder, cache) = cache();
        let items = |text: &str| [Arc::new(Item::user("u", text))];
        let key = cache.key(&items("one"), Some(Tokens(5)));
        cache.put(&key, "first").unwrap();
        cache.put(&key, "second").unwrap();
        assert_eq!(cache.get(&cache.key(&items("one"), Some(Tokens(5)))).as_deref(), Some("second"));
        let other = Cache { model: "openai http://h#n".to_owned(), ..cache.clone() };
        for key in [
            cache.key(&items("two"), Some(Tokens(5))),
            cache.key(&items("one"), None),
            other.key(&items("one"), Some(Tokens(5))),
        ] {
            assert_eq!(cache.get(&key), None);
        }
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1, "nothing half is left");
    }

    #[test]
    fn an_entry_that_is_no_answer_to_this_is_no_answer() {
        let (_folder, cache) = cache();
        let key = cache.key(&[], None);
        cache.put(&key, "answer").unwrap();
        let good = fs::read_to_string(cache.path(&key)).unwrap();
        for bad in [
            "",
            "{",
            "[]",
            "\u{0}",
            &good[..good.len() / 2],
            &good.replace(&key, "other"),
            &good.replace("1", "9"),
        ] {
            fs::write(cache.path(&key), bad).unwrap();
            assert_eq!(cache.get(&key), None, "{bad}");
        }
        fs::remove_file(cache.path(&key)).unwrap();
        fs::create_dir(cache.path(&key)).unwrap();
        assert_eq!(cache.get(&key), None);
    }
}
