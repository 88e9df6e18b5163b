//! Asks a resolver many questions a second while its lists are read again, and judges each answer.
//!
//! `questions list FILE` writes the first text of a list. A resolver answers by it, and its server
//! of lists sees each new text. Then `questions ask ADDRESS:PORT FILE` asks, writes ten new texts
//! one after the other, and fails if an answer is missing or wrong. Processes whose memory is told
//! may follow. `RULES`, `RATE` (questions a second), `FLOOR` and `RELOADS` are read from the
//! environment.
//!
//! Each text has the names of one side, and the next one those of the other. A client asks for a
//! name of one side, then for one of the other: it may never find both, nor none. So what its
//! answers say changes sides as often as the lists do, at most; one answer by half of a list would
//! be a change more. `ci/lists.sh` runs it with dnsdist and CoreDNS.

use std::error::Error;
use std::fmt::Write as _;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: u32 = 16;
/// Names of each side.
const SIDED: usize = 2000;
/// The time in which a question has to be answered, and a new text has to be in force.
const LIMIT: Duration = Duration::from_secs(20);
const LAG: Duration = Duration::from_millis(100);
/// The time between two texts.
const PAUSE: Duration = Duration::from_millis(300);

type Failure = Box<dyn Error + Send + Sync>;

/// A number from the environment.
fn number(name: &str, usual: u32) -> Result<u32, Failure> {
    match std::env::var(name) {
        Ok(text) => Ok(text.parse().map_err(|error| format!("{name}: {error}"))?),
        Err(_) => Ok(usual),
    }
}

/// Writes a text of the list beside it, and gives it its name.
fn write(file: &Path, text: u32) -> Result<(), Failure> {
    let mut lines = format!("||stays.test^\n@@||good.stays.test^\n||text{text}.test^\n");
    let side = text % 2;
    for i in 0..SIDED {
        writeln!(lines, "||n{i}.side{side}.test^")?;
    }
    for i in 0..number("RULES", 100_000)? {
        writeln!(lines, "||k{i}.z{}.many.test^", i % 997)?;
    }
    let beside = file.with_extension("new");
    std::fs::write(&beside, lines)?;
    Ok(std::fs::rename(beside, file)?)
}

/// A client, which asks one question after the other.
struct Client {
    socket: UdpSocket,
    id: u16,
    longest: Duration,
}

