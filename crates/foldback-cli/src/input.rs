//! Where sessions come from: files, folders, stdin.

mod folder;
mod opened;
mod pieces;
mod stamp;

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldback_formats::{Contents, Fault, FormatError, SessionFile};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Inputs, Shared};
use crate::failure::{Exit, Failure, at};
use crate::terminal;
use crate::values::{is_typing_error, similar};
use folder::files_below;
pub(crate) use opened::Opened;
use opened::Original;
pub(crate) use stamp::{FileId, Stamp};

/// The name of stdin in messages.
const STDIN: &str = "stdin";

/// How often a file that is being written to is read again.
const READS_MAX: usize = 3;

/// Shorter files are read on one thread.
#[cfg(unix)]
const READ_TOGETHER_BYTES_MIN: usize = 8 * 1024 * 1024;

/// At most this many threads read one file.
#[cfg(unix)]
const READ_THREADS_MAX: usize = 8;

/// Problems that are told for one file; the rest are counted.
const PROBLEMS_TOLD_MAX: usize = 5;

/// Runs `each` on every session that the inputs name. One that fails is reported, and the others
/// still run; the worst exit is the answer. Where a long file changes before its bytes are asked for,
/// `each` runs once more, on all that is there then.
pub(crate) fn for_each(
    shared: &Shared,
    inputs: &Inputs,
    mut each: impl FnMut(&Opened) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let sources = sources(inputs)?;
    let bar = progress(shared, sources.len());
    let source_count = sources.len();
    let is_single = source_count == 1;
    let mut worst = Exit::Success;
    let mut passed_over = Vec::new();
    for source in sources {
        if let Some(bar) = &bar {
            bar.set_message(terminal::for_bar(&source.path.display().to_string()));
        }
        let done = match open(shared, &source) {
            Ok(mut opened) => {
                let mut done = each(&opened);
                if let Err(Failure::Changed { .. }) = done {
                    done = open_whole(shared, &source).and_then(|whole| {
                        opened = whole;
                        each(&opened)
                    });
                }
                if is_single {
                    // The program ends now: giving back a long session piece by piece takes longer
                    // than many commands.
                    std::mem::forget(opened);
                }
                done
            }
            // A folder may hold other files; what was passed over is said at the end.
            Err(Failure::Format { path, error: FormatError::Unknown { .. } | FormatError::Empty })
                if source.found_in.is_some() =>
            {
                passed_over.push(path);
                Ok(Exit::Success)
            }
            Err(failure) => Err(failure),
        };
        match done {
            Ok(exit) => worst = worst.max(exit),
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            Err(failure) if is_single => return Err(failure),
            Err(failure) => {
                failure.report();
                worst = worst.max(failure.exit());
            }
        }
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if !shared.quiet {
        tell_passed_over(&passed_over);
    }
    none_found(inputs, passed_over.len(), source_count)?;
    Ok(worst)
}

/// Fails where everything in the folders that were named was passed over.
fn none_found(inputs: &Inputs, passed_over: usize, source_count: usize) -> Result<(), Failure> {
    match inputs.paths.first() {
        Some(path) if passed_over > 0 && passed_over == source_count => {
            Err(Failure::NoSessions { path: path.clone() })
        }
        _ => Ok(()),
    }
}

/// Runs `each` on every session that the inputs name, as many at a time as there are cores, and gives
/// the answers in the order of the inputs. One that fails is reported, and the others still run; the
/// worst exit is the second part of the answer.
pub(crate) fn in_parallel<T: Send>(
    shared: &Shared,
    inputs: &Inputs,
    each: impl Fn(&Opened) -> Result<T, Failure> + Sync,
) -> Result<(Vec<T>, Exit), Failure> {
    let sources = sources(inputs)?;
    let bar = progress(shared, sources.len());
    let done = foldback_threads::map(foldback_threads::threads(usize::MAX), &sources, |source| {
        let one = open(shared, source).and_then(|opened| each(&opened));
        if let Some(bar) = &bar {
            bar.inc(1);
        }
        one
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let mut answers = Vec::new();
    let mut worst = Exit::Success;
    let mut passed_over = Vec::new();
    for (index, one) in done.into_iter().enumerate() {
        match one {
            Ok(answer) => answers.push(answer),
            Err(failure) if sources.len() == 1 => return Err(failure),
            // A folder may hold other files; what was passed over is said at the end.
            Err(Failure::Format { path, error: FormatError::Unknown { .. } | FormatError::Empty })
                if sources[index].found_in.is_some() =>
            {
                passed_over.push(path);
            }
            // A mistake on the command line is the same for every session.
            Err(failure @ Failure::Usage { .. }) => return Err(failure),
            Err(failure) => {
                failure.report();
                worst = worst.max(failure.exit());
            }
        }
    }
    if !shared.quiet {
        tell_passed_over(&passed_over);
    }
    none_found(inputs, passed_over.len(), sources.len())?;
    Ok((answers, worst))
}

fn tell_passed_over(paths: &[PathBuf]) {
    for path in paths.iter().take(PROBLEMS_TOLD_MAX) {
        terminal::note(&format!("{}: no session, passed over", path.display()));
    }
    if paths.len() > PROBLEMS_TOLD_MAX {
        terminal::note(&format!("{} more files are no sessions", paths.len() - PROBLEMS_TOLD_MAX));
    }
}

/// Fails where the inputs name nothing to work on.
pub(crate) fn look(inputs: &Inputs) -> Result<(), Failure> {
    sources(inputs).map(|_| ())
}

/// The files that the inputs name.
pub(crate) fn paths(inputs: &Inputs) -> Result<Vec<PathBuf>, Failure> {
    Ok(sources(inputs)?.into_iter().map(|source| source.path).collect())
}

/// The one session that a path names, with its bytes.
pub(crate) fn one(shared: &Shared, path: &Path) -> Result<Opened, Failure> {
    open_whole(shared, &single(path)?)
}

/// As [`one`], for what does not need the bytes of a session.
pub(crate) fn look_at(shared: &Shared, path: &Path) -> Result<Opened, Failure> {
    open(shared, &single(path)?)
}

fn single(path: &Path) -> Result<Source, Failure> {
    match path.is_dir() {
        true => Err(Failure::usage(format!("{} is a folder", path.display()), "name one session file")),
        false => Ok(Source::named(path)),
    }
}

/// Whether the inputs name one session and no folder.
pub(crate) fn is_single(inputs: &Inputs) -> bool {
    matches!(&inputs.paths[..], [] | [_]) && !inputs.paths.iter().any(|path| path.is_dir())
}

struct Source {
    path: PathBuf,
    /// What it is called below an output folder: as below the folder that was named.
    name: PathBuf,
    /// The folder that was named, where it was not named itself.
    found_in: Option<PathBuf>,
}

impl Source {
    fn named(path: &Path) -> Self {
        let name = path.file_name().map_or_else(|| path.to_owned(), PathBuf::from);
        Self { path: path.to_owned(), name, found_in: None }
    }
}

fn sources(inputs: &Inputs) -> Result<Vec<Source>, Failure> {
    if inputs.paths.is_empty() {
        if io::stdin().is_terminal() {
            return Err(Failure::usage(
                "no session is named",
                "name a session file, a folder, or - for stdin",
            ));
        }
        return Ok(vec![Source::named(Path::new("-"))]);
    }
    let mut sources = Vec::new();
    for path in &inputs.paths {
        if !path.is_dir() {
            sources.push(Source::named(path));
            continue;
        }
        let found =
            files_below(path).map_err(|error| Failure::Read { path: path.clone(), error, hint: None })?;
        if found.is_empty() {
            return Err(Failure::NoSessions { path: path.clone() });
        }
        sources.extend(found.into_iter().map(|found| Source {
            name: found.strip_prefix(path).unwrap_or(&found).to_owned(),
            path: found,
            found_in: Some(path.clone()),
        }));
    }
    Ok(sources)
}

/// Reads all of a session at once.
fn open_whole(shared: &Shared, source: &Source) -> Result<Opened, Failure> {
    let path = source.path.as_path();
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| Failure::Read { path: STDIN.into(), error, hint: None })?;
        return parse(shared, source, STDIN.into(), None, bytes);
    }
    // A pipe can be read once, and has no place.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let bytes =
            fs::read(path).map_err(|error| Failure::Read { path: path.to_owned(), error, hint: None })?;
        return parse(shared, source, path.to_owned(), None, bytes);
    }
    let (bytes, stamp) = read_file(path)?;
    parse(shared, source, path.to_owned(), stamp, bytes)
}

