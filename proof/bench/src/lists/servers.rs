//! Engines of the suite `lists` that are name servers: Unbound, BIND and dnsmasq.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood_model::systems::dns::{A, Answer, Question, ask};
use sapwood_model::systems::servers::{bind, dnsmasq, program, says, unbound};

use super::{LAST, Questions, Values, forget_peak, longest_gap, memory, text, texts};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(300);
/// The longest reading of a list.
const LONGEST: Duration = Duration::from_secs(600);

fn question(name: &str) -> Question {
    Question {
        name: name.to_owned(),
        rtype: A,
    }
}

/// Measures a server, if it is installed.
pub fn measure(
    engine: &str,
    folder: &Path,
    questions: &Questions,
) -> Result<Result<Values, String>, String> {
    let name = match engine {
        "bind-rpz" => "named",
        other => other,
    };
    let Some(program) = program(name) else {
        return Ok(Err(format!("{name} is not installed")));
    };
    let [before, after] = texts(folder);
    let list = folder.join("list");
    fs::copy(&before, &list).map_err(text)?;
    let blocks = |server, name: &str| says(server, &question(name), &Answer::Nxdomain);
    // BIND answers by a part of a zone while it reads the others.
    let has_read = |server, text: usize| {
        let some: Vec<Question> = questions.some[text]
            .iter()
            .map(|name| question(name))
            .collect();
        blocks(server, LAST[text])
            && ask(server, &some, PATIENCE)
                .iter()
                .all(|answer| *answer == Answer::Nxdomain)
    };
    let is_ready = |server| has_read(server, 0);
    let lists = [list.clone()];
    let begin = Instant::now();
    let server = match engine {
        "unbound" => unbound(&program, &lists, false, folder, is_ready),
        "bind-rpz" => bind(&program, &lists, folder, is_ready),
        _ => dnsmasq(&program, &lists, "servers-file", folder, is_ready),
    };
    let load = begin.elapsed().as_secs_f64();
    let rss = memory(server.id())?.0;
    forget_peak(server.id())?;

    // BIND reads a zone again whose serial is another one.
    let changed = fs::read_to_string(&after).map_err(text)?;
    fs::write(
        &list,
        changed.replacen("root.localhost. 1 ", "root.localhost. 2 ", 1),
    )
    .map_err(text)?;
    let is_over = AtomicBool::new(false);
    let begin = Instant::now();
    let signal = Command::new("kill")
        .args(["-HUP", &server.id().to_string()])
        .status();
    if !signal.map_err(text)?.success() {
        return Err(format!("{name} has ended"));
    }
    let (reload, gap) = std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let asked = question(&questions.all[1].0);
            let one = || {
                // A question that is lost is asked again: the gap goes on.
                while ask(server.address, std::slice::from_ref(&asked), PATIENCE)[0] == Answer::Drop
                {
                    if begin.elapsed() > LONGEST {
                        return Err("it does not answer any more".to_owned());
                    }
                }
                Ok(())
            };
            longest_gap(one, || is_over.load(Ordering::Relaxed))
        });
        while !has_read(server.address, 1) && begin.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(1));
        }
        let time = begin.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let gap = asks
            .join()
            .map_err(|_| "a reader has failed".to_owned())??;
        match time < LONGEST {
            true => Ok((time.as_secs_f64(), gap)),
            false => Err(format!("{name} does not read its list again")),
        }
    })?;
    let peak = memory(server.id())?.1;
    let asked: Vec<Question> = questions
        .all
        .iter()
        .map(|(name, _)| question(name))
        .collect();
    let begin = Instant::now();
    let answers = ask(server.address, &asked, PATIENCE);
    let rate = asked.len() as f64 / begin.elapsed().as_secs_f64() / 1e6;
    let gone = questions.gone.iter().map(|name| question(name));
    let gone: Vec<Question> = gone.chain([question(LAST[0])]).collect();
    let expected = questions.all.iter().map(|(_, is_blocked)| *is_blocked);
    let expected = expected.chain(gone.iter().map(|_| false));
    let mut answers = answers
        .into_iter()
        .chain(ask(server.address, &gone, PATIENCE));
    for (asked, is_blocked) in asked.iter().chain(&gone).zip(expected) {
        let mut answer = answers.next().unwrap_or(Answer::Drop);
        let wanted = if is_blocked {
            Answer::Nxdomain
        } else {
            Answer::Upstream
        };
        // A lost question; or BIND, which is not ready with all of a zone.
        for _ in 0..100 {
            if answer != wanted {
                std::thread::sleep(Duration::from_millis(20));
                answer = ask(server.address, std::slice::from_ref(asked), PATIENCE)[0].clone();
            }
        }
        if answer != wanted {
            return Err(format!("WRONG: {}: {answer:?}", asked.name));
        }
    }
    Ok(Ok(vec![
        ("load_s", load),
        ("reload_s", reload),
        ("reload_gap_ms", gap),
        ("rss_mb", rss),
        ("peak_mb", peak),
        ("bytes_per_rule", rss * 1e6 / questions.names as f64),
        ("ask_mops", rate),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::Set;
    use sapwood_model::lists::Format;

    #[test]
    fn servers_answer_as_the_list_says() {
        for (engine, format) in [
            ("unbound", Format::Unbound),
            ("bind-rpz", Format::Rpz),
            ("dnsmasq", Format::Dnsmasq),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let set = Set::new(3000, None).unwrap();
            set.write(format, folder.path()).unwrap();
            let questions = Questions::read(folder.path(), 600).unwrap();
            match measure(engine, folder.path(), &questions).unwrap() {
                Ok(all) => assert_eq!(all.len(), 7, "{engine}: {all:?}"),
                Err(why) => println!("skipped: {why}"),
            }
        }
    }
}
