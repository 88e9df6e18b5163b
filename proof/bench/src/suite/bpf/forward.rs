//! Packets that `xdp-route` forwards.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{ProgramInput, ProgramMut};
use sapwood_bpf::{BpfArena, HopTables, IpMap, ProgramRouteCache, Programs, Words};
use sapwood_programs as objects;
use sapwood_routes::{RouteMirror, XdpRouter};
use sapwood_xdp::{RouteMode, RouteVerdict, XdpLink, XdpMode, XdpRoute};

use crate::bpf::network::{FRAME, Frame, Network, Version};
use crate::bpf::rig;
use crate::bpf::space::Space;
use crate::report::{self, Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 8] = [
    "xdp-route-v4-1",
    "xdp-route-v4-1k",
    "xdp-route-v4-100k",
    "xdp-route-v6-1",
    "xdp-route-v6-1k",
    "xdp-route-v6-100k",
    "xdp-route-netns-v4",
    "xdp-route-netns-v6",
];

const RESOLVER: &str = "sapwood-xdp-resolver";
const CACHE: &str = "sapwood-xdp-cache";
const FIB: &str = "sapwood-xdp-fib";
const KERNEL: &str = "kernel-forwarding";
const ENGINES: [&str; 4] = [RESOLVER, CACHE, FIB, KERNEL];

/// The program, and the program that passes all frames.
const ROUTE: &str = "sw_xdp_route";
const PASS: &str = "sw_xdp_pass";

/// Return values of programs: XDP_PASS, XDP_REDIRECT.
const PASSED: u32 = 2;
const REDIRECTED: u32 = 4;

/// BPF_F_TEST_XDP_LIVE_FRAMES: the kernel delivers frames where the program sends them.
const LIVE: u32 = 1 << 1;

/// The hops left of a sent frame, which the receiver knows.
const HOPS: u8 = 64;

/// Runs these cases.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let cases = options.chosen(CASES);
    if cases.is_empty() || !ENGINES.iter().any(|engine| options.wants_engine(engine)) {
        return Ok(());
    }
    if let Err(why) = Space::new() {
        let why = format!("xdp-route: no network namespaces: {why}");
        report.begin(why);
        return Ok(());
    }
    let network = Network::new(options.size(10_000, 2000))?;
    let arena = BpfArena::create(1 << 30).map_err(|e| e.to_string())?;
    for (at, name) in cases.iter().enumerate() {
        let case = Case {
            name,
            network: &network,
            arena: &arena,
            options,
        };
        let rows = match name.starts_with("xdp-route-netns") {
            true => case.between_namespaces(cases.len() - at, report)?,
            false => case.test_runs(cases.len() - at, report)?,
        };
        println!("{}", report::table(&rows));
        for base in [KERNEL, RESOLVER] {
            if let Some(ratios) = report::ratios(&rows, base) {
                println!("\nas multiples of {base}:\n{ratios}");
                break;
            }
        }
        report.rows.extend(rows);
    }
    Ok(())
}

struct Case<'a> {
    name: &'static str,
    network: &'a Network,
    arena: &'a BpfArena,
    options: &'a Options,
}

