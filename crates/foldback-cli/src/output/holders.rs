//! Which other program has a file open and may write to it at any moment.
//!
//! Only Linux tells, and only of processes that this one may look into: those of the same user. Elsewhere
//! nobody is found.

use std::fs::File;

use crate::terminal::harmless;

/// Another program that may write to a file.
#[derive(Debug)]
pub(super) struct Holder {
    process: u32,
    name: String,
}

impl Holder {
    /// `claude (process 4711)`.
    pub(super) fn named(&self) -> String {
        format!("{} (process {})", harmless(&self.name), self.process)
    }
}

/// The first program other than this one that has the file open for writing.
#[cfg(target_os = "linux")]
pub(super) fn holder_of(file: &File) -> Option<Holder> {
    use std::os::fd::AsRawFd;

    let sought = Sought::of(&linux::info("self", &file.as_raw_fd().to_string())?, file)?;
    let own = std::process::id();
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    let process = numbers.filter(|process| *process != own).find(|process| sought.is_open_in(*process))?;
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let name = if name.trim().is_empty() { "a program" } else { name.trim() };
    Some(Holder { process, name: name.to_owned() })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn holder_of(_file: &File) -> Option<Holder> {
    None
}

#[cfg(target_os = "linux")]
use linux::Sought;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;

    use crate::input::FileId;

    /// The bits of an open file's flags that say how it may be used, and their value where it is only read.
    const ACCESS_MODE: u32 = 0o3;
    const READ_ONLY: u32 = 0;

    /// What `/proc` says of a file that a process has open.
    pub(super) struct Info {
        flags: u32,
        /// Not told by old kernels.
        inode: Option<u64>,
    }

    pub(super) fn info(process: &str, descriptor: &str) -> Option<Info> {
        let text = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let flags = u32::from_str_radix(field("flags:")?, 8).ok()?;
        Some(Info { flags, inode: field("ino:").and_then(|inode| inode.parse().ok()) })
    }

    /// The file that is looked for.
    pub(super) struct Sought {
        id: FileId,
        /// As `/proc` tells it, which some file systems number otherwise than `stat` does.
        inode: Option<u64>,
    }

    impl Sought {
        pub(super) fn of(info: &Info, file: &File) -> Option<Self> {
            Some(Self { id: FileId::of(&file.metadata().ok()?)?, inode: info.inode })
        }

        /// Whether a process has it open for writing.
        pub(super) fn is_open_in(&self, process: u32) -> bool {
            let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
            descriptors.flatten().any(|descriptor| {
                // Most are pipes and sockets.
                let is_file = std::fs::read_link(descriptor.path()).is_ok_and(|to| to.is_absolute());
                let name = descriptor.file_name();
                let info = || info(&process.to_string(), name.to_str()?);
                is_file && info().is_some_and(|info| self.may_be(&info)) && {
                    let metadata = std::fs::metadata(descriptor.path());
                    metadata.is_ok_and(|metadata| FileId::of(&metadata) == Some(self.id))
                }
            })
        }

        /// Whether it may be this file, open for writing. What is not is not looked at: a network file
        /// system may keep whoever asks waiting.
        fn may_be(&self, info: &Info) -> bool {
            info.flags & ACCESS_MODE != READ_ONLY && (info.inode == self.inode || info.inode.is_none())
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_that_has_the_file_open_for_writing_is_found_whatever_the_file_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["session.jsonl", "other"].map(|name| folder.path().join(name));
        std::fs::write(&path, "one\n").unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        let file = File::open(&path).unwrap();
        let holds = |opened: File| {
            let mut child = Command::new("cat");
            let mut child = child.stdin(Stdio::piped()).stdout(opened).spawn().unwrap();
            let found = holder_of(&file).map(|holder| holder.named());
            drop(child.stdin.take());
            child.wait().unwrap();
            (found, format!("cat (process {})", child.id()))
        };
        let (found, expected) = holds(File::options().append(true).open(&other).unwrap());
        assert_eq!(found, Some(expected));
        let (found, _) = holds(File::create(folder.path().join("another")).unwrap());
        assert_eq!(found, None);
        let _own = File::options().append(true).open(&path).unwrap();
        let mut reader = Command::new("cat");
        let mut reader = reader.stdin(File::open(&path).unwrap()).stdout(Stdio::null()).spawn().unwrap();
        assert!(holder_of(&file).is_none(), "readers and this program itself do no harm");
        reader.wait().unwrap();
    }
}