/// A long session is read piece by piece. Whatever goes wrong with that, a file that changes meanwhile
/// too, shows when all of it is read.
fn open(shared: &Shared, source: &Source) -> Result<Opened, Failure> {
    let path = source.path.as_path();
    let stamp = Stamp::of(path);
    let file = stamp.and_then(|stamp| Some((stamp, pieces::File::open(path, &stamp)?)));
    let read = file.and_then(|(stamp, file)| {
        let contents = Contents::read_from(&file, shared.format)?;
        Some((stamp, contents, file))
    });
    match read.filter(|(stamp, ..)| stamp.is_still(path)) {
        Some((stamp, contents, file)) => Ok(opened(
            shared,
            source,
            path.to_owned(),
            Some(stamp),
            Arc::new(contents),
            Original::in_file(file),
        )),
        None => open_whole(shared, source),
    }
}

/// Reads a file that may be growing: what was read is then one state of it. The stamp is of that state, or
/// where it never stood still of none that the file will have.
fn read_file(path: &Path) -> Result<(Vec<u8>, Option<Stamp>), Failure> {
    let failed =
        |error: io::Error| Failure::Read { path: path.to_owned(), hint: hint_for(path, &error), error };
    let mut read = (Vec::new(), None);
    for _ in 0..READS_MAX {
        let stamp = Stamp::of(path);
        let bytes = read_bytes(path).map_err(failed)?;
        let is_whole = |stamp: Stamp| stamp.len == bytes.len() as u64 && stamp.is_still(path);
        if stamp.is_some_and(is_whole) {
            return Ok((bytes, stamp));
        }
        let len = bytes.len() as u64;
        read = (bytes, stamp.map(|stamp| stamp.of_no_file(len)));
    }
    terminal::warning(&format!("{}: the file is being written to; this is what it was", path.display()));
    Ok(read)
}