impl Case<'_> {
    fn version(&self) -> Version {
        match self.name.contains("-v6") {
            true => Version::V6,
            false => Version::V4,
        }
    }

    fn describe(&self, what: &str, report: &mut Report) {
        let routes = self.network.routes(self.version());
        let how = format!("{}: {routes} routes; {what}", self.name);
        report.begin(how);
    }

    /// The program in each wanted configuration, with cached answers that are fresh for this long.
    fn routers(&self, fresh: Duration) -> Result<Vec<(&'static str, XdpRouter)>, String> {
        let fail = |e: sapwood_bpf::Error| e.to_string();
        let mut all = Vec::new();
        for engine in [RESOLVER, CACHE, FIB] {
            if !self.options.wants_engine(engine) {
                continue;
            }
            let made = match engine {
                CACHE => ProgramRouteCache::builder(self.arena, "flows")
                    .capacity(self.options.size(262_144, 32_768))
                    .fresh(fresh)
                    .build()
                    .and_then(XdpRoute::cached)
                    .map(XdpRouter::from),
                FIB => {
                    let map = IpMap::new(self.arena, "routes", 64 << 20).map_err(fail)?;
                    let tables = Arc::new(HopTables::new(map));
                    let start = || RouteMirror::start(tables).map_err(|e| e.to_string());
                    XdpRouter::mirrored(self.network.router.inside(start)?, 0)
                }
                _ => XdpRoute::resolver(self.arena).map(XdpRouter::from),
            };
            all.push((engine, made.map_err(|e| format!("{engine}: {e}"))?));
        }
        Ok(all)
    }

    /// Forwards frames one after the other by BPF_PROG_TEST_RUN.
    fn test_runs(
        &self,
        cases_left: usize,
        report: &mut Report,
    ) -> Result<Vec<report::Row>, String> {
        let name = self.name.rsplit('-').next();
        let flows = match name {
            Some("1") => 1,
            Some("1k") => 1000,
            _ => self.options.size(100_000, 5000),
        };
        let asked = Asked {
            frames: self.network.frames(self.version(), flows, HOPS, 2),
            calls: match flows {
                1 => self.options.size(5000, 1000),
                _ => flows,
            },
            interface: self.network.router.index("in0")?,
        };
        let what = match flows {
            1 => format!("one frame in each of {} calls", asked.calls),
            _ => format!("frames of {flows} flows, each in its own call"),
        };
        self.describe(&what, report);
        let mut routers = self.routers(Duration::from_secs(3600))?;
        let Some((_, first)) = routers.first_mut() else {
            return Ok(Vec::new());
        };
        // The interface must be prepared for programs before a frame can come from it.
        let link = self.network.router.inside(|| {
            let link = XdpLink::attach(first.programs(), PASS, asked.interface, None);
            link.map_err(|e| e.to_string())
        })?;
        let mut samples = Samples::new(self.name, &ENGINES);
        // One pass before the measurement fills the cache with all flows.
        for (engine, router) in &routers {
            self.forward(engine, router, &asked)?;
        }
        let mut unknown = 0;
        for round in self
            .options
            .rounds(&format!("bpf: {}", self.name), cases_left)
        {
            routers.rotate_left(usize::from(round > 0));
            let empty = self
                .network
                .router
                .inside(|| asked.by(routers[0].1.programs(), PASS))?;
            for (engine, router) in &routers {
                let (times, resolved) = self.forward(engine, router, &asked)?;
                if *engine == CACHE {
                    unknown = unknown.max(resolved);
                }
                let packet = (times.kernel - empty.kernel).max(0.1);
                samples.add(engine, &Measure::new("packet_ns", packet, "ns"));
                samples.add(engine, &Measure::new("mpps", 1e3 / packet, "Mpacket/s"));
                samples.add(engine, &Measure::new("call_ns", times.call, "ns"));
            }
        }
        if unknown > 0 {
            report.note(format!(
                "{}: the kernel's table answered {unknown} of {} packets, which the cache did not contain",
                self.name,
                asked.packets()
            ));
        }
        drop(link);
        Ok(samples.rows())
    }

    /// Has the program forward all frames, and checks the program's counts; also returns how many
    /// packets the kernel's table answered.
    fn forward(
        &self,
        engine: &str,
        router: &XdpRouter,
        asked: &Asked,
    ) -> Result<(Times, u64), String> {
        let counts = || router.counts().map_err(|e| e.to_string());
        let before = counts()?;
        let times = self
            .network
            .router
            .inside(|| asked.by(router.programs(), ROUTE))
            .map_err(|why| format!("{engine}: {why}"))?;
        let counts = counts()?.since(&before);
        let resolved = counts.get(RouteVerdict::Resolved);
        let by_way = match router.mode() {
            RouteMode::Cache => counts.get(RouteVerdict::Cached) + resolved,
            RouteMode::Table => counts.get(RouteVerdict::Table),
            _ => resolved,
        };
        let all = asked.packets();
        if (counts.total(), by_way) != (all, all) {
            return Err(format!("WRONG: {engine}: {all} packets: {counts:?}"));
        }
        Ok((times, resolved))
    }

    /// Sends frames from one namespace through another to a third.
    fn between_namespaces(
        &self,
        cases_left: usize,
        report: &mut Report,
    ) -> Result<Vec<report::Row>, String> {
        let flows = 1000;
        let fail = |e: sapwood_bpf::Error| e.to_string();
        let time = match self.options.quick {
            true => Duration::from_millis(150),
            false => Duration::from_secs(1),
        };
        let what = format!(
            "frames of {flows} flows for {} ms, sent, forwarded and received on one processor; answers of the cache are fresh for 100 ms",
            time.as_millis()
        );
        self.describe(&what, report);
        let ends = rig::load(self.arena, objects::BENCH_FORWARD, 0, 0)?;
        let frames = self.network.frames(self.version(), flows, HOPS, 2);
        let words = Words::create(self.arena, "frames", flows * FRAME / 8).map_err(fail)?;
        let bytes = frames.iter().flat_map(|frame| frame.sent.chunks_exact(8));
        for (at, word) in bytes.enumerate() {
            let word = word.try_into().expect("a chunk has 8 bytes");
            words.set(at, u64::from_ne_bytes(word));
        }
        let mut order = (words.window().at as u64).to_ne_bytes().to_vec();
        order.extend((flows as u32).to_ne_bytes());
        order.extend(self.network.sender.index("send0")?.to_ne_bytes());
        order.extend(0u64.to_ne_bytes());
        ends.update("sw_order", &0u32.to_ne_bytes(), &order)
            .map_err(fail)?;
        let mut receivers = Vec::new();
        for (_, end) in Network::cables() {
            let index = self.network.receiver.index(&end)?;
            receivers.push(self.network.receiver.inside(|| {
                let native = Some(XdpMode::Native);
                XdpLink::attach(&ends, "sw_receive", index, native).map_err(fail)
            })?);
        }
        let entry = self.network.router.index("in0")?;
        let mut routers: Vec<_> = self
            .routers(Duration::from_millis(100))?
            .into_iter()
            .map(|(engine, router)| (engine, Some(router)))
            .collect();
        if self.options.wants_engine(KERNEL) {
            match self.network.without_program() {
                Ok(()) => routers.push((KERNEL, None)),
                Err(why) => report.notes.push(format!("{KERNEL}: {why}")),
            }
        }
        let mut samples = Samples::new(self.name, &ENGINES);
        for round in self
            .options
            .rounds(&format!("bpf: {}", self.name), cases_left)
        {
            let turn = usize::from(round > 0 && routers.len() > 1);
            routers.rotate_left(turn);
            for (engine, router) in &mut routers {
                if let Some(router) = router {
                    let native = Some(XdpMode::Native);
                    let attach = || router.attach(entry, native).map(drop).map_err(fail);
                    self.network.router.inside(attach)?;
                }
                // This pass is not counted: it fills the caches.
                self.flood(engine, &ends, Duration::from_millis(20))?;
                let before = router.as_ref().map(|router| router.counts()).transpose();
                let before = before.map_err(fail)?;
                let flood = self.flood(engine, &ends, time)?;
                if let (Some(router), Some(before)) = (router, before) {
                    let counts = router.counts().map_err(fail)?.since(&before);
                    if counts.forwarded() < flood.received {
                        return Err(format!(
                            "WRONG: {engine}: the program did not forward all packets: {counts:?}"
                        ));
                    }
                    router.detach(entry);
                }
                let kpps = flood.received as f64 / flood.seconds / 1e3;
                let lost = 1.0 - flood.received as f64 / flood.sent as f64;
                samples.add(engine, &Measure::new("kpps", kpps, "kpacket/s"));
                samples.add(engine, &Measure::new("lost", lost, "share"));
            }
        }
        drop(receivers);
        Ok(samples.rows())
    }

    /// Sends for this long, and waits until no more frames arrive.
    fn flood(&self, engine: &str, ends: &Programs, time: Duration) -> Result<Flood, String> {
        const BURST: u32 = 16_384;
        let counts = || {
            let counts = ends.counts::<2>("sw_received");
            counts.map_err(|e| e.to_string())
        };
        let before = counts()?;
        let (sent, seconds) = self.network.sender.inside(|| {
            let sender = ends.program("sw_send").map_err(|e| e.to_string())?;
            let begin = Instant::now();
            let mut sent = 0u64;
            while begin.elapsed() < time {
                let burst = ProgramInput {
                    data_in: Some(&[0; FRAME]),
                    flags: LIVE,
                    repeat: BURST,
                    ..ProgramInput::default()
                };
                sender
                    .test_run(burst)
                    .map_err(|e| format!("sending: {e}"))?;
                sent += u64::from(BURST);
            }
            Ok((sent, begin.elapsed().as_secs_f64()))
        })?;
        let mut last = counts()?;
        for _ in 0..200 {
            thread::sleep(Duration::from_millis(5));
            let now = counts()?;
            if now == std::mem::replace(&mut last, now) {
                break;
            }
        }
        let [received, wrong] = [last[0] - before[0], last[1] - before[1]];
        if wrong > 0 || received == 0 || received > sent {
            return Err(format!(
                "WRONG: {}: {engine}: {sent} packets sent, {received} received, {wrong} others",
                self.name
            ));
        }
        Ok(Flood {
            sent,
            received,
            seconds,
        })
    }
}

