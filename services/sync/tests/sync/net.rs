//! A network of namespaces around a bridge, in which a test can cut each machine off, part two
//! machines from each other, and slow a machine's link down.

use std::process::Command;

use crate::netns::Netns;

/// Machines on one bridge. The hub itself is a machine, too, which nothing cuts off.
pub struct Net {
    hub: Netns,
    machines: Vec<Netns>,
}

impl Net {
    /// A network of so many machines, or why there is none.
    pub fn new(machines: usize) -> Result<Net, String> {
        let hub = Netns::new("hub")?;
        let mut net = Net {
            hub,
            machines: Vec::new(),
        };
        let hub = &net.hub;
        let run = |args: &[&str]| {
            let mut command = Command::new("ip");
            let output = command.args(["-n", hub.name()]).args(args).output();
            let output = output.map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.success() {
                true => Ok(()),
                false => Err(format!("ip {args:?}: {}", said.trim())),
            }
        };
        run(&["link", "add", "name", "br0", "type", "bridge"])?;
        run(&["addr", "add", "10.77.0.254/24", "dev", "br0"])?;
        run(&["link", "set", "br0", "up"])?;
        for number in 0..machines {
            let machine = Netns::new(&format!("m{number}"))?;
            let (port, address) = (port(number), format!("{}/24", address(number)));
            Netns::veth((&machine, "eth0", &[&address]), (hub, &port, &[]));
            run(&["link", "set", &port, "master", "br0"])?;
            net.machines.push(machine);
        }
        Ok(net)
    }

    /// The words before a command that runs it on a machine, or on the hub.
    pub fn on(&self, machine: Option<usize>) -> Vec<String> {
        let namespace = machine.map_or(&self.hub, |machine| &self.machines[machine]);
        ["ip", "netns", "exec", namespace.name()]
            .map(String::from)
            .to_vec()
    }

    /// Cuts a machine off from all others: what it sends, and what is sent to it, is lost.
    pub fn cut(&self, machine: usize) {
        self.hub.ip(&["link", "set", &port(machine), "down"]);
    }

    pub fn mend(&self, machine: usize) {
        self.hub.ip(&["link", "set", &port(machine), "up"]);
    }

    /// Loses what one machine sends to another. The other direction goes on.
    pub fn part(&self, from: usize, to: usize) {
        self.machines[from].ip(&["route", "add", "blackhole", &address(to)]);
    }

    pub fn join(&self, from: usize, to: usize) {
        self.machines[from].ip(&["route", "del", "blackhole", &address(to)]);
    }

    /// Gives a machine's link a rate in both directions. Packets wait for up to 400 ms, and further
    /// ones are lost. Says why when the kernel has no token bucket.
    pub fn slow(&self, machine: usize, rate: &str) -> Result<(), String> {
        let bucket = ["tbf", "rate", rate, "burst", "4kb", "latency", "400ms"];
        for (namespace, link) in self.ends(machine) {
            tc(
                namespace,
                &[&["qdisc", "replace", "dev", &link, "root"], &bucket[..]].concat(),
            )?;
        }
        Ok(())
    }

    pub fn hasten(&self, machine: usize) {
        for (namespace, link) in self.ends(machine) {
            // There is none where `slow` has failed.
            let _ = tc(namespace, &["qdisc", "del", "dev", &link, "root"]);
        }
    }

    /// Both ends of a machine's cable.
    fn ends(&self, machine: usize) -> [(&Netns, String); 2] {
        [
            (&self.machines[machine], "eth0".into()),
            (&self.hub, port(machine)),
        ]
    }
}

fn tc(namespace: &Netns, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("tc");
    let output = command.args(["-n", namespace.name()]).args(args).output();
    let output = output.map_err(|error| format!("tc: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("tc {args:?}: {}", said.trim())),
    }
}

fn port(machine: usize) -> String {
    format!("v{machine}")
}

/// The address of a machine.
pub fn address(machine: usize) -> String {
    format!("10.77.0.{}", machine + 1)
}
