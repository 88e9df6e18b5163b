//! Metrics: registered once, set in the loop of a command, and published as one text.

use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

use super::catalogue::{BUILD, Kind, Metric, UPDATED};
use super::file;
use super::http::Server;
use super::place::Place;
use crate::errors::{Error, complain};

/// The upper bounds of the classes of durations, in seconds.
const CLASSES: [f64; 8] = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0];

/// The metrics of a command. What [`publish`](Self::publish) was called with last is what a scrape
/// or the file shows.
///
/// ```
/// use sapwood_cli::service::catalogue::Metric;
/// use sapwood_cli::service::metrics::{Metrics, raise};
/// use sapwood_cli::service::place::Place;
///
/// const SEEN: Metric = Metric::counter("sapwood_example_seen_total", &["what"], "Things seen.");
/// let to = Place::Address("127.0.0.1:0".parse()?);
/// let metrics = Metrics::begin(Some(&to), &[("map", "/dev/shm/words")])?;
/// let seen = metrics.counters(&SEEN)?;
/// raise(&seen.with_label_values(&["trees"]), 3);
/// metrics.publish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Metrics {
    registry: Registry,
    updated: Gauge,
    to: To,
}

/// Where the text goes.
enum To {
    Nobody,
    File(std::path::PathBuf),
    Server(Server),
}

impl Metrics {
    /// Checks a file, or listens at an address and says on stderr where. All metrics have these
    /// labels.
    pub fn begin(to: Option<&Place>, labels: &[(&str, &str)]) -> Result<Self, Error> {
        let labels = labels.iter();
        let labels = labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let registry = Registry::new_custom(None, Some(labels.collect()))?;
        let to = match to {
            None => To::Nobody,
            Some(Place::File(path)) => {
                file::check(path)?;
                To::File(path.clone())
            }
            Some(Place::Address(address)) => {
                let server = Server::begin(*address)?;
                complain(&format!("metrics at http://{}/metrics", server.address()));
                To::Server(server)
            }
        };
        let build = gauge_vec(&BUILD)?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let updated = Gauge::with_opts(opts(&UPDATED))?;
        registry.register(Box::new(build))?;
        registry.register(Box::new(updated.clone()))?;
        Ok(Metrics {
            registry,
            updated,
            to,
        })
    }

    fn add<C: Collector + Clone + 'static>(
        &self,
        metric: &Metric,
        kind: Kind,
        made: prometheus::Result<C>,
    ) -> Result<C, Error> {
        debug_assert_eq!(metric.kind, kind, "{}", metric.name);
        let made = made?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }

    /// Registers a metric that goes up and down.
    pub fn gauge(&self, metric: &Metric) -> Result<IntGauge, Error> {
        self.add(metric, Kind::Gauge, IntGauge::with_opts(opts(metric)))
    }

    /// Registers metrics that go up and down, one for each combination of the metric's labels.
    pub fn gauges(&self, metric: &Metric) -> Result<IntGaugeVec, Error> {
        self.add(metric, Kind::Gauge, gauge_vec(metric))
    }

    /// Registers metrics that go up and down and have fractions: times in seconds.
    pub fn seconds(&self, metric: &Metric) -> Result<GaugeVec, Error> {
        let made = GaugeVec::new(opts(metric), metric.labels);
        self.add(metric, Kind::Gauge, made)
    }

    /// Registers a metric that only grows.
    pub fn counter(&self, metric: &Metric) -> Result<IntCounter, Error> {
        self.add(metric, Kind::Counter, IntCounter::with_opts(opts(metric)))
    }

    /// Registers metrics that only grow, one for each combination of the metric's labels.
    pub fn counters(&self, metric: &Metric) -> Result<IntCounterVec, Error> {
        let made = IntCounterVec::new(opts(metric), metric.labels);
        self.add(metric, Kind::Counter, made)
    }

    /// Registers how long something takes, in seconds.
    pub fn durations(&self, metric: &Metric) -> Result<Histogram, Error> {
        let made = HistogramOpts::new(metric.name, metric.help).buckets(CLASSES.to_vec());
        self.add(metric, Kind::Histogram, Histogram::with_opts(made))
    }

    /// Shows the metrics as they are now: to those who ask the address, or in the file.
    pub fn publish(&self) -> Result<(), Error> {
        if matches!(self.to, To::Nobody) {
            return Ok(());
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        self.updated.set(now.unwrap_or_default().as_secs_f64());
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        match &self.to {
            To::Nobody => {}
            To::File(path) => file::write(path, &text)?,
            To::Server(server) => server.show(text),
        }
        Ok(())
    }

    /// Whether anybody can see the metrics.
    pub fn is_wanted(&self) -> bool {
        !matches!(self.to, To::Nobody)
    }
}

fn opts(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

fn gauge_vec(metric: &Metric) -> prometheus::Result<IntGaugeVec> {
    IntGaugeVec::new(opts(metric), metric.labels)
}

/// Raises a counter to a total that is counted elsewhere. A total that has become smaller changes
/// nothing.
pub fn raise(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

/// Sets a gauge to a number of bytes or of things.
pub fn set(gauge: &IntGauge, value: usize) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}