/// All of a file, a long one on several threads: most of the time goes into pages of memory.
#[cfg(unix)]
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let file = fs::File::open(path)?;
    let metadata = file.metadata()?;
    let len = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    let threads = foldback_threads::threads(READ_THREADS_MAX);
    if !metadata.is_file() || len < READ_TOGETHER_BYTES_MIN || threads == 1 {
        return fs::read(path);
    }
    let mut bytes = vec![0; len];
    let piece_len = len.div_ceil(threads);
    let read = foldback_threads::map(threads, bytes.chunks_mut(piece_len).enumerate(), |(index, piece)| {
        file.read_exact_at(piece, (index * piece_len) as u64)
    });
    let read = read.into_iter().collect::<io::Result<()>>();
    match read {
        // It became shorter meanwhile.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => fs::read(path),
        read => read.map(|()| bytes),
    }
}

#[cfg(not(unix))]
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// The file that was probably meant.
fn hint_for(path: &Path, error: &io::Error) -> Option<String> {
    if error.kind() != io::ErrorKind::NotFound {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names: Vec<String> =
        fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let name = path.file_name()?.to_str()?;
    // File names share their endings, so that being similar is not enough.
    let alike = names.iter().map(String::as_str).filter(|known| is_typing_error(name, known));
    let meant = similar(name, alike)?;
    Some(format!("did you mean {}?", folder.join(meant).display()))
}

fn parse(
    shared: &Shared,
    source: &Source,
    path: PathBuf,
    stamp: Option<Stamp>,
    bytes: Vec<u8>,
) -> Result<Opened, Failure> {
    let read = match shared.format {
        Some(format) => SessionFile::read_as(format, bytes),
        None => SessionFile::read(bytes),
    };
    let session = read.map_err(|error| Failure::Format { path: path.clone(), error })?;
    let (contents, bytes) = session.into_parts();
    Ok(opened(shared, source, path, stamp, contents, Original::held(bytes)))
}

fn opened(
    shared: &Shared,
    source: &Source,
    path: PathBuf,
    stamp: Option<Stamp>,
    session: Arc<Contents>,
    original: Original,
) -> Opened {
    tell_problems(shared, &path, &session);
    let sub_agents = sub_agents(&path);
    let (name, found_in) = (source.name.clone(), source.found_in.clone());
    Opened { path, name, found_in, stamp, session, original, sub_agents }
}

fn tell_problems(shared: &Shared, path: &Path, contents: &Contents) {
    if shared.quiet {
        return;
    }
    let problems = contents.problems();
    for problem in problems.iter().take(PROBLEMS_TOLD_MAX) {
        let told = format!("{} (kept as it is, not read)", at(path, problem));
        match problem.fault {
            Fault::Comment => terminal::note(&told),
            _ => terminal::warning(&told),
        }
    }
    if problems.len() > PROBLEMS_TOLD_MAX {
        terminal::warning(&format!(
            "{}: {} more such lines",
            path.display(),
            problems.len() - PROBLEMS_TOLD_MAX
        ));
    }
}

/// `SESSION/subagents/agent-*.jsonl` beside `SESSION.jsonl`.
fn sub_agents(path: &Path) -> Vec<PathBuf> {
    let folder = path.with_extension("").join("subagents");
    let mut files = files_below(&folder).unwrap_or_default();
    files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agent-")));
    files
}

/// Shown for several sessions, on a terminal.
fn progress(shared: &Shared, count: usize) -> Option<ProgressBar> {
    let is_wanted = count > 1 && terminal::stderr_is_terminal() && !shared.quiet;
    is_wanted.then(|| {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
        ProgressBar::new(count as u64).with_style(style.expect("the template is valid"))
    })
}
