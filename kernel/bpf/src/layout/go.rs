//! The constants of the reader in Go. `doors/go/layout.go` is generated from this file.

use sapwood::lpm::FIB_FILE_LAYOUT;
use sapwood_arena::HEADER_LAYOUT;
use sapwood_format::{self as format, branch, bucket, cluster, hash, header, inline, leaf};
use sapwood_format::{lpm, maple};

use super::{BYTES_MAX, Kind, page, root};

/// The names and values of one subject.
type Group = (&'static str, Vec<(&'static str, u64)>);

/// The constants by subject.
fn groups() -> Vec<Group> {
    let small = |list: &[(&'static str, usize)]| {
        let wide = list.iter().map(|(name, value)| (*name, *value as u64));
        wide.collect::<Vec<_>>()
    };
    let mut page_words = small(&[
        ("pageBytes", header::PAGE),
        ("arenaMax", BYTES_MAX),
        ("versionAt", page::VERSION_AT),
        ("bytesAt", page::BYTES_AT),
        ("windowsAt", page::WINDOWS_AT),
        ("windowsMax", page::WINDOWS_MAX),
        ("windowBytes", page::WINDOW_BYTES),
        ("windowKind", page::WINDOW_KIND),
        ("windowAt", page::WINDOW_AT),
        ("windowLen", page::WINDOW_LEN),
        ("windowName", page::WINDOW_NAME),
        ("nameMax", page::NAME_MAX),
    ]);
    page_words.insert(0, ("arenaMagic", page::MAGIC));
    page_words.insert(1, ("arenaVersion", page::VERSION.into()));
    vec![
        ("The arena's header page.", page_words),
        (
            "The header page of a window.",
            vec![
                ("headerPage", header::PAGE as u64),
                ("layoutHashAt", header::LAYOUT_AT as u64),
                ("secretsAt", header::EXTRA_AT as u64),
                ("valueBytesAt", root(header::VALUE_BYTES)),
                ("hasIndexAt", root(header::HAS_INDEX)),
                ("rootAt", root(header::ROOT)),
                ("tableAt", root(header::TABLE)),
                ("byteStrings", header::BYTE_STRINGS),
                ("onlyIndex", header::ONLY_INDEX),
                ("formatCells", header::FORMAT),
                ("formatInline", header::INLINE_FORMAT),
                ("formatShared", header::SHARED_FORMAT),
                ("fnvBasis", format::FNV_BASIS),
                ("fnvPrime", format::FNV_PRIME),
            ],
        ),
        (
            "Cells.",
            vec![
                ("unitBytes", format::UNIT as u64),
                ("cellLeaf", format::LEAF.into()),
                ("cellCluster", format::CLUSTER.into()),
                ("cellInline", format::INLINE.into()),
                ("cellKind", format::KIND.into()),
            ],
        ),
        (
            "Headers of branches and clusters.",
            vec![
                ("headBig", branch::BIG.into()),
                ("headFresh", branch::FRESH.into()),
                ("headMark", branch::MARK.into()),
                ("headLocks", branch::LOCKS.into()),
                ("headOffset", branch::OFFSET.into()),
                ("headCountAt", branch::COUNT_AT.into()),
                ("headCount", branch::COUNT.into()),
                ("headCellsAt", branch::CELLS_AT.into()),
                ("headCells", branch::CELLS.into()),
                ("branchSmallMax", branch::SMALL_MAX as u64),
                ("branchLabelsAt", branch::LABELS_AT as u64),
                ("branchMapAt", branch::MAP_AT as u64),
                ("branchBigCells", branch::BIG_CELLS as u64),
                ("clusterSlotsMax", cluster::SLOTS_MAX as u64),
                ("clusterTagsAt", cluster::TAGS_AT as u64),
            ],
        ),
        (
            "Factors of the tag of a key.",
            vec![
                ("tagFactor0", cluster::FACTORS[0]),
                ("tagFactor1", cluster::FACTORS[1]),
                ("tagFactor2", cluster::FACTORS[2]),
                ("tagFactor3", cluster::FACTORS[3]),
                ("tagFactor4", cluster::FACTORS[4]),
            ],
        ),
        (
            "Inline clusters.",
            small(&[
                ("inlineTagsAt", inline::TAGS_AT),
                ("inlineOutside", inline::OUTSIDE.into()),
                ("inlineTailMax", inline::TAIL_MAX),
                ("inlineSlotsMax", inline::SLOTS_MAX),
                ("inlineBlockMax", inline::BLOCK_MAX),
            ]),
        ),
        (
            "Leaves.",
            small(&[
                ("keyMax", leaf::MAX_KEY),
                ("keyLong", leaf::LONG),
                ("valueU16", leaf::VALUE_U16.into()),
                ("valueU32", leaf::VALUE_U32.into()),
            ]),
        ),
        (
            "The index and its hash.",
            vec![
                ("tableHomesAt", bucket::HOMES_AT as u64),
                ("tableTotalAt", bucket::TOTAL_AT as u64),
                ("tableShiftAt", bucket::SHIFT_AT as u64),
                ("tableNextAt", bucket::NEXT_AT as u64),
                ("tableHead", bucket::HEAD as u64),
                ("tableNothing", bucket::NOTHING.into()),
                ("bucketSlots", bucket::SLOTS as u64),
                ("bucketBytes", bucket::LINE as u64),
                ("bucketCellsAt", bucket::CELLS_AT as u64),
                ("bucketMoved", bucket::MOVED),
                ("bucketOut", bucket::OUT.into()),
                ("bucketOutMax", bucket::OUT_MAX.into()),
                ("bucketReach", bucket::REACH.into()),
                ("bucketReachMax", bucket::REACH_MAX.into()),
                ("bucketFilter", bucket::FILTER.into()),
                ("bucketWindow", bucket::WINDOW.into()),
                ("hashSecrets", hash::SECRETS as u64),
                ("hashStep", hash::STEP as u64),
                ("hashFactor", hash::FACTOR),
            ],
        ),
        ("The header page of a saved file.", HEADER_LAYOUT.to_vec()),
        (
            "What saved files hold: the root words, and the hashes that say it.",
            vec![
                ("savedRoot", 0),
                ("savedLen", 1),
                ("savedVersion", 2),
                ("routesHash", header::routes_hash(header::ROUTES_FORMAT)),
                ("routesHashOld", header::routes_hash(1)),
                (
                    "checkNames",
                    header::layout_hash(8, 8, header::INLINE_FORMAT),
                ),
                ("checkRanges", header::ranges_hash(8, 8)),
            ],
        ),
        ("A saved table of routes.", FIB_FILE_LAYOUT.to_vec()),
        (
            "Published tables of prefixes.",
            vec![
                ("lpmValueBytesAt", root(lpm::header::VALUE_BYTES)),
                ("lpmWidthAt", root(lpm::header::WIDTH)),
                ("lpmRootAt", root(lpm::header::ROOT)),
                ("lpmShelfAt", root(lpm::header::SHELF)),
                ("lpmLenAt", root(lpm::header::LEN)),
                ("lpmRef", lpm::REF.into()),
                ("lpmChild", lpm::CHILD.into()),
                ("lpmFresh", lpm::FRESH.into()),
                ("lpmStride", lpm::STRIDE.into()),
                ("lpmSlots", lpm::SLOTS as u64),
                (
                    "lpmWordMark",
                    lpm::Word::new(0, 1, 0).0.trailing_zeros().into(),
                ),
                (
                    "lpmWordValue",
                    lpm::Word::new(0, 0, 1).0.trailing_zeros().into(),
                ),
                ("lpmNodeRuns", lpm::NODE_RUNS as u64),
                ("lpmNodeBase", lpm::NODE_BASE as u64),
                ("lpmNodeCount", lpm::NODE_COUNT as u64),
                ("lpmNodeSlots", lpm::NODE_SLOTS as u64),
                ("lpmSet", lpm::SET as u64),
                ("lpmLoneValue", lpm::LONE_VALUE as u64),
                ("lpmLoneBytes", lpm::LONE_BYTES as u64),
                ("lpmLoneMax", lpm::LONE_MAX.into()),
                ("lpmShelfKids", lpm::ROOT_PREFIXES_KIDS as u64),
                ("lpmShelfValues", lpm::ROOT_PREFIXES_VALUES as u64),
                ("lpmHash4", lpm::header::layout_hash(32, 4, 4)),
                ("lpmHash6", lpm::header::layout_hash(128, 4, 4)),
            ],
        ),
        (
            "Published range maps.",
            vec![
                ("mapleValueBytesAt", root(maple::header::VALUE_BYTES)),
                ("mapleLenAt", root(maple::header::LEN)),
                ("mapleRootAt", root(maple::header::ROOT)),
                ("mapleSlotAt", root(maple::header::SLOT)),
                ("mapleApartAt", root(maple::header::APART)),
                ("mapleLine", maple::LINE as u64),
                ("mapleLevels", maple::LEVELS as u64),
                ("mapleLeafHead", maple::LEAF_HEAD as u64),
                ("mapleInnerHead", maple::INNER_HEAD as u64),
                ("mapleLeafRead1", maple::LEAF_READ[1] as u64),
                ("mapleLeafRead2", maple::LEAF_READ[2] as u64),
                ("mapleLeafRead3", maple::LEAF_READ[3] as u64),
                ("mapleHash4", maple::header::layout_hash(4, 4)),
            ],
        ),
    ]
}

/// The text of `layout.go`, as `gofmt` leaves it.
pub(super) fn source() -> String {
    let mut text = String::from(
        "// Code generated by SAPWOOD_WRITE=1 cargo test -p sapwood-bpf --test layout. DO NOT EDIT.\n\
         // The numbers are those of kernel/bpf/src/layout.rs and of core.\n\n\
         package sapwood\n",
    );
    for (title, names) in groups() {
        text += &format!("\n// {title}\nconst (\n");
        let widest = names.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in names {
            text += &if value > u64::from(u32::MAX) {
                format!("\t{name:widest$} = {value:#x}\n")
            } else {
                format!("\t{name:widest$} = {value}\n")
            };
        }
        text += ")\n";
    }
    text += "\n// The kinds of windows.\nconst (\n";
    let case = |kind: Kind| format!("Kind{kind:?}");
    let width = |kind: Kind| case(kind).len();
    let widest = Kind::ALL.into_iter().map(width).max().unwrap_or(0);
    for kind in Kind::ALL {
        text += &format!("\t{:widest$} Kind = {}\n", case(kind), kind as u32);
    }
    text += ")\n\nvar kindNames = [...]string{\n";
    for kind in Kind::ALL {
        let (case, name) = (case(kind) + ":", kind.name());
        text += &format!("\t{case:0$} {name:?},\n", widest + 1);
    }
    text += "}\n";
    text
}
