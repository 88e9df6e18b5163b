package sapwood

import "encoding/binary"

// The functions of core/format: they compute on words that were read already.

// The module needs numbers of 64 bits: places of a window have 33.
var _ [^uint(0)>>63 - 1]struct{}

// byteOf is the place of a cell's node.
func byteOf(cell uint32) int { return int(cell&^cellKind) * 2 }

// isBranch says whether a cell's node is a branch, or the cell is empty.
func isBranch(cell uint32) bool { return cell&cellKind == 0 }

// Headers of branches, without the bits that readers ignore.

func branchOffset(h uint32) int { return int(h & headOffset) }
func branchLabels(h uint32) int { return int(h>>headCountAt&headCount) + 1 }

func branchCells(h uint32) int {
	if h&headBig != 0 {
		return branchBigCells
	}
	return int(h >> headCellsAt & headCells)
}

// branchBlock is the bytes of a branch's block.
func branchBlock(h uint32) int { return (branchCells(h) + 4*(branchLabels(h)+1) + 7) &^ 7 }

// branchIsSound says whether a branch can have this header below one whose offset is least - 1.
func branchIsSound(h uint32, least int) bool {
	offset, labels := branchOffset(h), branchLabels(h)
	layout := uint32(headBig)
	if labels <= branchSmallMax {
		layout = uint32(branchLabelsAt+(labels+3)&^3) << headCellsAt
	}
	return h == uint32(offset)|uint32(labels-1)<<headCountAt|layout && offset >= least
}

// childOfMap is the child of a byte in a big branch, from the byte's entry in the map.
func childOfMap(h uint32, mapped byte) int { return int(mapped) + branchLabels(h)>>8 }

// Headers of clusters, without the mark of a writer.

func clusterBase(h uint32) int     { return int(h & headOffset) }
func clusterLeaves(h uint32) int   { return int(h >> headCountAt & headCount) }
func clusterCapacity(h uint32) int { return int(h >> headCellsAt & headCells) }

// clusterIsSound says whether a cluster with up to most slots and at least fewest entries can have
// this header.
func clusterIsSound(h uint32, fewest, most int) bool {
	leaves, capacity := clusterLeaves(h), clusterCapacity(h)
	return h&(headMark|headFresh|3<<24) == 0 && fewest <= leaves && leaves <= capacity &&
		capacity <= most
}

// clusterBlock is the bytes of the block of a cluster of cells.
func clusterBlock(capacity int) int { return (clusterTagsAt + 7*capacity + 7) &^ 7 }

// extent is the second word of an inline cluster.
type extent uint32

func (e extent) block() int  { return int(e>>8&0xff) * 8 }
func (e extent) prefix() int { return int(e >> 16 & 0xff) }

// entries is the layout of entries in inline clusters: the bytes of a value before the tail, and
// the multiple at which entries begin.
type entries struct{ head, step int }

func entriesOf(head, align int) entries {
	if align > 4 {
		return entries{head, 8}
	}
	return entries{head, 4}
}

func (e entries) rounded(n int) int { return (n + e.step - 1) &^ (e.step - 1) }

// heapAt is where the heap begins in a cluster.
func (e entries) heapAt(capacity, prefix int) int {
	return e.rounded(inlineTagsAt + 4*capacity + prefix)
}

// entry is the bytes of an entry with such a tail and this many bytes behind it.
func (e entries) entry(tail, behind int) int { return e.rounded(e.head + 1 + tail + behind) }

// cellAt is where the cell is in an entry that is a leaf of its own.
func (e entries) cellAt() int {
	if e.head >= 4 {
		return 0
	}
	return e.head + 1
}

// outside is the bytes of such an entry.
func (e entries) outside() int { return e.rounded(max(e.head+1, e.cellAt()+4)) }

// inlineBlock is the bytes of a block whose heap ends there.
func inlineBlock(end int) int { return max(32, (end+7)&^7) }

