//! The records of an archive, and how they lie in it.

use std::io::{self, BufRead, BufReader, Read, Write};

use blake3::Hasher;
use foldback_core::{CompactionBlock, Item, LoopId, Metadata, SessionId, Timestamp};
use foldback_engine::store::{BlockNumber, Origin, StackPoint};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::limits::{Bounds, FEW_OBJECTS_BYTES, RECORD_BYTES_MAX};
use super::lines::{FORM_OF_LINES, Nesting};
use super::{ArchiveError, ArchivePlace, Contents};

/// The form of the archives that are written.
const FORM: u32 = 3;

/// Bytes of the line that names the form.
const HEADER_BYTES_MAX: u64 = 64;

/// How everything begins that zstd compressed.
const COMPRESSED: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes of the length before a record.
const LENGTH_BYTES: usize = 8;

/// How hard an archive is compressed.
const LEVEL: i32 = 9;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Record {
    Archive {
        form: u32,
    },
    Session {
        id: SessionId,
        current_loop: LoopId,
        metadata: Metadata,
        /// Not in backups of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<Times>,
    },
    Loop {
        id: LoopId,
        origin: Origin,
        metadata: Metadata,
        /// Not in backups of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        created_at: Option<Timestamp>,
    },
    Items {
        loop_id: LoopId,
        items: Vec<Item>,
    },
    Original {
        loop_id: LoopId,
        bytes: Bytes,
    },
    Block {
        loop_id: LoopId,
        number: BlockNumber,
        parent: Option<BlockNumber>,
        block: Box<CompactionBlock>,
    },
    Stack {
        loop_id: LoopId,
        point: StackPoint,
    },
    /// The end of an archive of lines.
    End {
        session_count: usize,
    },
    /// The end of every other archive.
    Total(Contents),
}

/// When a session was begun and changed last.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Times {
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

/// Bytes as text: one character for each, so that text stays text and compresses as such.
#[derive(Debug)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().copied().map(char::from).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = text.chars().map(|character| u8::try_from(u32::from(character)));
        let bytes = bytes.collect::<Result<_, _>>();
        bytes.map(Self).map_err(|_| D::Error::custom("a character that stands for no byte"))
    }
}

/// Writes an archive.
pub(super) struct Writer<W: Write> {
    encoder: zstd::Encoder<'static, W>,
    hasher: Hasher,
    contents: Contents,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(target: W) -> Result<Self, ArchiveError> {
        let encoder = zstd::Encoder::new(target, LEVEL).map_err(ArchiveError::Write)?;
        let mut writer = Self { encoder, hasher: Hasher::new(), contents: Contents::default() };
        let mut header = json(&Record::Archive { form: FORM });
        header.push(b'\n');
        writer.push(&header)?;
        Ok(writer)
    }

    pub(super) fn write(&mut self, record: &Record) -> Result<(), ArchiveError> {
        let json = json(record);
        if json.len() as u64 > RECORD_BYTES_MAX {
            return Err(ArchiveError::TooLong { bytes: json.len(), bytes_max: RECORD_BYTES_MAX as usize });
        }
        self.push(&(json.len() as u64).to_le_bytes())?;
        self.push(&json)?;
        let hash = self.hasher.finalize();
        self.encoder.write_all(hash.as_bytes()).map_err(ArchiveError::Write)?;
        self.contents.add(record);
        Ok(())
    }

    /// Writes the end. Answers what was written.
    pub(super) fn finish(mut self) -> Result<Contents, ArchiveError> {
        let contents = self.contents;
        self.write(&Record::Total(contents))?;
        let mut target = self.encoder.finish().map_err(ArchiveError::Write)?;
        target.flush().map_err(ArchiveError::Write)?;
        Ok(contents)
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.hasher.update(bytes);
        self.encoder.write_all(bytes).map_err(ArchiveError::Write)
    }
}

fn json(record: &Record) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record has only string keys and finite numbers")
}

