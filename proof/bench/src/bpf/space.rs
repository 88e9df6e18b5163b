//! Network namespaces without names: the kernel removes a namespace and all that it contains with
//! its last user, at the latest when this process ends, for whatever reason.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// A network namespace.
pub struct Space {
    file: File,
}

impl Space {
    /// A new namespace, with its loopback interface up.
    pub fn new() -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sapwood-bench-{}-{number}", std::process::id());
        ip(&["netns", "add", &name], "")?;
        // The name is not needed any more once the file is open.
        let path = Path::new("/run/netns").join(&name);
        let file = File::open(&path);
        ip(&["netns", "del", &name], "")?;
        let file = file.map_err(|e| format!("{}: {e}", path.display()))?;
        let space = Self { file };
        space.ip(&["link", "set", "lo", "up"])?;
        Ok(space)
    }

    /// Calls `f` on a thread in the namespace, where the processes that `f` starts run, too.
    pub fn inside<R: Send>(
        &self,
        f: impl FnOnce() -> Result<R, String> + Send,
    ) -> Result<R, String> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                rustix::thread::move_into_link_name_space(self.file.as_fd(), None)
                    .map_err(|e| format!("entering a network namespace: {e}"))?;
                f()
            });
            let result = thread.join();
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `ip` with these arguments.
    pub fn ip(&self, arguments: &[&str]) -> Result<String, String> {
        self.inside(|| ip(arguments, ""))
    }

    /// Runs `ip` with each of these lines as its arguments.
    pub fn ip_lines(&self, lines: &str) -> Result<(), String> {
        self.inside(|| ip(&["-batch", "-"], lines)).map(drop)
    }

    /// Sets a network parameter.
    pub fn set(&self, key: &str, value: &str) -> Result<(), String> {
        let file = format!("/proc/sys/net/{}", key.replace('.', "/"));
        self.inside(|| fs::write(&file, value).map_err(|e| format!("{file}: {e}")))
    }

    /// Connects the namespace to another by a cable with these names and hardware addresses at both
    /// ends. Both ends are up.
    pub fn cable(&self, near: (&str, &str), other: &Self, far: (&str, &str)) -> Result<(), String> {
        let there = format!("/proc/{}/fd/{}", std::process::id(), other.file.as_raw_fd());
        self.ip(&[
            "link", "add", "name", near.0, "address", near.1, "type", "veth", "peer", "name",
            far.0, "address", far.1, "netns", &there,
        ])?;
        self.ip(&["link", "set", near.0, "up"])?;
        other.ip(&["link", "set", far.0, "up"])?;
        Ok(())
    }

    /// The number of an interface.
    pub fn index(&self, interface: &str) -> Result<u32, String> {
        self.inside(|| sapwood_xdp::interface_index(interface).map_err(|e| e.to_string()))
    }
}

fn ip(arguments: &[&str], lines: &str) -> Result<String, String> {
    run(Command::new("ip").args(arguments), lines)
}

/// Runs a command with these lines as its input, and returns its output; fails if the command
/// fails.
pub fn run(command: &mut Command, lines: &str) -> Result<String, String> {
    let name = format!("{command:?}");
    let fail = |why: String| format!("{name}: {why}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| fail(e.to_string()))?;
    // A command that does not read its input reports the reason at its end.
    let _ = child
        .stdin
        .take()
        .map(|mut input| input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().map_err(|e| fail(e.to_string()))?;
    if !output.status.success() {
        return Err(fail(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_its_own_interfaces_and_no_name() {
        if let Err(why) = sapwood_bpf::check() {
            println!("skipped: {why}");
            return;
        }
        let [left, right] = [(); 2].map(|()| Space::new().unwrap());
        left.cable(
            ("l0", "02:00:00:00:00:01"),
            &right,
            ("r0", "02:00:00:00:00:02"),
        )
        .unwrap();
        assert!(left.index("l0").unwrap() > 1 && right.index("r0").unwrap() > 1);
        assert!(left.index("r0").is_err());
        right.set("ipv4.ip_forward", "0").unwrap();
        left.set("ipv4.ip_forward", "1").unwrap();
        let shown = |space: &Space| {
            let read = || fs::read_to_string("/proc/sys/net/ipv4/ip_forward");
            space.inside(|| read().map_err(|e| e.to_string())).unwrap()
        };
        assert_eq!((shown(&left).trim(), shown(&right).trim()), ("1", "0"));
        let refused = left.ip_lines("link set l0 down\nlink set l7 down\n");
        assert!(refused.unwrap_err().contains("l7"));
        let names = ip(&["netns", "list"], "").unwrap();
        let ours = format!("sapwood-bench-{}-", std::process::id());
        assert!(!names.contains(&ours), "{names}");
    }
}