struct Flood {
    sent: u64,
    received: u64,
    seconds: f64,
}

/// The frames for test runs.
struct Asked {
    frames: Vec<Frame>,
    /// The number of calls, one frame each; the first frame follows the last.
    calls: usize,
    /// The interface where the frames come in.
    interface: u32,
}

/// The times of all frames.
struct Times {
    /// Nanoseconds per packet by the kernel's clock, which measures only the program: the median of
    /// the means of 250 calls.
    kernel: f64,
    /// Nanoseconds per call by this process's clock, the system call and the comparison included.
    call: f64,
}

impl Asked {
    fn packets(&self) -> u64 {
        self.calls as u64
    }

    /// Has a program process all frames, and compares the results. The caller is in the router's
    /// namespace.
    fn by(&self, programs: &Programs, program: &str) -> Result<Times, String> {
        let at_once = 250;
        let found = programs.program(program).map_err(|e| e.to_string())?;
        let forwarded = program == ROUTE;
        let mut means = Vec::new();
        let begin = Instant::now();
        for from in (0..self.calls).step_by(at_once) {
            let calls = at_once.min(self.calls - from);
            let mut sum = Duration::ZERO;
            for frame in self
                .frames
                .iter()
                .cycle()
                .skip(from % self.frames.len())
                .take(calls)
            {
                sum += self.call(&found, frame, forwarded)?;
            }
            means.push(sum.as_nanos() as f64 / calls as f64);
        }
        let call = begin.elapsed().as_nanos() as f64 / self.calls as f64;
        means.sort_by(f64::total_cmp);
        Ok(Times {
            kernel: means[means.len() / 2],
            call,
        })
    }

    fn call(
        &self,
        program: &ProgramMut<'_>,
        frame: &Frame,
        forwarded: bool,
    ) -> Result<Duration, String> {
        let mut got = [0; FRAME];
        // The fields of `struct xdp_md`: where the frame ends, and where it comes in.
        let context = [0, FRAME as u32, 0, self.interface, 0, 0];
        let mut context: Vec<u8> = context.into_iter().flat_map(u32::to_ne_bytes).collect();
        let done = program
            .test_run(ProgramInput {
                data_in: Some(&frame.sent),
                data_out: Some(&mut got),
                context_in: Some(&mut context),
                ..ProgramInput::default()
            })
            .map_err(|e| format!("a test run: {e}"))?;
        let (answer, duration) = (done.return_value, done.duration);
        let right = match forwarded {
            true => answer == REDIRECTED && got == frame.after(1),
            false => answer == PASSED && got == frame.sent,
        };
        if !right {
            return Err(format!(
                "WRONG: answer {answer} and {got:x?} to {:x?}",
                frame.sent
            ));
        }
        Ok(duration)
    }
}