/// Reads an archive, of this form or of lines, up to its end.
pub(super) struct Reader<R: Read> {
    source: BufReader<zstd::Decoder<'static, BufReader<R>>>,
    form: u32,
    hasher: Hasher,
    /// The record that is read, or was read last.
    place: ArchivePlace,
    /// Where the next one begins.
    offset: u64,
    contents: Contents,
    buffer: Vec<u8>,
    bounds: Bounds,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(source: R, bounds: Bounds) -> Result<Self, ArchiveError> {
        let mut source = BufReader::new(source);
        if !source.fill_buf().map_err(ArchiveError::Read)?.starts_with(&COMPRESSED) {
            return Err(ArchiveError::NotAnArchive { why: "it does not begin as one".to_owned() });
        }
        let decoder = zstd::Decoder::with_buffer(source).map_err(ArchiveError::Read)?;
        let mut reader = Self {
            source: BufReader::new(decoder),
            form: FORM,
            hasher: Hasher::new(),
            place: ArchivePlace { record_number: 1, byte_offset: 0 },
            offset: 0,
            contents: Contents::default(),
            buffer: Vec::new(),
            bounds,
        };
        reader.form = reader.header()?;
        Ok(reader)
    }

    fn header(&mut self) -> Result<u32, ArchiveError> {
        let mut header = Vec::new();
        let read = self.source.by_ref().take(HEADER_BYTES_MAX).read_until(b'\n', &mut header);
        read.map_err(|error| self.unreadable(error))?;
        self.hasher.update(&header);
        self.offset = header.len() as u64;
        match serde_json::from_slice(&header) {
            Ok(Record::Archive { form: form @ (FORM_OF_LINES | FORM) }) => Ok(form),
            Ok(Record::Archive { form }) => Err(ArchiveError::OtherForm { found: form, known: FORM }),
            Ok(_) | Err(_) => {
                Err(ArchiveError::NotAnArchive { why: "its first line names no form".to_owned() })
            }
        }
    }

    /// The next record, `None` at the end: there the archive holds what it says, and no byte more.
    pub(super) fn next(&mut self) -> Result<Option<Record>, ArchiveError> {
        self.place = ArchivePlace { record_number: self.place.record_number + 1, byte_offset: self.offset };
        let mut json = std::mem::take(&mut self.buffer);
        json.clear();
        match self.form {
            FORM_OF_LINES => self.read_lines(&mut json)?,
            _ => self.read_framed(&mut json)?,
        }
        let has_many = json.len() > FEW_OBJECTS_BYTES;
        if has_many && Nesting::object_count(&json) > self.bounds.objects_max {
            return Err(self.too_large());
        }
        let record = serde_json::from_slice(&json)
            .map_err(|error| self.damaged(format!("it cannot be read ({error})")))?;
        self.buffer = json;
        let is_whole = match &record {
            Record::End { session_count } => *session_count == self.contents.session_count,
            Record::Total(contents) => *contents == self.contents,
            Record::Archive { .. } => {
                return Err(self.damaged("a backup begins inside of another".to_owned()));
            }
            _ => {
                self.contents.add(&record);
                return Ok(Some(record));
            }
        };
        if !is_whole {
            return Err(self.damaged("the backup holds less or more than it says".to_owned()));
        }
        let is_end = self.source.fill_buf().map(<[u8]>::is_empty);
        match is_end.map_err(|error| self.unreadable(error))? {
            true => Ok(None),
            false => Err(self.damaged("the backup goes on after its end".to_owned())),
        }
    }

