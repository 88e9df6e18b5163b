package sapwood

import (
	"encoding/binary"
	"math/bits"
)

// The checksum of saved files: XXH3, 64 bits, without a seed, as its specification says
// (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).

// The default secret of the specification.
var xxhSecret = [192]byte{
	0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
	0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
	0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
	0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
	0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
	0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
	0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
	0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
	0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
	0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
	0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
	0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
}

// The primes of the specification.
const (
	xxh32Prime1 = 0x9e3779b1
	xxh32Prime2 = 0x85ebca77
	xxh32Prime3 = 0xc2b2ae3d
	xxh64Prime1 = 0x9e3779b185ebca87
	xxh64Prime2 = 0xc2b2ae3d27d4eb4f
	xxh64Prime3 = 0x165667b19e3779f9
	xxh64Prime4 = 0x85ebca77c2b2ae63
	xxh64Prime5 = 0x27d4eb2f165667c5
	xxhPrimeMX1 = 0x165667919e3779f9
	xxhPrimeMX2 = 0x9fb21c651e98df25
)

const (
	xxhStripe = 64
	// Stripes of a block: the secret is used from each eighth byte on.
	xxhStripes = (len(xxhSecret) - xxhStripe) / 8
)

func xxhSecret32(at int) uint64 { return uint64(binary.LittleEndian.Uint32(xxhSecret[at:])) }
func xxhSecret64(at int) uint64 { return binary.LittleEndian.Uint64(xxhSecret[at:]) }

func xxhFold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func xxhAvalanche(sum uint64) uint64 {
	sum = (sum ^ sum>>37) * xxhPrimeMX1
	return sum ^ sum>>32
}

// The last steps of XXH64, which short inputs have.
func xxh64Avalanche(sum uint64) uint64 {
	sum = (sum ^ sum>>33) * xxh64Prime2
	sum = (sum ^ sum>>29) * xxh64Prime3
	return sum ^ sum>>32
}

// xxhMix mixes 16 bytes with the secret from a place on.
func xxhMix(b []byte, secret int) uint64 {
	return xxhFold(binary.LittleEndian.Uint64(b)^xxhSecret64(secret),
		binary.LittleEndian.Uint64(b[8:])^xxhSecret64(secret+8))
}

// xxh3 is the checksum of bytes.
func xxh3(b []byte) uint64 {
	n := len(b)
	size := uint64(n)
	switch {
	case n == 0:
		return xxh64Avalanche(xxhSecret64(56) ^ xxhSecret64(64))
	case n < 4:
		word := uint64(b[0])<<16 | uint64(b[n/2])<<24 | uint64(b[n-1]) | size<<8
		return xxh64Avalanche(word ^ xxhSecret32(0) ^ xxhSecret32(4))
	case n <= 8:
		first, last := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[n-4:])
		word := uint64(last) + uint64(first)<<32
		word ^= xxhSecret64(8) ^ xxhSecret64(16)
		word ^= bits.RotateLeft64(word, 49) ^ bits.RotateLeft64(word, 24)
		word *= xxhPrimeMX2
		word = (word ^ (word>>35 + size)) * xxhPrimeMX2
		return word ^ word>>28
	case n <= 16:
		low := binary.LittleEndian.Uint64(b) ^ xxhSecret64(24) ^ xxhSecret64(32)
		high := binary.LittleEndian.Uint64(b[n-8:]) ^ xxhSecret64(40) ^ xxhSecret64(48)
		return xxhAvalanche(size + bits.ReverseBytes64(low) + high + xxhFold(low, high))
	case n <= 128:
		sum := size * xxh64Prime1
		for i := (n - 1) / 32; i >= 0; i-- {
			sum += xxhMix(b[16*i:], 32*i)
			sum += xxhMix(b[n-16*(i+1):], 32*i+16)
		}
		return xxhAvalanche(sum)
	case n <= 240:
		sum := size * xxh64Prime1
		for i := range 8 {
			sum += xxhMix(b[16*i:], 16*i)
		}
		sum = xxhAvalanche(sum)
		for i := 8; i < n/16; i++ {
			sum += xxhMix(b[16*i:], 16*(i-8)+3)
		}
		return xxhAvalanche(sum + xxhMix(b[n-16:], 136-17))
	}
	sums := [8]uint64{
		xxh32Prime3, xxh64Prime1, xxh64Prime2, xxh64Prime3,
		xxh64Prime4, xxh32Prime2, xxh64Prime5, xxh32Prime1,
	}
	const block = xxhStripe * xxhStripes
	rest := b
	for ; len(rest) > block; rest = rest[block:] {
		for i := range xxhStripes {
			xxhAdd(&sums, rest[xxhStripe*i:], 8*i)
		}
		for i := range sums {
			sums[i] = (sums[i] ^ sums[i]>>47 ^ xxhSecret64(len(xxhSecret)-xxhStripe+8*i)) * xxh32Prime1
		}
	}
	for i := range (len(rest) - 1) / xxhStripe {
		xxhAdd(&sums, rest[xxhStripe*i:], 8*i)
	}
	xxhAdd(&sums, b[n-xxhStripe:], len(xxhSecret)-xxhStripe-7)
	sum := size * xxh64Prime1
	for i := range 4 {
		sum += xxhFold(sums[2*i]^xxhSecret64(11+16*i), sums[2*i+1]^xxhSecret64(11+16*i+8))
	}
	return xxhAvalanche(sum)
}

// xxhAdd adds a stripe to the sums.
func xxhAdd(sums *[8]uint64, stripe []byte, secret int) {
	stripe = stripe[:xxhStripe]
	key := xxhSecret[secret : secret+xxhStripe]
	for i := 0; i < 8; i += 2 {
		a, b := binary.LittleEndian.Uint64(stripe[8*i:]), binary.LittleEndian.Uint64(stripe[8*i+8:])
		x, y := a^binary.LittleEndian.Uint64(key[8*i:]), b^binary.LittleEndian.Uint64(key[8*i+8:])
		sums[i] += b + uint64(uint32(x))*(x>>32)
		sums[i+1] += a + uint64(uint32(y))*(y>>32)
	}
}
