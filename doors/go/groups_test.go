package sapwood

import (
	"encoding/binary"
	"testing"
)

// groupBytes is a group of next hops of four bytes, as core/route/src/packed.rs has it.
func groupBytes(null uint32, members ...[2]uint32) []byte {
	var b []byte
	for _, word := range []uint32{groupMark, uint32(len(members)), 4, null, 2, 0} {
		b = binary.LittleEndian.AppendUint32(b, word)
	}
	for i := range members {
		b = binary.LittleEndian.AppendUint64(b, uint64(i)<<40)
	}
	for _, member := range members {
		b = binary.LittleEndian.AppendUint32(b, member[1])
	}
	for _, member := range members {
		b = binary.LittleEndian.AppendUint32(b, member[0])
	}
	return b
}

func TestGroupsOfBytes(t *testing.T) {
	for _, c := range []struct {
		bytes  []byte
		wanted string
		known  bool
	}{
		{groupBytes(0, [2]uint32{7, 1}, [2]uint32{8, 3}), "7 weight 1, 8 weight 3", true},
		{append(groupBytes(0, [2]uint32{7, 1}, [2]uint32{8, 3}), 0, 1, 1), "7 weight 1, 8 weight 3", true},
		{groupBytes(0, [2]uint32{7, 5}), "7", true},
		{groupBytes(0, [2]uint32{7, 0}), "7 weight 0", true},
		{groupBytes(0), "", true},
		{groupBytes(1), "blackhole", true},
		{groupBytes(4), "throw", true},
		{groupBytes(5), "", false},
		{groupBytes(1, [2]uint32{7, 1}), "", false},
		{groupBytes(0, [2]uint32{7, 1})[:30], "", false},
		// The older format began with the bytes of a list of buckets.
		{binary.LittleEndian.AppendUint32(make([]byte, 0, 64), 2048), "", false},
		{append([]byte{0, 8, 0, 0}, make([]byte, 60)...), "", false},
		{nil, "", false},
	} {
		hop, known := groupOf(c.bytes)
		if known != c.known || known && hop.String() != c.wanted {
			t.Errorf("%x: %v %v", c.bytes, hop, known)
		}
	}
	for at := range groupHead {
		damaged := groupBytes(0, [2]uint32{7, 1}, [2]uint32{8, 3})
		damaged[at] ^= 0xff
		_, _ = groupOf(damaged)
	}
}