    /// A record between its length and its hash.
    fn read_framed(&mut self, json: &mut Vec<u8>) -> Result<(), ArchiveError> {
        let mut length = [0; LENGTH_BYTES];
        self.read_exact(&mut length)?;
        self.hasher.update(&length);
        let length = u64::from_le_bytes(length);
        if length > RECORD_BYTES_MAX {
            return Err(
                self.damaged(format!("it claims {length} bytes, at most {RECORD_BYTES_MAX} are written"))
            );
        }
        if length > self.room(0) {
            return Err(self.too_large());
        }
        // Room is made for what is there, not for what is claimed.
        let read = self.source.by_ref().take(length).read_to_end(json);
        if read.map_err(|error| self.unreadable(error))? as u64 != length {
            return Err(self.cut_off());
        }
        self.hasher.update(json);
        let mut hash = [0; blake3::OUT_LEN];
        self.read_exact(&mut hash)?;
        if self.hasher.finalize() != hash {
            return Err(self.damaged("its bytes have changed since it was written".to_owned()));
        }
        self.offset += (LENGTH_BYTES + json.len() + hash.len()) as u64;
        Ok(())
    }

    /// A record on a line of its own, or on several where its JSON has line breaks.
    fn read_lines(&mut self, json: &mut Vec<u8>) -> Result<(), ArchiveError> {
        let mut nesting = Nesting::default();
        loop {
            let start = json.len();
            let room = self.room(start as u64);
            let length = self.source.by_ref().take(room).read_until(b'\n', json);
            let length = length.map_err(|error| self.unreadable(error))? as u64;
            if length == 0 || (length == room && !json.ends_with(b"\n")) {
                return Err(if length == room { self.too_large() } else { self.cut_off() });
            }
            self.offset += length;
            nesting.read(&json[start..]);
            if nesting.is_closed() {
                return Ok(());
            }
        }
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), ArchiveError> {
        self.source.read_exact(bytes).map_err(|error| self.unreadable(error))
    }

    /// The disk fails, or the bytes are not those that were compressed.
    fn unreadable(&self, error: io::Error) -> ArchiveError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.cut_off(),
            _ if error.raw_os_error().is_some() => ArchiveError::Read(error),
            _ => self.damaged(format!("it cannot be unpacked ({error})")),
        }
    }

    /// Bytes that may follow in a record of which so many were read.
    fn room(&self, read: u64) -> u64 {
        let Bounds { bytes_max, record_bytes_max, .. } = self.bounds;
        record_bytes_max.saturating_sub(read).min(bytes_max.saturating_sub(self.offset))
    }

    fn too_large(&self) -> ArchiveError {
        let Bounds { bytes_max, record_bytes_max, .. } = self.bounds;
        ArchiveError::TooLarge { place: self.place, bytes_max, record_bytes_max }
    }

    fn cut_off(&self) -> ArchiveError {
        self.damaged("the backup is cut off here".to_owned())
    }

    /// What was read so far.
    pub(super) fn contents(&self) -> Contents {
        self.contents
    }

    /// The record that was read last.
    pub(super) fn place(&self) -> ArchivePlace {
        self.place
    }

    pub(super) fn damaged(&self, what: String) -> ArchiveError {
        ArchiveError::Damaged { place: self.place, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_holds_less_than_it_says_is_damaged() {
        let mut archive = Vec::new();
        let mut writer = Writer::new(&mut archive).unwrap();
        writer.write(&Record::Items { loop_id: "main".into(), items: vec![Item::user("u", "hi")] }).unwrap();
        writer.contents.item_count += 1;
        writer.finish().unwrap();
        let mut reader = Reader::new(archive.as_slice(), Bounds::NONE).unwrap();
        assert!(reader.next().unwrap().is_some());
        let end = reader.next();
        assert!(
            matches!(&end, Err(ArchiveError::Damaged { place, .. }) if place.record_number == 3),
            "{end:?}"
        );
    }

    #[test]
    fn every_byte_comes_back_from_its_text() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let text = serde_json::to_string(&Bytes(bytes.clone())).unwrap();
        assert_eq!(serde_json::from_str::<Bytes>(&text).unwrap().0, bytes);
        assert!(serde_json::from_str::<Bytes>("\"Ā\"").is_err());
    }
}