impl Client {
    fn new(server: &str) -> Result<Self, Failure> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(LIMIT))?;
        Ok(Client {
            socket,
            id: 0,
            longest: Duration::ZERO,
        })
    }

    /// Whether a name is blocked.
    fn is_blocked(&mut self, name: &str) -> Result<bool, Failure> {
        self.id = self.id.wrapping_add(1);
        let id = self.id.to_be_bytes();
        let mut query = [&id[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
        for label in name.split('.') {
            query.push(u8::try_from(label.len())?);
            query.extend(label.as_bytes());
        }
        query.extend([0, 0, 1, 0, 1]);
        let begun = Instant::now();
        self.socket.send(&query)?;
        let mut answer = [0; 1024];
        let bytes = self.socket.recv(&mut answer);
        let bytes = bytes.map_err(|error| format!("no answer for {name}: {error}"))?;
        self.longest = self.longest.max(begun.elapsed());
        match answer[..bytes] {
            [high, low, flags, code, ..] if [high, low] == id && flags & 0x80 != 0 => {
                match code & 15 {
                    0 => Ok(false),
                    3 => Ok(true),
                    other => Err(format!("the answer for {name} is an error: {other}").into()),
                }
            }
            _ => Err(format!("the answer for {name} is that of another question").into()),
        }
    }
}

/// What a client has seen.
struct Seen {
    asked: u32,
    longest: Duration,
}

/// Asks at a pace until the end. `reloads` is how often sides change at most.
fn ask(server: &str, number: u32, over: &AtomicBool, pace: Pace) -> Result<Seen, Failure> {
    let mut client = Client::new(server)?;
    let (mut asked, mut side, mut changes) = (0, 0, 0);
    let mut next = Instant::now() + pace.between / CLIENTS * number;
    while !over.load(Ordering::Acquire) {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        // Who is late makes up for a tenth of a second, and not for more.
        next = (next + pace.between).max(Instant::now() - LAG);
        let i = (asked as usize)
            .wrapping_mul(7)
            .wrapping_add(number as usize)
            % SIDED;
        let (name, wanted) = match asked % 5 {
            0 => ("www.stays.test".to_owned(), Some(true)),
            1 => ("good.stays.test".to_owned(), Some(false)),
            2 => (format!("k{i}.z{}.many.test", i % 997), Some(true)),
            _ => (format!("n{i}.side{}.test", asked % 2), None),
        };
        let is_blocked = client.is_blocked(&name)?;
        if wanted.is_some_and(|wanted| wanted != is_blocked) {
            return Err(format!("{name} is blocked: {is_blocked}").into());
        }
        if wanted.is_none() {
            let now = if is_blocked { asked % 2 } else { 1 - asked % 2 };
            changes += u32::from(now != side);
            side = now;
        }
        asked += 1;
    }
    if changes > pace.reloads {
        let what = format!(
            "{changes} changes of sides, and {} of the list",
            pace.reloads
        );
        return Err(what.into());
    }
    Ok(Seen {
        asked,
        longest: client.longest,
    })
}

#[derive(Clone, Copy)]
struct Pace {
    between: Duration,
    reloads: u32,
}

/// Writes new texts, and waits until each is in force.
fn reload(server: &str, file: &Path, reloads: u32) -> Result<Duration, Failure> {
    let mut client = Client::new(server)?;
    let mut longest = Duration::ZERO;
    for text in 1..=reloads {
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        write(file, text)?;
        while !client.is_blocked(&format!("text{text}.test"))? {
            if begun.elapsed() > LIMIT {
                return Err(format!("text {text} of the list is not in force").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        longest = longest.max(begun.elapsed());
    }
    std::thread::sleep(PAUSE);
    Ok(longest)
}

/// A number of kilobytes that the kernel says of a process, in MiB.
fn memory(process: &str, what: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

fn ask_all(server: &str, file: &Path, processes: &[String]) -> Result<(), Failure> {
    let (rate, reloads) = (number("RATE", 10_000)?, number("RELOADS", 10)?);
    let floor = number("FLOOR", 500)?;
    let pace = Pace {
        between: Duration::from_secs(1) * CLIENTS / rate,
        reloads,
    };
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let (all, longest_reload) = std::thread::scope(|scope| {
        let ask = |number| {
            let over = &over;
            scope.spawn(move || ask(server, number, over, pace))
        };
        let clients: Vec<_> = (0..CLIENTS).map(ask).collect();
        let longest = reload(server, file, reloads);
        over.store(true, Ordering::Release);
        let all: Vec<_> = clients
            .into_iter()
            .map(|client| client.join().expect("a client does not panic"))
            .collect();
        (all, longest)
    });
    let took = begun.elapsed();
    let all = all.into_iter().collect::<Result<Vec<Seen>, Failure>>()?;
    let asked: u32 = all.iter().map(|seen| seen.asked).sum();
    let longest = all.iter().map(|seen| seen.longest).max();
    let reached = f64::from(asked) / took.as_secs_f64();
    println!(
        "{asked} questions, {reached:.0} a second of {rate}, {reloads} reloads, all answered by \
         whole lists; the longest answer took {} ms, the longest reload {} ms",
        longest.unwrap_or_default().as_millis(),
        longest_reload?.as_millis()
    );
    for process in processes {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm"))?;
        let of = |what| memory(process, what).ok_or(format!("{process}: no {what}"));
        let (now, peak) = (of("VmRSS")?, of("VmHWM")?);
        println!("{}: {now} MiB now, {peak} MiB at the peak", name.trim());
    }
    if reached < f64::from(floor) {
        return Err(format!("less than {floor} questions a second").into());
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [word, file] if word == "list" => write(file.as_ref(), 0),
        [word, server, file, processes @ ..] if word == "ask" => {
            ask_all(server, file.as_ref(), processes)
        }
        _ => Err("usage: questions list FILE; questions ask ADDRESS:PORT FILE [PROCESS...]".into()),
    }
}