// tagOf is the tag of a key in a cluster: the upper 8 bits of a hash.
func tagOf(key []byte) byte {
	factors := [...]uint64{tagFactor0, tagFactor1, tagFactor2, tagFactor3}
	mixed := func(sum uint64) uint64 { return (sum ^ sum>>32) * tagFactor4 }
	// Four words of a piece of 8 to 32 bytes, which overlap depending on its length.
	added := func(sum uint64, piece []byte) uint64 {
		n := len(piece)
		half := min(n, 16)
		for i, at := range [...]int{0, half - 8, n - half, n - 8} {
			sum += binary.LittleEndian.Uint64(piece[at:]) * factors[i]
		}
		return sum
	}
	n := len(key)
	sum := uint64(n)
	switch {
	case n < 8:
		var first [8]byte
		copy(first[:], key)
		sum += binary.LittleEndian.Uint64(first[:]) * factors[0]
	case n <= 32:
		sum = added(sum, key)
	default:
		for rest := key; len(rest) > 32; rest = rest[32:] {
			sum = mixed(added(sum, rest[:32]))
		}
		sum = added(sum, key[n-32:])
	}
	return byte(mixed(sum) >> 56)
}

type secrets [hashSecrets]uint64

// hash is the hash of a key in the index.
func (s *secrets) hash(key []byte) uint64 {
	product := func(word, secret uint64) uint64 {
		low, high := uint32(word)+uint32(secret), uint32(word>>32)+uint32(secret>>32)
		return uint64(low) * uint64(high)
	}
	mix := func(sum uint64) uint64 {
		sum = (sum ^ sum>>32) * hashFactor
		return sum ^ sum>>32
	}
	// The key as it lies in a leaf: its length, its bytes, zeros.
	var head [8]byte
	filled := 1
	head[0] = byte(len(key))
	if len(key) >= keyLong {
		head[0], filled = keyLong, 3
		binary.LittleEndian.PutUint16(head[1:], uint16(len(key)))
	}
	rest := key[copy(head[filled:], key):]
	sum := product(binary.LittleEndian.Uint64(head[:]), s[0])
	place := 1
	for len(rest) > 0 {
		if place == hashSecrets {
			sum, place = mix(sum), 0
		}
		var word [8]byte
		rest = rest[copy(word[:], rest):]
		sum += product(binary.LittleEndian.Uint64(word[:]), s[place])
		place++
	}
	for ; place%hashStep != 0; place++ {
		sum += product(0, s[place])
	}
	return mix(sum)
}

// layoutHash is FNV-1a of a structure's name and words, by which memory says what it holds.
func layoutHash(name string, words ...uint64) uint64 {
	sum := uint64(fnvBasis)
	for _, c := range []byte(name) {
		sum = (sum ^ uint64(c)) * fnvPrime
	}
	return addedToHash(sum, words...)
}

func addedToHash(sum uint64, words ...uint64) uint64 {
	for _, word := range words {
		sum = (sum ^ word) * fnvPrime
	}
	return sum
}

// The names in layout hashes.
const (
	namesLayout  = "sapwood qp"
	rangesLayout = "sapwood ranges"
	lpmLayout    = "sapwood lpm"
	mapleLayout  = "sapwood maple"
	// The number of the format of saved ranges.
	rangesFormat = 1
	// The numbers of the formats of published tables and range maps.
	lpmFormat, mapleFormat = 2, 1
)

// What layout hashes begin with that are compared for each lookup.
var (
	lpmNamed   = layoutHash(lpmLayout)
	mapleNamed = layoutHash(mapleLayout)
)

// layout is what the header page of a map says of its values and its format.
type layout struct {
	valueBytes, hash uint64
	strings          bool
	align            int
	format           uint64
}

var aligns = [...]int{8, 4, 2, 1}

// layoutOf finds the alignment and the format that a layout hash says; false when it says another
// type, or a format that this package does not know.
func layoutOf(valueBytes, hash uint64, strings bool) (layout, bool) {
	known := aligns[:]
	if strings {
		known = aligns[:1]
	}
	for _, format := range []uint64{formatInline, formatShared, formatCells} {
		for _, align := range known {
			if layoutHash(namesLayout, valueBytes, uint64(align), format) == hash {
				return layout{valueBytes, hash, strings, align, format}, true
			}
		}
	}
	return layout{}, false
}

// valueBytesMax is the most bytes of a value in a saved file, by whose layout hash they are found.
const valueBytesMax = 4096

// valuesOf finds the bytes and the alignment of values that a layout hash of this name says.
func valuesOf(hash uint64, name string, format uint64) (size uint64, align int, known bool) {
	named := layoutHash(name)
	for size := range uint64(valueBytesMax + 1) {
		for _, align := range aligns {
			if addedToHash(named, size, uint64(align), format) == hash {
				return size, align, true
			}
		}
	}
	return 0, 0, false
}
